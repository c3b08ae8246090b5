"""When each part of a run happened, as its worker measured it.

A trace is evidence for operators, not a part of the result. If it cannot be read, the report counts without it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from callsheet.wire.reasons import reason_of

# A graph has some hundred nodes at most, and an engine refuses a chain of a thousand.
MAX_NODES = 1000
MAX_PHASES = 32
MAX_NODE_ID_LENGTH = 100
# Thirty days: longer than every run.
MAX_MS = 30 * 86_400_000


def _text(value: object) -> object:
    # A node's id is a number in some graphs.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _shown(text: str) -> str:
    """Removes characters that PostgreSQL cannot store, and control characters."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:MAX_NODE_ID_LENGTH])


NodeId = Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1), AfterValidator(_shown)]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_MS)]


class TimeSpan(BaseModel):
    """Milliseconds since the worker got the lease, by its monotonic clock."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    start_ms: Milliseconds
    end_ms: Milliseconds

    @model_validator(mode="after")
    def _in_order(self) -> TimeSpan:
        if self.end_ms < self.start_ms:
            raise ValueError("end_ms must not be before start_ms.")
        return self


class Phase(TimeSpan):
    """A part of the worker's own work, for example download, engine_queue, run or upload."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,39}$")]


class NodeTime(TimeSpan):
    """One execution of a node of the graph."""

    node_id: NodeId
    cached: bool = Field(False, description="The engine had the outputs of this node, and did not run it.")


class Trace(BaseModel):
    """When each part of a run happened."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phases: list[Phase] = Field(default_factory=list, max_length=MAX_PHASES)
    nodes: list[NodeTime] = Field(default_factory=list, max_length=MAX_NODES)
    nodes_left_out: int = Field(0, ge=0, le=2**31 - 1, description="Executions beyond the limit of `nodes`.")

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)


class UnreadableTrace(Trace):
    """A trace that was dropped, with the reason."""

    reason: str


def _readable(value: Any, read: ValidatorFunctionWrapHandler) -> Trace:
    """The trace. An invalid one is dropped, because a worker must not lose its result because of its trace."""
    try:
        trace: Trace = read(value)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        field = ".".join(("trace", *map(str, first["loc"])))
        return UnreadableTrace(reason=f"{field}: {reason_of(first)}")
    return trace


OptionalTrace = Annotated[Trace, WrapValidator(_readable)]
