"""The spending of a run, from the parts that the database adds up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from callsheet.pipelines.run.views import SpendingBounds, SpentPart, part_seconds, spending_view

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def bounds(minutes: float) -> SpendingBounds:
    return SpendingBounds(SINCE, SINCE + timedelta(minutes=minutes), budget=100, spent=30, held=10)


def test_parts_add_up_over_all_steps_and_end_with_the_total() -> None:
    spent = [SpentPart(1, 0, 5, 5), SpentPart(1, 2, 3, 3), SpentPart(2, 2, 12, 6)]
    shown = spending_view(bounds(4), spent, 4)
    assert [part.tokens for part in shown.parts] == [5, 0, 15, 0]
    assert [part.total for part in shown.parts] == [5, 5, 20, 20]
    assert [part.at for part in shown.parts] == [SINCE + timedelta(minutes=minute) for minute in (1, 2, 3, 4)]
    assert [(step.position, step.tokens, step.jobs) for step in shown.steps] == [(1, 8, 8), (2, 12, 6)]
    assert (shown.used, shown.held, shown.left) == (20, 10, 70)


def test_the_chart_of_a_new_run_has_parts_of_one_second() -> None:
    assert part_seconds(bounds(0), 60) == 1.0
    assert [part.total for part in spending_view(bounds(0), [], 2).parts] == [0, 0]
