"""What starts and ends the workers of a fleet: an Auto Scaling group, a Deployment, processes, a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from callsheet.scaling.policy import Policy


class DriverError(Exception):
    """Why a driver could not do what it was asked for: one sentence that operators read, without secrets."""


class OptionError(ValueError):
    """An option of a fleet that its driver cannot work with; `option` names it."""

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
    # The driver's name.
    driver: str
    # As `Driver.checked` returned them.
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Actual:
    """What exists, starting workers and draining ones included."""

    count: int
    # The ids that these workers register with. None where the driver cannot know them: every worker of the fleet then
    # counts as the driver's.
    worker_ids: frozenset[str] | None = None
    # Where workers can only go one after the other, in this order: a StatefulSet ends its highest pod first. Empty
    # where each of them can go.
    ending_order: tuple[str, ...] = ()
    # How many it was last told to have, where what it drives keeps that number and starts the rest as soon as it can.
    ordered: int | None = None


class Driver(Protocol):
    """Every method may be repeated: after a timeout that had acted, and after a crash that came before it was recorded.

    A failure raises DriverError. One call at a time per fleet.
    """

    name: str

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        """A fleet's options as they are kept, with defaults; raises OptionError. Reaches out to nothing.

        Options come over the API. They never say which program or file of this machine is run: that is for settings.
        """

    async def actual(self, fleet: ScaledFleet) -> Actual:
        """What exists now."""

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        """Makes so many workers exist, `on_demand` of them on-demand: an absolute number, at most the maximum.

        Draining workers that have not been ended are part of the number. Where more exist, nothing is ended: only `end`
        ends workers, and names them. Where more were ordered than exist, the rest is taken back.
        """

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        """Ends exactly these workers, which are drained and hold nothing, and does not replace them.

        Ids that are gone already are no error.
        """

    async def close(self) -> None:
        """Lets go of connections. Workers go on."""
