"""The end of a job wakes the collector, also of a job that was started while the collector read the database."""

from __future__ import annotations

from uuid import UUID

from callsheet.pipelines.run.open_jobs import OpenJobs

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


def test_a_job_that_is_added_during_a_read_is_kept() -> None:
    jobs = OpenJobs()
    jobs.add(FIRST)
    jobs.start_read()
    jobs.add(SECOND)
    jobs.finish_read([THIRD])
    assert set(jobs) == {SECOND, THIRD}
    assert str(SECOND) in jobs
    assert str(FIRST) not in jobs


def test_a_job_that_was_added_before_a_read_goes_when_the_read_does_not_find_it() -> None:
    jobs = OpenJobs()
    jobs.add(FIRST)
    for _ in range(2):
        jobs.start_read()
        jobs.finish_read([])
    assert set(jobs) == set()
