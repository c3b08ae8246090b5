"""Builds the waterfall of a job from its events, the times that its workers measured and the callbacks of its
providers. Pure.

Times come from several clocks: events from the database, the parts of an attempt from its worker. No span is negative,
starts before the span before it, or exceeds the span that contains it, even if the clocks differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from callsheet.wire.jobs import TERMINAL
from callsheet.wire.operate.waterfall import Span, SpanKind

CREATED, TRANSITION = "job.created", "job.transition"
_KINDS: Mapping[str, SpanKind] = {"pending": "accepted", "queued": "queued", "processing": "attempt"}


class JobTimes(NamedTuple):
    """The times in the row of the job. They stay when old events are deleted."""

    charge_cycle: int
    created_at: datetime
    submitted_at: datetime
    started_at: datetime | None


class StatusEvent(NamedTuple):
    """An event of the job."""

    seq: int
    event: str
    to_status: str | None
    actor: str
    reason: str | None
    at: datetime
    request_id: str | None = None


class ProviderCall(NamedTuple):
    """A call of a provider that calls back, with one of its deliveries, if there is one."""

    charge_cycle: int
    provider: str
    created_at: datetime
    reported_at: datetime | None
    ended_at: datetime | None
    status: str | None
    outcome: str | None
    deliveries: int | None
    received_at: datetime | None


@dataclass(slots=True)
class _Stage:
    """The time that a job had one status."""

    status: str
    at: datetime
    cycle: int
    worker_id: str | None = None
    reason: str | None = None
    # The number of the event that started this stage and ended the stage before.
    seq: int = 0
    attempt: int | None = None
    request_id: str | None = None


@dataclass(slots=True)
class _Tree:
    spans: list[Span] = field(default_factory=list)

    def add(
        self, kind: SpanKind, name: str, start: datetime, end: datetime, *, is_open: bool = False, **rest: Any
    ) -> Span:
        span = Span(
            id=str(len(self.spans) + 1),
            kind=kind,
            name=name,
            started_at=start,
            ended_at=None if is_open else end,
            duration_ms=max(0, round((end - start) / timedelta(milliseconds=1))),
            **rest,
        )
        self.spans.append(span)
        return span


def waterfall_of(
    job: JobTimes,
    events: Sequence[StatusEvent],
    traces: Mapping[int, Mapping[str, Any]],
    calls: Sequence[ProviderCall],
    now: datetime,
) -> list[Span]:
    """The spans of a job. `traces`: by the number of the event that ended the attempt."""
    stages = _stages(job, events)
    now = max([now, *(stage.at for stage in stages)])
    tree = _Tree()
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        _add_stage(tree, stage, following, now, traces)
    _add_calls(tree, calls, stages[0].at, now)
    return _ordered(tree.spans)


def _stages(job: JobTimes, events: Iterable[StatusEvent]) -> list[_Stage]:
    """Every status that the job had. No stage starts before the stage before it, even if a clock was set back."""
    stages = [_Stage("pending", job.created_at, 1)]
    attempts = 0
    for event in events:
        if event.event not in (CREATED, TRANSITION) or event.to_status is None:
            continue
        at = max(event.at, stages[-1].at)
        if event.event == CREATED:
            stages[-1].seq, stages[-1].request_id = event.seq, event.request_id
            continue
        cycle = stages[-1].cycle + (event.to_status == "pending")
        kind, _, name = event.actor.partition(":")
        stage = _Stage(event.to_status, at, cycle, name if kind == "worker" else None, event.reason, event.seq)
        stage.request_id = event.request_id
        if stage.status == "processing":
            attempts += 1
            stage.attempt = attempts
        stages.append(stage)
    return _with_deleted(job, stages)


def _with_deleted(job: JobTimes, stages: list[_Stage]) -> list[_Stage]:
    """Adds stages for deleted events. Retention deletes the events of old jobs, except retries and the end, so the
    times of the job itself are used.
    """
    if job.started_at is None or any(each.status == "processing" and each.cycle == job.charge_cycle for each in stages):
        return stages
    is_over = stages[-1].status in TERMINAL
    before, end = (stages[:-1], stages[-1:]) if is_over else (stages, [])
    last = before[-1] if before else stages[0]
    submitted = max(job.submitted_at, last.at)
    started = max(job.started_at, submitted)
    known = [_Stage("queued", submitted, job.charge_cycle), _Stage("processing", started, job.charge_cycle, attempt=1)]
    for each in end:
        each.at = max(each.at, started)
        each.cycle = job.charge_cycle
    return [*before, *known, *end]


def _add_stage(
    tree: _Tree, stage: _Stage, following: _Stage | None, now: datetime, traces: Mapping[int, Mapping[str, Any]]
) -> None:
    if stage.status in TERMINAL:
        tree.add(
            "ended",
            stage.status,
            stage.at,
            stage.at,
            charge_cycle=stage.cycle,
            outcome=stage.status,
            reason=stage.reason,
            request_id=stage.request_id,
        )
        return
    end = now if following is None else following.at
    is_attempt = stage.status == "processing"
    span = tree.add(
        _KINDS[stage.status],
        following.status if following else stage.status,
        stage.at,
        end,
        is_open=following is None,
        charge_cycle=stage.cycle,
        attempt=stage.attempt,
        worker_id=stage.worker_id if is_attempt else None,
        outcome=following.status if following else None,
        reason=following.reason if following and is_attempt else None,
        request_id=stage.request_id,
    )
    trace = traces.get(following.seq) if following and is_attempt else None
    if trace is not None:
        for kind, name, start, stop, cached in _parts(trace, stage.at, end):
            tree.add(
                kind,
                name,
                start,
                stop,
                parent_id=span.id,
                charge_cycle=stage.cycle,
                attempt=stage.attempt,
                worker_id=stage.worker_id,
                cached=cached,
            )


def _parts(
    trace: Mapping[str, Any], start: datetime, end: datetime
) -> Iterator[tuple[SpanKind, str, datetime, datetime, bool]]:
    """The parts that a worker measured, moved into the attempt: the worker's clock starts when the response to its
    poll arrives.
    """

    def moment(milliseconds: int) -> datetime:
        return min(end, start + timedelta(milliseconds=milliseconds))

    found: list[tuple[SpanKind, str, datetime, datetime, bool]] = [
        ("phase", each["name"], moment(each["start_ms"]), moment(each["end_ms"]), False)
        for each in trace.get("phases", ())
    ]
    found += [
        ("node", each["node_id"], moment(each["start_ms"]), moment(each["end_ms"]), bool(each.get("cached")))
        for each in trace.get("nodes", ())
    ]
    # A phase comes before the nodes that it contains.
    yield from sorted(found, key=lambda part: (part[2], part[0] == "node"))


def _add_calls(tree: _Tree, calls: Sequence[ProviderCall], first: datetime, now: datetime) -> None:
    parents: dict[tuple[int, str], str] = {}
    for call in calls:
        key = call.charge_cycle, call.provider
        if key not in parents:
            start = min(max(call.created_at, first), now)
            stop = call.reported_at or call.ended_at
            end = now if stop is None else min(max(stop, start), now)
            span = tree.add("provider", call.provider, start, end, is_open=stop is None, charge_cycle=call.charge_cycle)
            parents[key] = span.id
        if call.received_at is not None:
            at = min(max(call.received_at, first), now)
            tree.add(
                "callback",
                call.provider,
                at,
                at,
                charge_cycle=call.charge_cycle,
                outcome=call.status,
                reason=call.outcome,
                deliveries=call.deliveries,
            )


def _ordered(spans: Sequence[Span]) -> list[Span]:
    """The spans by start time. The parts of a span follow that span."""
    parts: dict[str, list[Span]] = {}
    for span in spans:
        if span.parent_id is not None:
            parts.setdefault(span.parent_id, []).append(span)
    roots = sorted((span for span in spans if span.parent_id is None), key=lambda span: span.started_at)
    return [each for root in roots for each in (root, *parts.get(root.id, ()))]
