"""Data for a user's decisions about a run: pairs in advance, branches, gates, spending, lists."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.api.test_candidates import PausedRun, ids
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi
from tests.support.pipelines.candidate_trees import COST


@pytest.fixture
async def local_paused_run(plane: ControlPlane, client: httpx.AsyncClient) -> PausedRun:
    """A paused run, with files on local storage."""
    return await PausedRun.open(plane, client)


async def judge(paused_run: PausedRun, one: UUID, other: UUID, verdict: str) -> httpx.Response:
    body = {"winner_id": str(one), "loser_id": str(other), "verdict": verdict}
    return await paused_run.ask("POST", paused_run.run("votes"), body)


async def test_pairs_in_advance_differ_and_the_response_counts_judged_pairs(local_paused_run: PausedRun) -> None:
    for _ in range(4):
        await local_paused_run.tree.candidate()
    child = await local_paused_run.tree.candidate(await local_paused_run.tree.candidate())
    await local_paused_run.tree.candidate((await local_paused_run.tree.row(child))["parent_id"])
    listed = await local_paused_run.get(local_paused_run.run("pairs?step=base&limit=20&seed=3"))
    assert (listed["judged"], listed["total"], listed["seed"]) == (0, 10, 3)
    assert len({frozenset(ids(pair)) for pair in listed["pairs"]}) == 10
    one = await local_paused_run.get(local_paused_run.run("pair?step=base&seed=3"))
    assert ids(one["candidates"]) == ids(listed["pairs"][0])
    left, right = ids(listed["pairs"][0])
    assert (await local_paused_run.vote(UUID(left), UUID(right))).status_code == 201
    after = await local_paused_run.get(local_paused_run.run("pairs?step=base&limit=20"))
    assert (after["judged"], after["total"], len(after["pairs"])) == (1, 10, 9)
    # All steps together: one pair more, of the second step.
    everything = await local_paused_run.get(local_paused_run.run("pairs"))
    assert (everything["judged"], everything["total"], len(everything["pairs"])) == (1, 11, 5)
    # A pair with a rejected candidate counts no more.
    await local_paused_run.ask("POST", f"/api/candidates/{left}/kill")
    killed = await local_paused_run.get(local_paused_run.run("pairs?step=base"))
    assert (killed["judged"], killed["total"]) == (0, 6)


async def test_both_raises_neither_lowers_both_ratings_and_an_undo_restores_them(local_paused_run: PausedRun) -> None:
    a, b, c = [await local_paused_run.tree.candidate() for _ in range(3)]
    both = (await judge(local_paused_run, a, b, "both")).json()
    assert (both["verdict"], both["elo_change"], both["both_change"]) == ("both", 0, 8)
    neither = (await judge(local_paused_run, c, b, "neither")).json()
    assert (neither["verdict"], neither["both_change"]) == ("neither", -8)
    assert await local_paused_run.tree.elo(a, b, c) == [1008, 1000, 992]
    again = await judge(local_paused_run, b, a, "both")
    assert (again.status_code, again.json()["id"]) == (200, both["id"])
    for verdict in ("winner", "neither"):
        other = await judge(local_paused_run, a, b, verdict)
        assert (other.status_code, other.json()["code"]) == (409, "conflict")
        assert both["id"] in other.json()["detail"]
    listed = (await local_paused_run.get(local_paused_run.run("votes")))["items"]
    assert [vote["verdict"] for vote in listed] == ["neither", "both"]
    assert (await local_paused_run.ask("DELETE", local_paused_run.run(f"votes/{both['id']}"))).status_code == 204
    assert await local_paused_run.tree.elo(a, b, c) == [1000, 992, 992]
    assert (await local_paused_run.ask("DELETE", local_paused_run.run(f"votes/{neither['id']}"))).status_code == 204
    assert await local_paused_run.tree.elo(a, b, c) == [1000, 1000, 1000]
    assert {row["votes"] for row in await local_paused_run.tree.rows()} == {0}
    unknown = await judge(local_paused_run, a, b, "maybe")
    assert unknown.status_code == 422
    assert [error["field"] for error in unknown.json()["errors"]] == ["verdict"]


async def test_a_branch_shows_what_a_kill_would_reject_and_refund(local_paused_run: PausedRun) -> None:
    tree = local_paused_run.tree
    active = "UPDATE pipeline_runs SET status = 'active', due_at = 'infinity' WHERE id = $1"
    await tree.core.rows(tree.ann.pool, active, tree.run_id)
    base, other = [await tree.candidate() for _ in range(2)]
    child = await tree.candidate(base)
    await tree.begin(child)
    await tree.begin(base)
    await tree.begin(other)
    preview = await local_paused_run.get(f"/api/candidates/{base}/branch")
    assert preview == {
        "candidate_id": str(base),
        "rejects": 2,
        "cancels_jobs": 2,
        "refund": 2 * COST,
        "restores": 0,
        "has_more": False,
    }
    before = await tree.core.balance(tree.ann)
    killed = (await local_paused_run.ask("POST", f"/api/candidates/{base}/kill")).json()
    assert (killed["rejected"], killed["canceled_jobs"]) == (preview["rejects"], preview["cancels_jobs"])
    assert await tree.core.balance(tree.ann) == before + preview["refund"]
    after = await local_paused_run.get(f"/api/candidates/{base}/branch")
    assert (after["rejects"], after["cancels_jobs"], after["refund"], after["restores"]) == (0, 0, 0, 2)
    restored = (await local_paused_run.ask("POST", f"/api/candidates/{base}/restore")).json()
    assert restored["restored"] == after["restores"]


async def test_a_gate_shows_how_many_children_an_approval_may_start_and_their_cost(
    plane: ControlPlane, client: httpx.AsyncClient
) -> None:
    paused_run = await PausedRun.open(plane, client, requires_approval=True)
    catalog_api = await CatalogApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
    effect = await catalog_api.effect(credits_cost=4)
    await paused_run.core.rows(
        paused_run.tree.ann.pool,
        "UPDATE pipeline_steps SET effect_id = $1, requires_approval = position < 3 WHERE tenant_id = $2",
        *(UUID(effect["id"]), paused_run.ann.tenant.id),
    )
    base = await paused_run.tree.candidate()
    await paused_run.tree.candidate()
    await paused_run.tree.candidate(base)
    first, second = await paused_run.get(paused_run.run("gates"))
    assert (first["step"]["slug"], first["next_step"]["slug"]) == ("base", "fix")
    assert (first["parents"], first["children"], first["price"], first["cost"]) == (2, 9, 4, 36)
    assert (second["parents"], second["children"], second["cost"]) == (1, 5, 20)
    assert first["approved_at"] is None
    await paused_run.ask("POST", paused_run.run("steps/base/approve"))
    assert (await paused_run.get(paused_run.run("gates")))[0]["approved_at"] is not None


async def test_the_spending_of_a_run_is_what_its_jobs_hold_and_have_used(local_paused_run: PausedRun) -> None:
    tree = local_paused_run.tree
    active = "UPDATE pipeline_runs SET status = 'active', due_at = 'infinity' WHERE id = $1"
    await tree.core.rows(tree.ann.pool, active, tree.run_id)
    base = await tree.candidate()
    jobs = [await tree.begin(None), await tree.begin(base), await tree.begin(base)]
    shown = await local_paused_run.get(local_paused_run.run("spending?parts=4"))
    assert (shown["budget"], shown["used"], shown["held"], shown["left"]) == (1000, 0, 30, 970)
    assert shown["steps"] == []
    await tree.core.rows(
        tree.ann.pool,
        "UPDATE candidate_slots SET status = 'made', settled_at = clock_timestamp() WHERE job_id = ANY ($1::uuid[])",
        [job.id for job in jobs[:2]],
    )
    # A canceled job whose tokens came back.
    await tree.core.room.cancellation.cancel(local_paused_run.ann.tenant.id, jobs[2].id, actor="test")
    await tree.core.rows(
        tree.ann.pool,
        "UPDATE candidate_slots SET status = 'canceled', settled_at = clock_timestamp() WHERE job_id = $1",
        jobs[2].id,
    )
    await tree.core.rows(tree.ann.pool, "UPDATE pipeline_runs SET spent = 20 WHERE id = $1", tree.run_id)
    shown = await local_paused_run.get(local_paused_run.run("spending?parts=4"))
    assert (shown["used"], shown["held"], shown["left"]) == (20, 0, 980)
    assert len(shown["parts"]) == 4
    assert shown["parts"][-1]["total"] == 20
    assert [(step["position"], step["tokens"], step["jobs"]) for step in shown["steps"]] == [(1, 10, 1), (2, 10, 1)]
    assert (await local_paused_run.ask("GET", local_paused_run.run("spending?parts=0"))).status_code == 422


async def test_a_list_of_runs_has_pipeline_progress_and_winners(local_paused_run: PausedRun) -> None:
    tree = local_paused_run.tree
    middle = await tree.candidate(await tree.candidate())
    leaves = [await tree.candidate(middle, elo=elo) for elo in (1000, 1100, 900)]
    [run] = (await local_paused_run.get("/api/runs?winners=2"))["items"]
    assert ids(run["winners"]) == [str(leaves[1]), str(leaves[0])]
    assert (run["pipeline_name"], run["leaves"], run["target_leaves"]) == ("Pipeline", 3, 10)
    slug = run["pipeline_slug"]
    assert ids((await local_paused_run.get(f"/api/runs?pipeline={slug}"))["items"]) == [str(tree.run_id)]
    assert (await local_paused_run.get("/api/runs"))["items"][0]["winners"] == []
    assert (await local_paused_run.ask("GET", "/api/runs?pipeline=nowhere")).status_code == 404
    stranger = await PausedRun.open(local_paused_run.plane, local_paused_run.client)
    assert ids((await stranger.get("/api/runs?winners=5"))["items"]) == [str(stranger.tree.run_id)]


async def test_candidates_are_found_by_their_ids_only_in_their_own_run(local_paused_run: PausedRun) -> None:
    mine = [await local_paused_run.tree.candidate() for _ in range(3)]
    stranger = await PausedRun.open(local_paused_run.plane, local_paused_run.client)
    theirs = await stranger.tree.candidate()
    query = "&".join(f"candidate_id={each}" for each in (mine[2], theirs, mine[0]))
    page: dict[str, Any] = await local_paused_run.get(local_paused_run.run(f"candidates?{query}"))
    assert ids(page["items"]) == [str(mine[2]), str(mine[0])]
    assert page["next_cursor"] is None
    many = "&".join(f"candidate_id={each}" for each in mine * 34)
    assert (await local_paused_run.ask("GET", local_paused_run.run(f"candidates?{many}"))).status_code == 422


async def test_a_tree_shows_why_a_candidate_was_rejected_and_what_is_being_made(local_paused_run: PausedRun) -> None:
    tree = local_paused_run.tree
    base = await tree.candidate(in_flight=2)
    child = await tree.candidate(base)
    await tree.candidate(child)
    surplus = await tree.candidate(base)
    query = "UPDATE candidates SET status = 'rejected', rejected_at = now(), rejected_with = id WHERE id = $1"
    await tree.core.rows(tree.ann.pool, query, surplus)
    await local_paused_run.ask("POST", f"/api/candidates/{child}/kill")
    nodes = (await local_paused_run.get(local_paused_run.run("tree")))["items"]
    assert [node["rejection"] for node in nodes] == [None, "killed", "killed_with_ancestor", "surplus"]
    assert [node["in_flight"] for node in nodes] == [2, 0, 0, 0]
    lineage = await local_paused_run.get(f"/api/candidates/{child}/lineage")
    assert [each["votes"] for each in lineage["ancestors"]] == [0, 0]
    assert [each["file"] for each in lineage["ancestors"]] == [None, None]
