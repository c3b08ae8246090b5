"""The state machine, exhaustively: every status with everything that can happen to it (G8)."""

from __future__ import annotations

import itertools
import re

import pytest

from callsheet.jobs.machine.states import PATHS, TRANSITIONS, Transition, diagram, path, target
from callsheet.plumbing.database.sql import statements
from callsheet.wire.jobs import ACTIVE, TERMINAL, JobStatus

TRANSITION_SQL = statements("callsheet.jobs.machine", "transition_statements.sql")

# As the architecture has it, row by row. None is a job that does not exist yet.
ALLOWED = {
    (None, "pending"),
    ("pending", "queued"),
    ("pending", "processing"),
    ("queued", "processing"),
    ("processing", "queued"),
    ("processing", "completed"),
    *itertools.product(("pending", "queued", "processing"), ("failed", "canceled")),
    ("processing", "expired"),
    ("failed", "pending"),
    ("expired", "pending"),
}
# The statuses from which each transition starts, and the status in which it ends.
EXPECTED = {
    "queue": ({"pending"}, "queued"),
    "start": ({"pending", "queued", "processing"}, "processing"),
    "start_synchronous": ({"pending", "queued"}, "processing"),
    "requeue": ({"processing"}, "queued"),
    "complete": ({"processing"}, "completed"),
    "fail": ({"pending", "queued", "processing"}, "failed"),
    "cancel": ({"pending", "queued", "processing"}, "canceled"),
    "expire": ({"processing"}, "expired"),
    "retry": ({"failed", "expired"}, "pending"),
}
EVERYTHING = list(itertools.product(Transition, JobStatus))


@pytest.mark.parametrize("pair", list(itertools.product([None, *JobStatus], JobStatus)), ids=str)
def test_a_transition_is_in_the_table_exactly_when_the_architecture_allows_it(
    pair: tuple[JobStatus | None, JobStatus],
) -> None:
    assert (pair in TRANSITIONS) is (pair in ALLOWED)


@pytest.mark.parametrize(("transition", "status"), EVERYTHING)
def test_a_transition_starts_from_the_allowed_statuses_and_no_others(transition: Transition, status: JobStatus) -> None:
    origins, end = EXPECTED[transition]
    steps = path(transition, status)
    assert (steps is not None) is (status in origins)
    if steps is not None:
        assert steps[0].from_status == status
        assert steps[-1].to_status == end == target(transition)
        assert all(before.to_status == after.from_status for before, after in itertools.pairwise(steps))
        assert all((step.from_status, step.to_status) in TRANSITIONS for step in steps)


def test_every_transition_and_every_status_is_covered() -> None:
    assert set(PATHS) == set(Transition) == set(EXPECTED)
    assert {status for pair in ALLOWED for status in pair} - {None} == set(JobStatus)
    assert set(JobStatus) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL


def test_every_transition_except_the_first_belongs_to_a_use_case() -> None:
    taken = {
        (step.from_status, step.to_status) for paths in PATHS.values() for steps in paths.values() for step in steps
    }
    assert set(TRANSITIONS) - taken == {(None, "pending")}


def test_statements_that_end_a_job_settle_it_and_a_retry_reserves_again() -> None:
    settling = re.compile(r"JOB_\w+|wallet_refund|wallet_consume")
    written = {name: set(settling.findall(one.text)) for name, one in TRANSITION_SQL.items()}
    assert written == {
        "queue_jobs": set(),
        "start_jobs": set(),
        "complete_jobs": {"wallet_consume"},
        "end_jobs": {"wallet_refund"},
        "retry_job": {"JOB_RESERVE"},
    }


def test_completed_and_canceled_are_final() -> None:
    assert {status for status in JobStatus if not any(origin == status for origin, _ in TRANSITIONS)} == {
        "completed",
        "canceled",
    }


def test_the_diagram_has_every_row_of_the_table() -> None:
    first, *lines = diagram().splitlines()
    assert first == "stateDiagram-v2"
    drawn = {tuple(line.partition(":")[0].split(" --> ")) for line in map(str.strip, lines)}
    final = {("completed", "[*]"), ("canceled", "[*]")}
    assert drawn == {(str(origin or "[*]"), str(status)) for origin, status in TRANSITIONS} | final
    assert len(lines) == len(TRANSITIONS) + len(final)
