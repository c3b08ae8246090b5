"""The waterfall of a job: in order, never negative and within the job's life, whatever clocks and workers say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.jobs.operate.waterfall import CREATED, TRANSITION, JobTimes, ProviderCall, StatusEvent, waterfall_of
from callsheet.wire.operate.waterfall import Span

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
NEXT: Mapping[str, tuple[str, ...]] = {
    "pending": ("queued", "processing", "canceled", "failed"),
    "queued": ("processing", "canceled", "failed"),
    "processing": ("queued", "completed", "failed", "canceled", "expired"),
    "failed": ("pending",),
    "expired": ("pending",),
    "completed": (),
    "canceled": (),
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def moved(seq: int, to_status: str, seconds: float, actor: str = "relay", reason: str | None = None) -> StatusEvent:
    return StatusEvent(seq, TRANSITION, to_status, actor, reason, at(seconds))


def job(started: float | None = None, cycle: int = 1) -> JobTimes:
    return JobTimes(cycle, START, START, None if started is None else at(started))


def brief(spans: list[Span]) -> list[tuple[str, str, float]]:
    return [(span.kind, span.name, span.duration_ms / 1000) for span in spans]


HISTORY = [
    StatusEvent(1, CREATED, "pending", "user:1", None, START),
    moved(2, "queued", 0.1),
    moved(3, "processing", 5, "worker:gpu-1"),
    moved(4, "queued", 9, "worker:gpu-1", "The run failed and will be retried: no memory"),
    moved(5, "processing", 30, "worker:gpu-2"),
    moved(6, "completed", 90, "worker:gpu-2"),
]
TRACE = {
    "phases": [{"name": "download", "start_ms": 0, "end_ms": 2000}, {"name": "run", "start_ms": 2000, "end_ms": 50000}],
    "nodes": [
        {"node_id": "1", "start_ms": 2000, "end_ms": 2000, "cached": True},
        {"node_id": "3", "start_ms": 2000, "end_ms": 49000},
        {"node_id": "9", "start_ms": 49000, "end_ms": 999000},
    ],
}


def test_a_waterfall_shows_each_wait_and_each_attempt_with_its_worker() -> None:
    spans = waterfall_of(job(30), HISTORY, {}, [], at(100))
    assert brief(spans) == [
        ("accepted", "queued", 0.1),
        ("queued", "processing", 4.9),
        ("attempt", "queued", 4.0),
        ("queued", "processing", 21.0),
        ("attempt", "completed", 60.0),
        ("ended", "completed", 0.0),
    ]
    attempts = [span for span in spans if span.kind == "attempt"]
    assert [(each.worker_id, each.attempt, each.reason) for each in attempts] == [
        ("gpu-1", 1, "The run failed and will be retried: no memory"),
        ("gpu-2", 2, None),
    ]


def test_parts_of_an_attempt_belong_to_the_attempt_that_its_report_ended() -> None:
    spans = waterfall_of(job(30), HISTORY, {6: TRACE}, [], at(100))
    [attempt] = [span for span in spans if span.worker_id == "gpu-2" and span.kind == "attempt"]
    parts = [span for span in spans if span.parent_id == attempt.id]
    assert [(each.kind, each.name, each.cached) for each in parts] == [
        ("phase", "download", False),
        ("phase", "run", False),
        ("node", "1", True),
        ("node", "3", False),
        ("node", "9", False),
    ]
    assert parts[3].duration_ms == 47000
    # A worker whose clock runs fast does not work past the end of its attempt.
    assert parts[4].ended_at == attempt.ended_at
    assert spans.index(parts[0]) == spans.index(attempt) + 1


def test_a_running_part_has_no_end_and_lasts_until_now() -> None:
    spans = waterfall_of(job(5), HISTORY[:3], {}, [], at(65))
    assert (spans[-1].kind, spans[-1].name, spans[-1].ended_at, spans[-1].duration_ms) == (
        "attempt",
        "processing",
        None,
        60_000,
    )


def test_a_retry_starts_the_next_charge_cycle() -> None:
    events = [*HISTORY[:3], moved(4, "failed", 9), moved(5, "pending", 20, "admin:7"), moved(6, "queued", 21)]
    spans = waterfall_of(job(None, 2), events, {}, [], at(25))
    assert [(span.kind, span.charge_cycle) for span in spans[-3:]] == [("ended", 1), ("accepted", 2), ("queued", 2)]


def test_refused_changes_and_deletions_are_left_out() -> None:
    odd = [StatusEvent(7, "job.transition_denied", "completed", "worker:gpu-1", None, at(95))]
    odd.append(StatusEvent(8, "job.deleted", "completed", "user:1", None, at(99)))
    assert waterfall_of(job(30), [*HISTORY, *odd], {}, [], at(100)) == waterfall_of(job(30), HISTORY, {}, [], at(100))


def test_old_jobs_whose_events_were_deleted_show_what_the_job_says() -> None:
    spans = waterfall_of(job(5), HISTORY[-1:], {}, [], at(100))
    assert [(span.kind, span.duration_ms) for span in spans] == [
        ("accepted", 0),
        ("queued", 5000),
        ("attempt", 85_000),
        ("ended", 0),
    ]


def test_calls_and_callbacks_of_a_provider_are_shown() -> None:
    delivered = ProviderCall(1, "replicate", at(6), at(40), at(41), "succeeded", "taken", 2, at(40))
    late = delivered._replace(received_at=at(95), outcome="late", deliveries=1)
    spans = waterfall_of(job(5), HISTORY[:3], {}, [delivered, late], at(100))
    assert brief([span for span in spans if span.kind in ("provider", "callback")]) == [
        ("provider", "replicate", 34.0),
        ("callback", "replicate", 0.0),
        ("callback", "replicate", 0.0),
    ]
    waiting = ProviderCall(1, "replicate", at(6), None, None, None, None, None, None)
    [span] = [each for each in waterfall_of(job(5), HISTORY[:3], {}, [waiting], at(100)) if each.kind == "provider"]
    assert (span.ended_at, span.duration_ms) == (None, 94_000)


MILLISECONDS = st.integers(0, 200_000)
SECONDS = st.floats(-50, 200, allow_nan=False)


@st.composite
def span_times(draw: st.DrawFn, **more: Any) -> dict[str, Any]:
    first, second = draw(MILLISECONDS), draw(MILLISECONDS)
    return {"start_ms": min(first, second), "end_ms": max(first, second), **more}


@st.composite
def histories(draw: st.DrawFn) -> tuple[JobTimes, list[StatusEvent], dict[int, Any], list[ProviderCall]]:
    """A path through the state machine at any times, some of its events deleted, with traces and callbacks."""
    status, cycle, started = "pending", 1, None
    events, traces = [StatusEvent(1, CREATED, "pending", "user:1", None, START)], {}
    for seq in range(2, draw(st.integers(2, 14))):
        if not NEXT[status]:
            break
        before, status = status, draw(st.sampled_from(NEXT[status]))
        moment = draw(SECONDS)
        cycle += status == "pending"
        started = moment if status == "processing" else None if status == "pending" else started
        events.append(moved(seq, status, moment, draw(st.sampled_from(["worker:a", "worker:b", "reaper"]))))
        if before == "processing" and draw(st.booleans()):
            nodes = draw(st.lists(span_times(node_id="3"), max_size=4))
            traces[seq] = {"nodes": nodes, "phases": draw(st.lists(span_times(name="run"), max_size=3))}
    if draw(st.booleans()):
        events = [each for each in events[:-1] if each.to_status == "pending" and each.seq > 1] + events[-1:]
    moment = st.one_of(st.none(), SECONDS.map(at))
    calls = [
        ProviderCall(1, "p", at(draw(SECONDS)), draw(moment), draw(moment), "ok", "taken", 1, draw(moment))
        for _ in range(draw(st.integers(0, 3)))
    ]
    return job(started, cycle), events, traces, calls


@settings(max_examples=60, deadline=None)
@given(histories(), SECONDS)
def test_no_duration_is_negative_and_everything_is_in_order_within_the_life_of_the_job(
    history: tuple[JobTimes, list[StatusEvent], dict[int, Any], list[ProviderCall]], now: float
) -> None:
    spans = waterfall_of(*history, at(now))
    latest = max([at(now), *(span.started_at for span in spans)])
    by_id = {span.id: span for span in spans}
    assert len(by_id) == len(spans)
    roots = [span for span in spans if span.parent_id is None]
    assert all(one.started_at <= other.started_at for one, other in pairwise(roots))
    for span in spans:
        end = latest if span.ended_at is None else span.ended_at
        assert START <= span.started_at <= end <= latest
        assert abs(span.duration_ms - (end - span.started_at) / timedelta(milliseconds=1)) <= 1
        if span.parent_id is not None:
            parent = by_id[span.parent_id]
            assert parent.started_at <= span.started_at
            assert parent.ended_at is not None
            assert end <= parent.ended_at
    for parent in roots:
        parts = [span for span in spans if span.parent_id == parent.id]
        assert all(one.started_at <= other.started_at for one, other in pairwise(parts))
        first = spans.index(parent) + 1
        assert spans[first : first + len(parts)] == parts
    # Waits and attempts follow each other without a gap.
    stages = [span for span in roots if span.kind in ("accepted", "queued", "attempt", "ended")]
    assert stages[0].started_at == START
    assert all(one.ended_at == other.started_at for one, other in pairwise(stages) if one.kind != "ended")
