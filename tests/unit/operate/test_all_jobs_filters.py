"""The index that finds the jobs of a filter, and pages that are put together from several pools."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from callsheet.operate.all_jobs.filters import ResolvedFilter, fitting, id_in
from callsheet.operate.all_jobs.lists import AllJobsRow, PoolPage, merged
from callsheet.wire.jobs import JobStatus
from callsheet.wire.operate.all_jobs import BulkActionKind, JobFilter

ONE, TWO = UUID(int=1), UUID(int=2)


def source(**wanted: Any) -> str:
    return ResolvedFilter(JobFilter.model_validate(wanted)).source


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "all"),
        ({"status": ["queued"]}, "active"),
        ({"status": ["queued", "failed"]}, "all"),
        ({"status": ["failed", "expired"]}, "unsuccessful"),
        ({"status": ["failed", "completed"]}, "ended"),
        ({"tenant_id": str(ONE)}, "tenant"),
        ({"tenant_id": str(ONE), "status": ["processing"]}, "active"),
        ({"tenant_id": str(ONE), "user_id": str(TWO)}, "user"),
        ({"fingerprint": "0123456789abcdef", "user_id": str(TWO)}, "error"),
        ({"fingerprint": "0123456789abcdef", "job_id": [str(ONE)]}, "ids"),
        ({"q": str(ONE)}, "ids"),
        ({"q": "red car", "kind": ["effect"], "workflow": ["upscale"]}, "all"),
    ],
)
def test_the_source_with_the_fewest_jobs_is_read(wanted: dict[str, Any], expected: str) -> None:
    assert source(**wanted) == expected


def test_ids_of_several_filters_are_intersected() -> None:
    wanted = JobFilter(job_id=[ONE, TWO], q=str(TWO))
    assert ResolvedFilter(wanted).job_ids == [TWO]
    assert ResolvedFilter(wanted, worker_job_ids=frozenset({ONE})).job_ids == []
    assert ResolvedFilter(JobFilter(), worker_job_ids=frozenset()).source == "ids"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("red car", None),
        (f" {TWO} ", TWO),
        (TWO.hex.upper(), TWO),
        (f"tq_{TWO.hex}", TWO),
        ("x" * 32, None),
        ("{" + "0" * 30 + "}", None),
    ],
)
def test_an_id_in_the_search_field_is_read_as_an_id(text: str | None, found: UUID | None) -> None:
    assert id_in(text) == found


def test_an_action_takes_only_the_statuses_that_it_can_change() -> None:
    assert fitting(BulkActionKind.RETRY, []) == [JobStatus.EXPIRED, JobStatus.FAILED]
    assert fitting(BulkActionKind.CANCEL, [JobStatus.QUEUED, JobStatus.FAILED]) == [JobStatus.QUEUED]
    assert fitting(BulkActionKind.SET_PRIORITY, [JobStatus.COMPLETED]) == []


def row(number: int) -> AllJobsRow:
    values: dict[str, Any] = dict.fromkeys(AllJobsRow._fields)
    return AllJobsRow(**values | {"id": UUID(int=number)})


def page(*numbers: int, end: int | None = None) -> PoolPage:
    return PoolPage([row(number) for number in numbers], None if end is None else UUID(int=end))


@pytest.mark.parametrize(
    ("pages", "shown", "end"),
    [
        ([page()], [], None),
        ([page(9, 7), page(8)], [9, 8, 7], None),
        # One pool has more: what the other one has below that waits.
        ([page(9, 8, 7, 6, end=6), page(5, 4)], [9, 8, 7], 7),
        ([page(9, end=8), page(7, 6)], [9], 8),
        ([page(end=4), page(9, 3)], [9], 4),
        ([page(9, 5), page(8, end=2), page(7, end=3)], [9, 8, 7], 7),
        # Two tenants with a job of the same id.
        ([page(9, 8, 7), page(7, 6)], [9, 8, 7, 7], 7),
    ],
)
def test_pages_of_pools_become_one_without_gaps(pages: list[PoolPage], shown: list[int], end: int | None) -> None:
    rows, next_one = merged(pages, 3)
    assert [each.id.int for each in rows] == shown
    assert next_one == (None if end is None else UUID(int=end))
