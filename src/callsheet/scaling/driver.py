"""Drivers start and end the workers of a fleet: an Auto Scaling group, a Deployment, processes, a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from callsheet.scaling.policy import Policy


class DriverError(Exception):
    """A call of a driver failed. The message is one sentence for operators, without secrets."""


class OptionError(ValueError):
    """An option of a fleet that its driver cannot use; `option` names it."""

    def __init__(self, option: str, reason: str):
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScaledFleet:
    """A fleet as its driver sees it."""

    id: int
    slug: str
    stage: str
    policy: Policy
    driver: str
    # As `Driver.checked` returned them.
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Actual:
    """The existing workers, including starting and draining ones."""

    count: int
    # The ids that these workers register with. None if the driver cannot know them: then every worker of the fleet
    # counts as the driver's.
    worker_ids: frozenset[str] | None = None
    # The order, if workers can only be ended in a fixed one: a StatefulSet ends its highest pod first. Empty if any
    # worker can be ended.
    ending_order: tuple[str, ...] = ()
    # The last ordered number, if the driven system stores it and starts missing workers as soon as it can.
    ordered: int | None = None


class Driver(Protocol):
    """Every method may be called again: after a timeout of a call that took effect, or a crash before it was recorded.

    A failure raises DriverError. Each fleet has one call at a time.
    """

    name: str
    # One sentence for operators: which workers the driver starts and ends.
    about: str

    def options_schema(self) -> Mapping[str, Any]:
        """Returns the JSON schema of a fleet's options, for forms. `checked` decides."""

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        """Returns a fleet's options as they are stored, with defaults; raises OptionError. Contacts no other system.

        Options come from the API. They never name a program or file of this machine to run: only settings do.
        """

    async def actual(self, fleet: ScaledFleet) -> Actual:
        """Returns the existing workers."""

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        """Makes `wanted` workers exist, `on_demand` of them on-demand: an absolute number, at most the maximum.

        The number includes draining workers that have not been ended. If more exist, none is ended: only `end` ends
        workers, by id. If more were ordered than exist, the rest of the order is canceled.
        """

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        """Ends exactly these workers, which are drained and hold no lease, and does not replace them.

        An id that is already gone is not an error.
        """

    async def close(self) -> None:
        """Closes connections. Workers continue."""
