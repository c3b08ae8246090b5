"""What the worker asks of an engine, whichever it is: take files, run a graph, say how it goes, give the results.

A provider of this kind has no memory of jobs: the caller knows its runs by the ids it gave them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from callsheet.providers.comfy.socket_images import Kept

from callsheet.providers.errors import ProviderError

Graph = dict[str, dict[str, Any]]


class EngineError(ProviderError):
    """A run that ended badly."""


class EngineUnreachable(EngineError):
    """No answer, or none that makes sense: nothing is known about any run. `may_have_arrived` is false where the
    request was certainly not sent."""

    def __init__(self, message: str, *, may_have_arrived: bool = True, **details: Any):
        super().__init__("engine_unreachable", message, retryable=True, details=details)
        self.may_have_arrived = may_have_arrived


class EngineStuck(EngineError):
    """It responds, but runs nothing any more: only a restart helps, so it must get no further job."""

    def __init__(self, message: str, **details: Any):
        super().__init__("engine_stuck", message, retryable=True, details=details)


class NotBegun(EngineError):
    """The run ended before the engine worked on it: the job goes back to the queue, and its attempt does not count."""

    def __init__(self, type: str, message: str, **details: Any):
        super().__init__(type, message, retryable=True, details=details)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a graph. `id` is ours, new for every attempt; `output_node` is whose files count, if not all.
    `is_suspect`: an earlier one stopped its engine for good."""

    id: str
    graph: Graph
    output_node: str | None = None
    extra_data: Mapping[str, Any] = field(default_factory=dict)
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """Something a run made: a file to be fetched, or a text or an image that is here already."""

    node_id: str
    name: str
    folder: str = ""
    store: str = "output"
    text: str | None = None
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """An output on our own disk."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Description:
    """What an engine is, for admins: its version and its devices."""

    version: str | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an engine can run: the classes of nodes and the model files it has, and its version."""

    node_classes: frozenset[str]
    models: frozenset[str]
    versions: tuple[str, ...] = ()


@runtime_checkable
class TellsInventory(Protocol):
    """An engine that can be asked what it has."""

    async def inventory(self) -> Inventory:
        """Raises EngineError where it does not answer."""
        ...


class Watcher(Protocol):
    """Receives the progress of a run. Called often and from the run's own task: it must not wait."""

    def started(self) -> None:
        """The engine works on the run; before, it waited behind others. May be called more than once."""
        ...

    def progressed(self, percent: float | None, message: str | None) -> None: ...

    def previewed(self, mime_type: str, picture: bytes) -> None: ...


class Engine(Protocol):
    provider: str

    async def describe(self) -> Description:
        """Raises EngineError where it cannot take a job now."""
        ...

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        """Gives it a file; returns what a graph calls it by."""
        ...

    async def share(self, path: Path, name: str) -> str:
        """The same with a file that later runs use too and whose name identifies its content: one that the engine still
        has is not sent again. Runs leave it behind."""
        ...

    async def run(self, run: Run, watcher: Watcher) -> Sequence[Output]:
        """Submits and follows to the end. Cancelled, it leaves the engine as it is: call `cancel`."""
        ...

    def id_of(self, run_id: str) -> str:
        """What the engine itself calls the run, from its submission until it is forgotten."""
        ...

    async def cancel(self, run_id: str) -> bool:
        """Takes the run out of the queue or stops it, and no other. Never raises EngineError. Returns whether the
        engine is free for the next one."""
        ...

    async def fetch(self, output: Output, target: Path) -> Fetched:
        """Writes the output to a new file, piece by piece."""
        ...

    async def forget(self, run_id: str) -> None:
        """Removes what the run left behind, as far as that can be reached. Never raises EngineError."""
        ...

    async def close(self) -> None: ...
