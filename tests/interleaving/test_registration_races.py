"""Workers that come, go, are thrown out and change their tokens at the same moment, on two control planes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from callsheet.fleet.audit import Event
from callsheet.fleet.credentials import TokenCredential
from callsheet.fleet.registry import WorkerRegistry
from callsheet.fleet.room import FleetRoom
from callsheet.fleet.tokens import hash_token
from callsheet.jobs.outcomes import Settlement
from callsheet.plumbing.database import Database
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import AlreadyRegistered, Conflict, Forbidden, NotAuthenticated, NotFound
from callsheet.wire.fleet import CreatedFleetToken, CreateFleetRequest, RegisterAnswer, RegisterRequest
from tests.support.core import Row
from tests.support.fleet_api import LOCAL, bearer, join, registry
from tests.support.race import Race
from tests.support.race_control import open_transaction, paused_at, start_blocked

LOCK_REGISTRATIONS = "SELECT pg_advisory_xact_lock(hashtextextended('callsheet registrations', 0))"
LOCK_WORKER = "SELECT 1 FROM comfyui_workers WHERE worker_id = $1 FOR UPDATE"


@dataclass(slots=True)
class Gate:
    """Two registries over the same databases, with nothing shared in memory."""

    race: Race
    one: FleetRoom
    two: FleetRoom
    slug: str

    @property
    def central(self) -> Database:
        return self.race.central

    async def join(self, worker_id: str = "gpu-1") -> RegisterAnswer:
        return await join(self.one, worker_id, self.slug)

    async def rows(self, query: str, *values: object) -> list[Row]:
        return await self.race.one.rows(self.central, query, *values)

    async def sessions(self) -> list[str | None]:
        return [row["end_reason"] for row in await self.rows("SELECT end_reason FROM worker_sessions ORDER BY id")]

    async def events(self, *kinds: str) -> list[str]:
        rows = await self.rows("SELECT event FROM worker_audit_logs ORDER BY id")
        return [row["event"] for row in rows if not kinds or row["event"] in kinds]

    async def dispatch(self) -> tuple[str, int]:
        [row] = await self.rows(
            "SELECT status, attempts FROM ai_job_dispatches WHERE workflow_id <> $1", self.race.aside
        )
        return row["status"], row["attempts"]

    async def silent_for(self, seconds: float) -> None:
        await self.rows("UPDATE comfyui_workers SET last_seen_at = last_seen_at - make_interval(secs => $1)", seconds)


@pytest.fixture
async def gate(race: Race) -> Gate:
    rooms = [registry(core.databases, core.room.lease_reports) for core in (race.one, race.two)]
    [row] = await race.one.rows(race.central, "SELECT slug FROM workflows WHERE id = $1", race.one.workflow)
    return Gate(race, rooms[0], rooms[1], row["slug"])


def kinds(answers: Sequence[object]) -> list[str]:
    return sorted(type(answer).__name__ for answer in answers)


async def both(gate: Gate, *registries: tuple[WorkerRegistry, str]) -> list[Any]:
    """Registrations that all wait for their turn before any of them has looked."""
    requests = [(room, RegisterRequest(worker_id=name, workflow_slugs=[gate.slug])) for room, name in registries]
    async with open_transaction(gate.central, LOCK_REGISTRATIONS):
        tasks = await start_blocked(gate.central, *(room.register(request, LOCAL) for room, request in requests))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_of_two_registrations_of_one_id_one_is_accepted(gate: Gate) -> None:
    answers = await both(gate, (gate.one.registry, "gpu-1"), (gate.two.registry, "gpu-1"))
    assert kinds(answers) == ["AlreadyRegistered", "RegisterAnswer"]
    assert await gate.sessions() == [None]
    [accepted] = [answer for answer in answers if isinstance(answer, RegisterAnswer)]
    assert (await gate.two.authentication.of(bearer(accepted.token))).worker_id == "gpu-1"


async def test_of_two_registrations_for_the_last_place_one_is_accepted(gate: Gate) -> None:
    one, two = [
        registry(core.databases, core.room.lease_reports, max_workers=1) for core in (gate.race.one, gate.race.two)
    ]
    answers = await both(gate, (one.registry, "gpu-1"), (two.registry, "gpu-2"))
    assert kinds(answers) == ["Forbidden", "RegisterAnswer"]
    [count] = await gate.rows("SELECT count(*) FROM comfyui_workers")
    assert count["count"] == 1


async def test_two_agents_that_take_over_a_dead_one_put_its_job_back_once(gate: Gate) -> None:
    await gate.race.submit()
    await gate.join()
    await gate.race.one.start("gpu-1")
    await gate.silent_for(91)
    answers = await both(gate, (gate.one.registry, "gpu-1"), (gate.two.registry, "gpu-1"))
    assert kinds(answers) == ["AlreadyRegistered", "RegisterAnswer"]
    assert await gate.sessions() == ["registered anew", None]
    assert await gate.dispatch() == ("queued", 1)
    assert await gate.events("lease_put_back") == ["lease_put_back"]


async def test_a_revocation_that_comes_first_keeps_the_registration_out(gate: Gate) -> None:
    await gate.join()
    await gate.silent_for(91)
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            gate.central, gate.two.workers.revoke("gpu-1", "operator"), join(gate.one, "gpu-1", gate.slug)
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, Forbidden)
    assert not isinstance(revoked, BaseException)
    assert await gate.sessions() == ["revoked"]


async def test_a_fleet_is_not_deleted_under_a_worker_that_joins_it(gate: Gate) -> None:
    fleet = await gate.one.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[gate.slug]), "operator")
    request = RegisterRequest(worker_id="gpu-1", fleet_slug="gpu")
    async with open_transaction(gate.central, "SELECT 1 FROM gpu_fleets WHERE id = $1 FOR KEY SHARE", fleet.id):
        await gate.one.registry.register(request, LOCAL)
        [deletion] = await start_blocked(gate.central, gate.two.fleets.delete(fleet.id, "operator"))
    with pytest.raises(Conflict):
        await deletion
    assert (await gate.one.workers.get("gpu-1")).workflows == [gate.slug]


async def test_a_worker_cannot_join_a_fleet_that_is_being_deleted(gate: Gate) -> None:
    fleet = await gate.one.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[gate.slug]), "operator")
    async with open_transaction(gate.central, "DELETE FROM gpu_fleets WHERE id = $1", fleet.id):
        work = gate.one.registry.register(RegisterRequest(worker_id="gpu-1", fleet_slug="gpu"), LOCAL)
        [joining] = await start_blocked(gate.central, work)
    with pytest.raises(NotFound):
        await joining


async def test_a_lease_given_before_a_revocation_is_taken_back_by_it(gate: Gate) -> None:
    job = await gate.race.submit()
    registered = await gate.join()
    await gate.one.authentication.of(bearer(registered.token), for_poll=True)
    await gate.race.one.start("gpu-1")
    await gate.two.workers.revoke("gpu-1", "operator")
    assert await gate.dispatch() == ("queued", 1)
    assert await gate.race.one.status(gate.race.ann, job.id) == "queued"


async def test_a_poll_that_was_let_in_before_a_revocation_keeps_nothing(gate: Gate) -> None:
    job = await gate.race.submit()
    registered = await gate.join()
    await gate.one.authentication.of(bearer(registered.token), for_poll=True)
    await gate.two.workers.revoke("gpu-1", "operator")
    # The poll goes on, and gets its lease after everything of this worker was put back.
    await gate.race.one.start("gpu-1")
    with pytest.raises(NotAuthenticated):
        await gate.one.authentication.of(bearer(registered.token), for_poll=True)
    await gate.two.sweeper.tick(SystemClock().now())
    assert await gate.dispatch() == ("queued", 1)
    assert await gate.race.one.status(gate.race.ann, job.id) == "queued"


async def test_a_poll_that_crosses_a_good_bye_keeps_nothing_and_costs_no_attempt(gate: Gate) -> None:
    job = await gate.race.submit()
    registered = await gate.join()
    worker = await gate.one.authentication.of(bearer(registered.token), for_poll=True)
    await gate.two.registry.deregister(worker, "shutdown")
    await gate.race.one.start("gpu-1")
    await gate.two.sweeper.tick(SystemClock().now())
    assert await gate.dispatch() == ("queued", 0)
    assert await gate.race.one.status(gate.race.ann, job.id) == "queued"


async def test_what_an_earlier_session_holds_goes_back_and_the_new_sessions_own_stays(gate: Gate) -> None:
    for _ in range(2):
        await gate.race.submit()
    await gate.join()
    earlier, own = await gate.race.one.start("gpu-1"), await gate.race.one.start("gpu-1")
    query = "UPDATE ai_job_dispatches SET last_leased_at = last_leased_at - interval '1 h' WHERE dispatch_id = $1"
    await gate.rows(query, earlier.lease.dispatch_id)
    await gate.two.sweeper.tick(SystemClock().now())
    rows = await gate.rows("SELECT dispatch_id, status FROM ai_job_dispatches")
    statuses = {row["dispatch_id"]: row["status"] for row in rows}
    assert (statuses[earlier.lease.dispatch_id], statuses[own.lease.dispatch_id]) == ("queued", "leased")


async def test_two_first_uses_of_a_new_token_are_both_let_in_and_make_it_the_token_once(gate: Gate) -> None:
    old = (await gate.join()).token
    await gate.one.workers.rotate_token("gpu-1", "operator")
    pending = [(await room.authentication.of(bearer(old))).rotated_token for room in (gate.one, gate.two)]
    assert pending[0] == pending[1]
    new = pending[0]
    assert new is not None
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            gate.central, *(room.authentication.of(bearer(new)) for room in (gate.one, gate.two))
        )
    used = await asyncio.gather(*tasks)
    assert [principal.rotated_token for principal in used] == [None, None]
    assert await gate.events("token_adopted") == ["token_adopted"]
    for room in (gate.one, gate.two):
        with pytest.raises(NotAuthenticated):
            await room.authentication.of(bearer(old))
        assert (await room.authentication.of(bearer(new))).worker_id == "gpu-1"


async def test_a_new_token_whose_first_use_meets_a_revocation_opens_nothing(gate: Gate) -> None:
    old = (await gate.join()).token
    await gate.one.workers.rotate_token("gpu-1", "operator")
    new = (await gate.one.authentication.of(bearer(old))).rotated_token
    assert new is not None
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        revoking, using = await start_blocked(
            gate.central,
            gate.two.workers.revoke("gpu-1", "operator"),
            gate.one.authentication.of(bearer(new)),
        )
    await revoking
    with pytest.raises(NotAuthenticated):
        await using


async def test_two_rotations_at_once_are_one(gate: Gate) -> None:
    old = (await gate.join()).token
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            gate.central, *(room.workers.rotate_token("gpu-1", "operator") for room in (gate.one, gate.two))
        )
    await asyncio.gather(*tasks)
    assert await gate.events("rotate_token") == ["rotate_token"]
    new = (await gate.one.authentication.of(bearer(old))).rotated_token
    assert new is not None
    await gate.two.authentication.of(bearer(new))


async def test_two_sweepers_remove_a_worker_once(gate: Gate) -> None:
    await gate.join()
    await gate.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, gate.one.sweeper.sweep()) as first:
        await gate.two.sweeper.sweep()
    await first
    assert await gate.sessions() == ["stale"]
    assert await gate.events("removed_as_stale") == ["removed_as_stale"]


async def test_a_sweep_waits_for_a_lease_under_way_and_leaves_its_worker(gate: Gate) -> None:
    """The sweeper has found the worker stale; the lease is committed before the worker is removed."""
    job = await gate.race.submit()
    registered = await gate.join()
    await gate.silent_for(301)
    async with gate.central.transaction() as connection:
        # A lease that has asked whether its worker is drained, and is not committed yet.
        await connection.fetchval("SELECT drained_workers(ARRAY['gpu-1'])")
        [sweeping] = await start_blocked(gate.central, gate.one.sweeper.sweep())
        await connection.execute(
            """UPDATE ai_job_dispatches SET status = 'leased', worker_id = 'gpu-1', lease_token = gen_random_uuid(),
                   lease_seq = 1, attempts = 1, leased_at = now(), last_leased_at = now(),
                   lease_expires_at = now() + interval '1 h' WHERE tenant_job_id = $1 AND tenant_id = $2""",
            job.id,
            gate.race.ann.tenant_id,
        )
    await sweeping
    assert await gate.sessions() == [None]
    assert await gate.dispatch() == ("leased", 1)
    assert (await gate.two.authentication.of(bearer(registered.token))).worker_id == "gpu-1"


async def test_a_lease_that_waits_for_a_sweep_is_put_back_by_the_next_one(gate: Gate) -> None:
    """Its poll was let in before the worker was removed."""
    job = await gate.race.submit()
    await gate.join()
    await gate.silent_for(301)
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        # The sweeper has the lock that leases wait for, and waits for the worker's row.
        sweeping, leasing = await start_blocked(gate.central, gate.one.sweeper.sweep(), gate.race.one.lease("gpu-1"))
    await sweeping
    assert await leasing is not None
    assert await gate.sessions() == ["stale"]
    await gate.two.sweeper.tick(SystemClock().now())
    assert await gate.dispatch() == ("queued", 1)
    assert await gate.race.one.status(gate.race.ann, job.id) == "queued"


async def test_a_heartbeat_on_its_way_keeps_the_worker_of_a_lease_that_is_about_to_run_out(gate: Gate) -> None:
    await gate.race.submit()
    await gate.join()
    started = await gate.race.one.start("gpu-1")
    await gate.race.one.expire_lease(started.lease.dispatch_id)
    await gate.silent_for(301)
    async with gate.central.transaction() as connection:
        await connection.execute(
            "UPDATE ai_job_dispatches SET lease_expires_at = now() + interval '1 h' WHERE dispatch_id = $1",
            started.lease.dispatch_id,
        )
        # Neither waits for the other: what ran out is taken back by the reaper, which looks at the row itself.
        await gate.one.sweeper.sweep()
    await gate.race.one.reap()
    await gate.one.sweeper.sweep()
    assert await gate.sessions() == [None]
    assert await gate.dispatch() == ("leased", 1)


async def test_of_two_that_take_the_same_lease_back_one_writes_it_down(gate: Gate) -> None:
    await gate.race.submit()
    await gate.join()
    await gate.race.one.start("gpu-1")
    await gate.silent_for(91)
    async with open_transaction(gate.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE"):
        tasks = await start_blocked(gate.central, gate.join(), gate.two.workers.revoke("gpu-1", "operator"))
    await asyncio.gather(*tasks)
    assert await gate.dispatch() == ("queued", 1)
    assert await gate.events("lease_put_back") == ["lease_put_back"]
    assert [row["jobs_requeued"] for row in await gate.rows("SELECT * FROM worker_sessions ORDER BY id")] in (
        [1, 0],
        [0, 1],
    )
    assert (await gate.one.workers.get("gpu-1")).revoked_at is not None


async def test_a_lease_that_another_worker_has_by_now_is_left_to_it(gate: Gate) -> None:
    job = await gate.race.submit()
    await gate.join()
    await gate.race.one.start("gpu-1")
    await gate.silent_for(91)
    async with open_transaction(gate.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE") as connection:
        [joining] = await start_blocked(gate.central, gate.join())
        # Meanwhile it was reaped, and given to another worker.
        await connection.execute(
            """UPDATE ai_job_dispatches SET past_lease_tokens = past_lease_tokens || lease_token, worker_id = 'gpu-2',
                   lease_token = gen_random_uuid(), lease_seq = lease_seq + 1 WHERE tenant_job_id = $1
               AND status = 'leased'""",
            job.id,
        )
    await joining
    [row] = await gate.rows("SELECT worker_id FROM ai_job_dispatches WHERE status = 'leased'")
    assert row["worker_id"] == "gpu-2"
    assert await gate.sessions() == ["registered anew", None]


async def test_a_worker_that_is_heard_of_again_while_it_is_swept_stays(gate: Gate) -> None:
    registered = await gate.join()
    await gate.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, gate.one.sweeper.sweep()) as sweeping:
        await gate.two.authentication.of(bearer(registered.token))
        await gate.two.authentication.presence.tick(SystemClock().now())
    await sweeping
    assert await gate.sessions() == [None]
    assert (await gate.one.authentication.of(bearer(registered.token))).worker_id == "gpu-1"


async def test_a_worker_that_registers_anew_while_it_is_swept_stays(gate: Gate) -> None:
    await gate.join()
    await gate.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, gate.one.sweeper.sweep()) as sweeping:
        again = await join(gate.two, "gpu-1", gate.slug)
    await sweeping
    assert await gate.sessions() == ["registered anew", None]
    assert (await gate.one.authentication.of(bearer(again.token))).worker_id == "gpu-1"


async def test_a_good_bye_of_an_old_session_does_not_end_the_new_one(gate: Gate) -> None:
    old = await gate.one.authentication.of(bearer((await gate.join()).token))
    async with paused_at(Failpoint.DEREGISTER_BEFORE_REMOVE, gate.one.registry.deregister(old, "too late")) as leaving:
        await gate.silent_for(91)
        again = await join(gate.two, "gpu-1", gate.slug)
    await leaving
    assert await gate.sessions() == ["registered anew", None]
    assert (await gate.one.authentication.of(bearer(again.token))).worker_id == "gpu-1"


async def test_an_id_that_says_good_bye_may_come_back_at_once(gate: Gate) -> None:
    registered = await gate.join()
    principal = await gate.one.authentication.of(bearer(registered.token))
    async with paused_at(Failpoint.DEREGISTER_BEFORE_REMOVE, gate.one.registry.deregister(principal, None)) as leaving:
        with pytest.raises(AlreadyRegistered):
            await join(gate.two, "gpu-1", gate.slug)
    await leaving
    await join(gate.two, "gpu-1", gate.slug)
    assert await gate.sessions() == ["deregistered: it said good-bye", None]


async def test_two_control_planes_that_write_about_the_same_sessions_do_not_stop_each_other(gate: Gate) -> None:
    sessions = [
        (await gate.rows("INSERT INTO worker_sessions (worker_id, stage) VALUES ($1, 's') RETURNING id", name))[0]["id"]
        for name in ("a", "b")
    ]

    def event(session: int) -> Event:
        settled = Settlement(1, uuid7(), gate.race.one.workflow, None, 1.0, 1.0)
        return Event("w", session, "complete", "worker:w", settled=settled, outcome="completed")

    works = [
        room.audit.record(event(session))
        for _ in range(20)
        for room, order in ((gate.one, sessions), (gate.two, sessions[::-1]))
        for session in order
    ]
    await asyncio.gather(*works)
    rows = await gate.rows("SELECT busy_seconds, jobs_completed FROM worker_sessions")
    assert [(row["busy_seconds"], row["jobs_completed"]) for row in rows] == [(40.0, 40), (40.0, 40)]
    [timing] = await gate.rows("SELECT samples, average_seconds FROM workflow_timings")
    assert (timing["samples"], timing["average_seconds"]) == (80, 1.0)


async def new_fleet_token(gate: Gate) -> tuple[CreatedFleetToken, TokenCredential]:
    fleet = await gate.one.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[gate.slug]), "operator")
    created = await gate.one.fleet_tokens.create(fleet.id, None, "operator")
    return created, TokenCredential(hash_token(created.token))


async def test_a_registration_under_a_revocation_of_its_token_is_refused(gate: Gate) -> None:
    token, credential = await new_fleet_token(gate)
    async with open_transaction(gate.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id):
        tasks = await start_blocked(
            gate.central,
            gate.two.fleet_tokens.revoke(token.id, "operator"),
            join(gate.one, "gpu-1", credential=credential),
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert not isinstance(revoked, BaseException)
    assert isinstance(refused, NotAuthenticated)
    assert await gate.rows("SELECT 1 FROM comfyui_workers") == []


async def test_a_registration_before_a_revocation_of_its_token_is_valid(gate: Gate) -> None:
    token, credential = await new_fleet_token(gate)
    async with open_transaction(gate.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id):
        tasks = await start_blocked(
            gate.central,
            join(gate.one, "gpu-1", credential=credential),
            gate.two.fleet_tokens.revoke(token.id, "operator"),
        )
    registered, revoked = await asyncio.gather(*tasks)
    assert isinstance(registered, RegisterAnswer)
    assert (await gate.one.authentication.of(bearer(registered.token))).is_approved
    assert revoked.workers == 1


async def test_a_token_that_is_rotated_while_a_worker_registers_lets_it_in(gate: Gate) -> None:
    token, credential = await new_fleet_token(gate)
    async with open_transaction(gate.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id):
        tasks = await start_blocked(
            gate.central,
            gate.two.fleet_tokens.rotate(token.id, 60, "operator"),
            join(gate.one, "gpu-1", credential=credential),
        )
    rotated, registered = await asyncio.gather(*tasks)
    assert isinstance(registered, RegisterAnswer)
    await join(gate.one, "gpu-2", credential=TokenCredential(hash_token(rotated.token)))


async def test_a_token_that_is_rotated_without_overlap_keeps_out_who_registers_behind_it(gate: Gate) -> None:
    token, credential = await new_fleet_token(gate)
    async with open_transaction(gate.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id):
        tasks = await start_blocked(
            gate.central,
            gate.two.fleet_tokens.rotate(token.id, 0, "operator"),
            join(gate.one, "gpu-1", credential=credential),
        )
    _, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, NotAuthenticated)


async def test_of_two_rotations_of_a_token_one_makes_its_successor(gate: Gate) -> None:
    token, _ = await new_fleet_token(gate)
    async with open_transaction(gate.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id):
        tasks = await start_blocked(
            gate.central, *(room.fleet_tokens.rotate(token.id, 60, "operator") for room in (gate.one, gate.two))
        )
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert kinds(answers) == ["Conflict", "CreatedFleetToken"]
    [count] = await gate.rows("SELECT count(*) FROM fleet_tokens")
    assert count["count"] == 2


async def test_a_worker_that_registers_under_another_id_while_it_is_revoked_with_its_token_stays_out(
    gate: Gate,
) -> None:
    _, credential = await new_fleet_token(gate)
    await join(gate.one, "gpu-1", credential=credential)
    async with open_transaction(gate.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            gate.central,
            gate.two.workers.revoke("gpu-1", "operator", with_token=True),
            join(gate.one, "gpu-2", credential=credential),
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert not isinstance(revoked, BaseException)
    assert isinstance(refused, NotAuthenticated)


async def test_a_fleet_that_is_deleted_while_a_worker_registers_with_its_token_ends_in_one_of_both(gate: Gate) -> None:
    token, credential = await new_fleet_token(gate)
    async with open_transaction(gate.central, "DELETE FROM gpu_fleets WHERE id = $1", token.fleet_id):
        [joining] = await start_blocked(gate.central, join(gate.one, "gpu-1", credential=credential))
    with pytest.raises(NotAuthenticated):
        await joining
