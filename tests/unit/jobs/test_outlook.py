"""What a job may expect, as a table: facts in, place, time and reason out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callsheet.jobs.lease.provider_gate import Pause
from callsheet.jobs.show.outlook import NO_WORKERS, Facts, NoWorkers, outlook
from callsheet.wire.jobs import JobStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BUSY = NoWorkers(live_workers=2, slots=2, busy=2)
FREE = NoWorkers(live_workers=2, slots=2, busy=0)


def queued(ahead: int | None = 0, **facts: Any) -> Facts:
    return Facts(JobStatus.QUEUED, NOW, ahead=ahead, **facts)


def running(seconds: float | None, **facts: Any) -> Facts:
    since = None if seconds is None else NOW - timedelta(seconds=seconds)
    return Facts(JobStatus.PROCESSING, NOW, running_since=since, **facts)


@pytest.mark.parametrize(
    ("ahead", "position", "text"),
    [(0, 1, "1"), (1, 2, "2"), (998, 999, "999"), (999, 1000, "1000"), (1000, 1000, "1000+"), (1001, 1000, "1000+")],
)
def test_a_place_in_the_queue_is_exact_up_to_a_thousand(ahead: int, position: int, text: str) -> None:
    found = outlook(queued(ahead), BUSY)
    assert (found.queue_position, found.queue_position_text) == (position, text)


@pytest.mark.parametrize(
    ("facts", "capacity", "code", "message"),
    [
        (queued(0), NO_WORKERS, "no_live_worker", "No worker that can run this job is online."),
        (queued(7), NO_WORKERS, "no_live_worker", "No worker that can run this job is online."),
        (queued(0), NoWorkers(scaling_up=True), "scaling_up", "Workers that can run this job are starting."),
        (
            queued(0),
            NoWorkers(scaling_up=True, starts_in_seconds=38.2),
            "scaling_up",
            "A worker that can run this job starts in about 40 seconds.",
        ),
        (
            queued(0),
            NoWorkers(scaling_up=True, starts_in_seconds=-7.0),
            "scaling_up",
            "A worker that can run this job starts in about 5 seconds.",
        ),
        (queued(1), BUSY, "ahead", "1 job is ahead of this job."),
        (queued(12), BUSY, "ahead", "12 jobs are ahead of this job."),
        (queued(1000), BUSY, "ahead", "1000 jobs are ahead of this job."),
        (queued(1001), BUSY, "ahead", "More than 1000 jobs are ahead of this job."),
        (
            queued(3),
            NoWorkers(1, 1, 1, scaling_up=True),
            "ahead",
            "3 jobs are ahead of this job. More workers are starting.",
        ),
        (queued(0), BUSY, "workers_at_capacity", "The job is next, but no slot of 2 workers is free."),
        (queued(0), NoWorkers(1, 4, 4), "workers_at_capacity", "The job is next, but no slot of 1 worker is free."),
        (queued(0), FREE, "next", "The job is next. A worker will take it in a moment."),
        (
            queued(3, limit=2, in_use=2),
            FREE,
            "provider_at_limit",
            "The provider's limit of 2 concurrent jobs is reached.",
        ),
        (
            queued(0, pause=Pause(NOW + timedelta(seconds=27.2))),
            FREE,
            "provider_paused",
            "The provider does not respond. The next attempt is in 28 seconds.",
        ),
        (
            queued(0, pause=Pause(None)),
            FREE,
            "provider_paused",
            "The provider did not respond. One job at a time tests it.",
        ),
        (queued(0, limit=0), FREE, "provider_at_limit", "Jobs of this provider are paused."),
        (
            queued(4, running_limits=((9, 3), (2, 2))),
            FREE,
            "user_at_limit",
            "2 jobs of yours are running, which is the limit for one user.",
        ),
        (
            queued(4, running_limits=((1, 1), (2, 0))),
            FREE,
            "tenant_at_limit",
            "1 job of your tenant is running, which is the limit for one tenant.",
        ),
        (
            queued(0, running_limits=((2, 1), (2, 1))),
            FREE,
            "next",
            "The job is next. A worker will take it in a moment.",
        ),
        # A limit that has room delays no job.
        (queued(0, limit=3, in_use=2), FREE, "next", "The job is next. A worker will take it in a moment."),
        # Without a worker, the limit is not what it waits for.
        (queued(0, limit=2, in_use=2), NO_WORKERS, "no_live_worker", "No worker that can run this job is online."),
        (
            queued(5, not_before=NOW + timedelta(seconds=29.5)),
            NO_WORKERS,
            "retry_at",
            "The job failed. The next attempt is in 30 seconds.",
        ),
        # Its time has come; the lane keeper lets it in within half a second.
        (
            queued(0, not_before=NOW - timedelta(seconds=1)),
            FREE,
            "next",
            "The job is next. A worker will take it in a moment.",
        ),
        (Facts(JobStatus.PENDING, NOW), BUSY, "accepted", "The job was accepted and will be in the queue in a moment."),
    ],
)
def test_a_waiting_job_gives_its_reason(facts: Facts, capacity: NoWorkers, code: str, message: str) -> None:
    why = outlook(facts, capacity).why_waiting
    assert why is not None
    assert (why.code, why.message) == (code, message)


def test_the_reason_includes_its_numbers() -> None:
    later = NOW + timedelta(seconds=5)
    reasons = [
        outlook(queued(1001), BUSY).why_waiting,
        outlook(queued(2, limit=1, in_use=1), BUSY).why_waiting,
        outlook(queued(2, not_before=later), BUSY).why_waiting,
    ]
    assert [(why.ahead, why.retry_at) for why in reasons if why] == [(1000, None), (2, None), (None, later)]


def test_a_running_job_waits_for_nothing() -> None:
    found = outlook(running(3), BUSY)
    assert (found.queue_position, found.queue_position_text, found.why_waiting) == (0, "0", None)


@pytest.mark.parametrize(
    ("facts", "eta"),
    [
        (running(30, average_seconds=100.0), 70),
        # Longer than the average: a tenth of what it took so far, so that it never says "now" for an hour.
        (running(100, average_seconds=100.0), 10),
        (running(1000, average_seconds=100.0), 100),
        (running(None, average_seconds=100.0), 100),
        (running(30), None),
        # What the worker says is better than any average.
        (running(30, average_seconds=100.0, percent=50.0, elapsed_seconds=20.0, reported_at=NOW), 20),
        (running(30, percent=50.0, reported_at=NOW), 30),
        (running(30, percent=75.0, elapsed_seconds=30.0, reported_at=NOW - timedelta(seconds=4)), 6),
        (running(30, percent=99.0, elapsed_seconds=20.0, reported_at=NOW - timedelta(seconds=9)), 0),
        (running(30, percent=100.0, elapsed_seconds=30.0, reported_at=NOW), 0),
        # The first few percent say nothing yet.
        (running(30, average_seconds=100.0, percent=1.0, elapsed_seconds=30.0, reported_at=NOW), 70),
        (running(30, average_seconds=100.0, percent=0.0, elapsed_seconds=30.0, reported_at=NOW), 70),
        (running(None, percent=50.0, reported_at=NOW), None),
    ],
)
def test_the_estimated_end_of_a_running_job_is_correct(facts: Facts, eta: int | None) -> None:
    assert outlook(facts).eta_seconds == eta


@pytest.mark.parametrize(
    ("facts", "capacity", "eta"),
    [
        # A free slot: its own run.
        (queued(0, average_seconds=60.0), FREE, 60),
        (queued(1, average_seconds=60.0), FREE, 60),
        # Two slots, both taken: one of them is free after half a run.
        (queued(0, average_seconds=60.0), BUSY, 90),
        (queued(9, average_seconds=60.0), BUSY, 360),
        (queued(2, average_seconds=60.0), FREE, 90),
        # The worker that starts for it, and then its own run.
        (queued(0, average_seconds=60.0), NoWorkers(scaling_up=True, starts_in_seconds=40.0), 100),
        (queued(1, average_seconds=60.0), NoWorkers(scaling_up=True, starts_in_seconds=40.0), None),
        # More jobs in hand than slots (a prefetched lease) do not make the room negative.
        (queued(0, average_seconds=60.0), NoWorkers(1, 1, 2), 120),
        # The limit is narrower than the workers.
        (queued(3, average_seconds=60.0, limit=1, in_use=1), FREE, 300),
        (queued(0, average_seconds=60.0, limit=0), FREE, None),
        (queued(0, average_seconds=60.0, not_before=NOW + timedelta(seconds=300)), FREE, 360),
        (queued(0), BUSY, None),
        (queued(0, average_seconds=60.0), NO_WORKERS, None),
        (queued(1001, average_seconds=2.0), BUSY, 1004),
        (Facts(JobStatus.PENDING, NOW, average_seconds=60.0), BUSY, None),
    ],
)
def test_the_estimated_end_of_a_waiting_job_is_correct(facts: Facts, capacity: NoWorkers, eta: int | None) -> None:
    assert outlook(facts, capacity).eta_seconds == eta


def test_a_paused_provider_has_no_estimated_time() -> None:
    assert outlook(queued(0, average_seconds=10.0), FREE).eta_seconds == 10
    assert outlook(queued(0, average_seconds=10.0, pause=Pause(NOW)), FREE).eta_seconds is None
