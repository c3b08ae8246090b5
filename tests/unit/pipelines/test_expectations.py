"""How many candidates a run is expected to make. `tests/integration/test_run_previews.py` compares with real runs."""

from __future__ import annotations

import pytest

from callsheet.pipelines.run.expectations import Link, expected_candidates
from callsheet.wire.pipelines.pipelines import Strategy

DEEP, WIDE = Strategy.FINISH_FIRST, Strategy.BREADTH_FIRST


@pytest.mark.parametrize(
    ("chain", "target", "strategy", "expected"),
    [
        ([Link(5)], 3, DEEP, [3]),
        ([Link(4), Link(4), Link(9)], 16, DEEP, [1, 4, 16]),
        ([Link(2), Link(1), Link(5)], 3, DEEP, [2, 4, 4]),
        ([Link(3), Link(2), Link(5)], 12, DEEP, [2, 6, 12]),
        # A base is made as a whole, so there may be more leaves than asked for.
        ([Link(3), Link(2), Link(5)], 7, DEEP, [2, 6, 12]),
        ([Link(2), Link(5)], 4, WIDE, [4, 8]),
        ([Link(2, top_k=3), Link(5)], 8, WIDE, [8, 6]),
        ([Link(2, top_k=30), Link(5)], 8, WIDE, [8, 16]),
        # Only a run that fills a step before the next one knows the best of the step.
        ([Link(2, top_k=1), Link(5)], 4, DEEP, [2, 4]),
    ],
)
def test_children_multiply_from_step_to_step(
    chain: list[Link], target: int, strategy: Strategy, expected: list[int]
) -> None:
    assert expected_candidates(chain, target, strategy) == expected
