"""The parent of the next child among very many: chosen without reading them, with the same result as reading all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from callsheet.pipelines.run.parent_draws import ROUNDS, SAMPLES, draw_parent
from callsheet.pipelines.run.selection import Draw, first_accepted
from tests.support.jobs.core import Core, Member
from tests.support.pipelines.candidate_trees import Tree

# Of these every third may have a child, and every seventh of them has no points.
MADE = 300
MAKE = """
INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, job_id, output_index, file_id, seed, elo,
    child_count, max_children)
SELECT $1::uuid, gen_random_uuid(), $2::uuid, n, $3::uuid, 1, $4::uuid, n, $1, 1,
    CASE WHEN n % 7 = 0 THEN 0 ELSE 500 + n END, CASE WHEN n % 3 = 0 THEN 0 ELSE 5 END, 5
FROM generate_series(1, $5::integer) n
"""


@pytest.fixture
async def tree(core: Core, ann: Member) -> Tree:
    tree = await Tree.plant(core, ann)
    async with ann.pool.connection() as connection:
        await connection.execute(MAKE, ann.tenant_id, tree.run_id, tree.step_ids[0], tree.job_id, MADE)
    return tree


def step(tree: Tree) -> dict[str, Any]:
    return {"tenant_id": tree.ann.tenant_id, "run_id": tree.run_id, "position": 1}


async def test_a_draw_among_many_candidates_equals_a_draw_over_all_of_them(tree: Tree) -> None:
    elos = {row["number"]: row["elo"] for row in await tree.rows() if row["child_count"] < 5}
    highest = max(row["elo"] for row in await tree.rows())
    async with tree.ann.pool.connection() as connection:
        for number in range(50):
            draw, again = Draw(7, number), Draw(7, number)
            chosen = await draw_parent(connection, step(tree), draw, few=10)
            assert chosen == first_accepted(again.samples(min(elos), max(elos), highest, SAMPLES), elos)
            assert elos[chosen] > 0
            assert draw.seed() == again.seed()


async def test_a_draw_among_few_candidates_reads_all_of_them(tree: Tree) -> None:
    rows = [row for row in await tree.rows() if row["child_count"] < 5]
    async with tree.ann.pool.connection() as connection:
        for number in range(20):
            draw, again = Draw(7, number), Draw(7, number)
            chosen = await draw_parent(connection, step(tree), draw, few=len(rows))
            assert chosen == rows[again.parent([row["elo"] for row in rows])]["number"]


async def test_a_candidate_with_all_the_points_is_found_although_its_number_is_rarely_sampled(tree: Tree) -> None:
    query = "UPDATE candidates SET elo = CASE WHEN number = 150 THEN 1000000 ELSE number / 300 END WHERE run_id = $1"
    await tree.core.rows(tree.ann.pool, query, tree.run_id)
    async with tree.ann.pool.connection() as connection:
        found = Counter([await draw_parent(connection, step(tree), Draw(7, n), few=10) for n in range(5)])
    # 300 numbers and at most this many samples: one of them may well never have come up.
    assert SAMPLES * ROUNDS < 2 * MADE
    assert found == {150: 5}


async def test_no_parent_is_drawn_if_no_candidate_may_have_a_child(tree: Tree) -> None:
    await tree.core.rows(tree.ann.pool, "UPDATE candidates SET failure_count = 3 WHERE run_id = $1", tree.run_id)
    async with tree.ann.pool.connection() as connection:
        assert await draw_parent(connection, step(tree), Draw(7, 1)) is None
