"""The interface of engines for workers: upload files, run a graph, report progress and return results.

A provider of this kind does not store jobs: the caller knows its runs by the ids that it gave them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from callsheet.providers.comfy.run_messages import StoredImage

from callsheet.providers.comfy.node_forms import NodeForms
from callsheet.providers.errors import ProviderError

Graph = dict[str, dict[str, Any]]


class EngineError(ProviderError):
    """A run failed."""


class EngineUnreachable(EngineError):
    """The engine did not respond, or not with a valid response: the state of all runs is unknown. `may_have_arrived`
    is false if the request was certainly not sent.
    """

    def __init__(self, message: str, *, may_have_arrived: bool = True, **details: Any):
        super().__init__("engine_unreachable", message, retryable=True, details=details)
        self.may_have_arrived = may_have_arrived


class EngineStuck(EngineError):
    """The engine responds but runs nothing. Only a restart helps, so it must not get another job."""

    def __init__(self, message: str, **details: Any):
        super().__init__("engine_stuck", message, retryable=True, details=details)


@dataclass(frozen=True, slots=True)
class EngineLack:
    """A part of a graph that the engine does not have: the class of a node, or a choice of one of its inputs."""

    node_id: str
    node_class: str
    input_name: str | None = None
    value: str | None = None


class EngineLacks(EngineError):
    """The engine refused a graph only because it lacks node classes or choices, such as a model file. Another engine
    may have them.
    """

    def __init__(self, message: str, lacks: Sequence[EngineLack], details: Mapping[str, Any]):
        super().__init__("invalid_workflow", message, details=details)
        self.lacks = tuple(lacks)


class NotStarted(EngineError):
    """The run ended before the engine worked on it. The job goes back to the queue, and its attempt does not count."""

    def __init__(self, type: str, message: str, **details: Any):
        super().__init__(type, message, retryable=True, details=details)


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One execution of a graph. `id` is ours, and new for every attempt. `output_node`: the node whose files count, if
    not all.

    `is_suspect`: an earlier run stopped its engine permanently.
    """

    id: str
    graph: Graph
    output_node: str | None = None
    extra_data: Mapping[str, Any] = field(default_factory=dict)
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a run: a file to fetch, or a text or an image that was already received."""

    node_id: str
    name: str
    folder: str = ""
    store: str = "output"
    text: str | None = None
    kept: StoredImage | None = None


@dataclass(frozen=True, slots=True)
class FetchedOutput:
    """An output that was saved on the disk of the worker."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Version and devices of an engine, to show to admins."""

    version: str | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of an engine: its node classes, its model files and its version."""

    node_classes: frozenset[str]
    models: frozenset[str]
    versions: tuple[str, ...] = ()
    # Packages of nodes that are not part of the engine, by the name of their folder.
    custom_nodes: frozenset[str] = frozenset()
    # The versions of those packages whose version the engine reports.
    custom_node_versions: Mapping[str, str] = field(default_factory=dict)
    # Types, limits and choices of the inputs of the node classes.
    forms: NodeForms = field(default_factory=dict)


@runtime_checkable
class HasInventory(Protocol):
    """An engine that can list its node classes and models."""

    async def inventory(self) -> Inventory:
        """Raises EngineError if the engine does not respond."""
        ...


NodeState = Literal["cached", "started", "finished"]


class Watcher(Protocol):
    """Receives the progress of a run. Called often, in the task of the run: it must not block."""

    def started(self) -> None:
        """The engine has started the run, which waited before. This may be called more than once."""
        ...

    def progressed(self, percent: float | None, message: str | None) -> None: ...

    def previewed(self, mime_type: str, image: bytes) -> None: ...

    def freed(self) -> None:
        """The engine has ended the run and can take the next one. The result was not read yet. An engine that does
        not report this calls nothing: the end of `run` means the same."""
        ...

    def at_node(self, node_id: str, state: NodeState) -> None:
        """A node of the graph was found in the engine's cache, was started or has ended, as far as it is known."""
        ...


class Engine(Protocol):
    provider: str

    async def describe(self) -> EngineDescription:
        """Raises EngineError if the engine cannot take a job now."""
        ...

    async def upload(self, path: Path, name: str, run_id: str) -> str:
        """Uploads a file. Returns the name of the file for graphs."""
        ...

    async def share(self, path: Path, name: str) -> str:
        """Like `upload`, for a file that later runs use too and whose name identifies its content: a file that the
        engine still has is not sent again. Runs do not remove it.
        """
        ...

    async def run(self, run: EngineRun, watcher: Watcher) -> Sequence[Output]:
        """Submits the run and waits for its end. If this is cancelled, the engine continues: call `cancel`."""
        ...

    def id_of(self, run_id: str) -> str:
        """The id that the engine gave the run, from its submission until `forget`."""
        ...

    async def cancel(self, run_id: str) -> bool:
        """Removes the run from the queue or stops it, and no other run. Never raises EngineError. Returns whether
        the engine is free for the next run.
        """
        ...

    async def fetch(self, output: Output, target: Path) -> FetchedOutput:
        """Writes the output to a new file, in pieces."""
        ...

    async def forget(self, run_id: str) -> None:
        """Removes files of the run that this worker can access. Never raises EngineError."""
        ...

    async def close(self) -> None: ...
