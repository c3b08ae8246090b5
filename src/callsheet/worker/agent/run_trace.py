"""Records when each part of one run happened, for the report of the run. The record is bounded and sent once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from callsheet.providers.engine import NodeState
from callsheet.wire.worker.traces import MAX_MS, MAX_NODES, MAX_PHASES


@dataclass(slots=True)
class _Span:
    name: str
    start: float
    end: float | None = None
    cached: bool = False


class RunTrace:
    """The times of one run, from the moment when the agent got the lease."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._origin = clock()
        self._phases: list[_Span] = []
        self._nodes: list[_Span] = []
        self._open: dict[str, _Span] = {}
        self._left_out = 0
        self._engine: _Span | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        span = self._start(name)
        try:
            yield
        finally:
            self._end(span)

    @contextmanager
    def at_engine(self) -> Iterator[None]:
        """Covers the time from the submission to the end of the run. The phase changes when the engine starts the
        run.
        """
        self._engine = self._start("engine_queue")
        try:
            yield
        finally:
            if self._engine is not None:
                self._end(self._engine)
            self._engine = None

    def run_started(self) -> None:
        if self._engine is not None and self._engine.name == "engine_queue":
            self._end(self._engine)
            self._engine = self._start("run")

    def at_node(self, node_id: str, state: NodeState) -> None:
        now = self._clock()
        if state == "finished":
            span = self._open.pop(node_id, None)
            if span is not None:
                span.end = now
            return
        if len(self._nodes) >= MAX_NODES:
            self._left_out += 1
            return
        span = _Span(node_id, now, now if state == "cached" else None, state == "cached")
        self._nodes.append(span)
        if state == "started":
            self._open[node_id] = span

    def as_report(self) -> dict[str, Any]:
        """The field of the report. Parts that have not ended end now: the run was stopped in them."""
        now = self._clock()
        phases = [{"name": span.name, **self._times(span, now)} for span in self._phases]
        report: dict[str, Any] = {
            # A wait of no length is left out, but not a run that was shorter than a millisecond.
            "phases": [each for each in phases if each["start_ms"] != each["end_ms"] or each["name"] == "run"],
            "nodes": [
                {"node_id": span.name, **self._times(span, now)} | ({"cached": True} if span.cached else {})
                for span in self._nodes
            ],
        }
        return report | ({"nodes_left_out": self._left_out} if self._left_out else {})

    def _start(self, name: str) -> _Span:
        span = _Span(name, self._clock())
        if len(self._phases) < MAX_PHASES:
            self._phases.append(span)
        return span

    def _end(self, span: _Span) -> None:
        span.end = self._clock()

    def _times(self, span: _Span, now: float) -> dict[str, int]:
        return {
            "start_ms": self._milliseconds(span.start),
            "end_ms": self._milliseconds(now if span.end is None else span.end),
        }

    def _milliseconds(self, moment: float) -> int:
        return min(MAX_MS, max(0, round((moment - self._origin) * 1000)))
