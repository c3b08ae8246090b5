"""Workers that come, go, are thrown out and change their tokens at the same moment, on two control planes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from callsheet.fleet.protocol.authentication import hash_token
from callsheet.fleet.registry.credentials import TokenCredential
from callsheet.fleet.registry.registry import WorkerRegistry
from callsheet.fleet.registry.worker_log import Event
from callsheet.fleet.room import FleetRoom
from callsheet.jobs.lease.outcomes import Settlement
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import Conflict, Forbidden, NotAuthenticated, NotFound
from callsheet.wire.fleet import CreatedFleetToken, CreateFleetRequest, RegisterRequest, RegisterResponse
from callsheet.wire.worker.errors import AlreadyRegistered
from tests.support.http.fleet_api import LOCAL, bearer, join, registry
from tests.support.jobs.core import Row
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LOCK_REGISTRATIONS = "SELECT pg_advisory_xact_lock(hashtextextended('callsheet registrations', 0))"
LOCK_WORKER = "SELECT 1 FROM comfyui_workers WHERE worker_id = $1 FOR UPDATE"


@dataclass(slots=True)
class TwoRegistries:
    """Two registries over the same databases, with nothing shared in memory."""

    race: Race
    one: FleetRoom
    two: FleetRoom
    slug: str

    @property
    def central(self) -> Database:
        return self.race.central

    async def join(self, worker_id: str = "gpu-1") -> RegisterResponse:
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
async def two_registries(race: Race) -> TwoRegistries:
    """Two registries of workers over the same databases."""
    rooms = [registry(core.databases, core.room.leases) for core in (race.one, race.two)]
    [row] = await race.one.rows(race.central, "SELECT slug FROM workflows WHERE id = $1", race.one.workflow)
    return TwoRegistries(race, rooms[0], rooms[1], row["slug"])


def kinds(responses: Sequence[object]) -> list[str]:
    return sorted(type(response).__name__ for response in responses)


async def both(two_registries: TwoRegistries, *registries: tuple[WorkerRegistry, str]) -> list[Any]:
    """Registrations that all wait for their turn before any of them has looked."""
    requests = [
        (room, RegisterRequest(worker_id=name, workflow_slugs=[two_registries.slug])) for room, name in registries
    ]
    async with open_transaction(two_registries.central, LOCK_REGISTRATIONS):
        tasks = await start_blocked(
            two_registries.central, *(room.register(request, LOCAL) for room, request in requests)
        )
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_of_two_registrations_of_the_same_id_is_accepted(two_registries: TwoRegistries) -> None:
    responses = await both(
        two_registries, (two_registries.one.registry, "gpu-1"), (two_registries.two.registry, "gpu-1")
    )
    assert kinds(responses) == ["AlreadyRegistered", "RegisterResponse"]
    assert await two_registries.sessions() == [None]
    [accepted] = [response for response in responses if isinstance(response, RegisterResponse)]
    assert (await two_registries.two.authentication.of(bearer(accepted.token))).worker_id == "gpu-1"


async def test_one_of_two_registrations_for_the_last_place_is_accepted(two_registries: TwoRegistries) -> None:
    one, two = [
        registry(core.databases, core.room.leases, max_workers=1)
        for core in (two_registries.race.one, two_registries.race.two)
    ]
    responses = await both(two_registries, (one.registry, "gpu-1"), (two.registry, "gpu-2"))
    assert kinds(responses) == ["Forbidden", "RegisterResponse"]
    [count] = await two_registries.rows("SELECT count(*) FROM comfyui_workers")
    assert count["count"] == 1


async def test_two_agents_that_take_over_a_dead_agent_requeue_its_job_once(two_registries: TwoRegistries) -> None:
    await two_registries.race.submit()
    await two_registries.join()
    await two_registries.race.one.start("gpu-1")
    await two_registries.silent_for(91)
    responses = await both(
        two_registries, (two_registries.one.registry, "gpu-1"), (two_registries.two.registry, "gpu-1")
    )
    assert kinds(responses) == ["AlreadyRegistered", "RegisterResponse"]
    assert await two_registries.sessions() == ["registered anew", None]
    assert await two_registries.dispatch() == ("queued", 1)
    assert await two_registries.events("lease_requeued") == ["lease_requeued"]


async def test_a_revocation_that_comes_first_keeps_the_registration_out(two_registries: TwoRegistries) -> None:
    await two_registries.join()
    await two_registries.silent_for(91)
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            two_registries.central,
            two_registries.two.workers.revoke("gpu-1", "operator"),
            join(two_registries.one, "gpu-1", two_registries.slug),
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, Forbidden)
    assert not isinstance(revoked, BaseException)
    assert await two_registries.sessions() == ["revoked"]


async def test_a_fleet_is_not_deleted_under_a_worker_that_joins_it(two_registries: TwoRegistries) -> None:
    fleet = await two_registries.one.fleets.create(
        CreateFleetRequest(slug="gpu", workflow_slugs=[two_registries.slug]), "operator"
    )
    request = RegisterRequest(worker_id="gpu-1", fleet_slug="gpu")
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM gpu_fleets WHERE id = $1 FOR KEY SHARE", fleet.id
    ):
        await two_registries.one.registry.register(request, LOCAL)
        [deletion] = await start_blocked(two_registries.central, two_registries.two.fleets.delete(fleet.id, "operator"))
    with pytest.raises(Conflict):
        await deletion
    assert (await two_registries.one.workers.get("gpu-1")).workflows == [two_registries.slug]


async def test_a_worker_cannot_join_a_fleet_that_is_being_deleted(two_registries: TwoRegistries) -> None:
    fleet = await two_registries.one.fleets.create(
        CreateFleetRequest(slug="gpu", workflow_slugs=[two_registries.slug]), "operator"
    )
    async with open_transaction(two_registries.central, "DELETE FROM gpu_fleets WHERE id = $1", fleet.id):
        work = two_registries.one.registry.register(RegisterRequest(worker_id="gpu-1", fleet_slug="gpu"), LOCAL)
        [joining] = await start_blocked(two_registries.central, work)
    with pytest.raises(NotFound):
        await joining


async def test_a_revocation_requeues_a_lease_given_before(two_registries: TwoRegistries) -> None:
    job = await two_registries.race.submit()
    registered = await two_registries.join()
    await two_registries.one.authentication.of(bearer(registered.token), for_poll=True)
    await two_registries.race.one.start("gpu-1")
    await two_registries.two.workers.revoke("gpu-1", "operator")
    assert await two_registries.dispatch() == ("queued", 1)
    assert await two_registries.race.one.status(two_registries.race.ann, job.id) == "queued"


async def test_a_poll_authenticated_before_a_revocation_keeps_no_lease(two_registries: TwoRegistries) -> None:
    job = await two_registries.race.submit()
    registered = await two_registries.join()
    await two_registries.one.authentication.of(bearer(registered.token), for_poll=True)
    await two_registries.two.workers.revoke("gpu-1", "operator")
    # The poll goes on, and gets its lease after everything of this worker was requeued.
    await two_registries.race.one.start("gpu-1")
    with pytest.raises(NotAuthenticated):
        await two_registries.one.authentication.of(bearer(registered.token), for_poll=True)
    await two_registries.two.sweeper.tick(SystemClock().now())
    assert await two_registries.dispatch() == ("queued", 1)
    assert await two_registries.race.one.status(two_registries.race.ann, job.id) == "queued"


async def test_a_poll_during_a_deregistration_keeps_no_lease_and_costs_no_attempt(
    two_registries: TwoRegistries,
) -> None:
    job = await two_registries.race.submit()
    registered = await two_registries.join()
    worker = await two_registries.one.authentication.of(bearer(registered.token), for_poll=True)
    await two_registries.two.registry.deregister(worker, "shutdown")
    await two_registries.race.one.start("gpu-1")
    await two_registries.two.sweeper.tick(SystemClock().now())
    assert await two_registries.dispatch() == ("queued", 0)
    assert await two_registries.race.one.status(two_registries.race.ann, job.id) == "queued"


async def test_leases_of_an_earlier_session_are_requeued_and_those_of_the_new_session_stay(
    two_registries: TwoRegistries,
) -> None:
    for _ in range(2):
        await two_registries.race.submit()
    await two_registries.join()
    earlier, own = await two_registries.race.one.start("gpu-1"), await two_registries.race.one.start("gpu-1")
    query = "UPDATE ai_job_dispatches SET last_leased_at = last_leased_at - interval '1 h' WHERE dispatch_id = $1"
    await two_registries.rows(query, earlier.lease.dispatch_id)
    await two_registries.two.sweeper.tick(SystemClock().now())
    rows = await two_registries.rows("SELECT dispatch_id, status FROM ai_job_dispatches")
    statuses = {row["dispatch_id"]: row["status"] for row in rows}
    assert (statuses[earlier.lease.dispatch_id], statuses[own.lease.dispatch_id]) == ("queued", "leased")


async def test_two_first_uses_of_a_new_token_are_both_accepted_and_replace_the_old_token_once(
    two_registries: TwoRegistries,
) -> None:
    old = (await two_registries.join()).token
    await two_registries.one.workers.rotate_token("gpu-1", "operator")
    pending = [
        (await room.authentication.of(bearer(old))).rotated_token for room in (two_registries.one, two_registries.two)
    ]
    assert pending[0] == pending[1]
    new = pending[0]
    assert new is not None
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            two_registries.central,
            *(room.authentication.of(bearer(new)) for room in (two_registries.one, two_registries.two)),
        )
    used = await asyncio.gather(*tasks)
    assert [principal.rotated_token for principal in used] == [None, None]
    assert await two_registries.events("token_adopted") == ["token_adopted"]
    for room in (two_registries.one, two_registries.two):
        with pytest.raises(NotAuthenticated):
            await room.authentication.of(bearer(old))
        assert (await room.authentication.of(bearer(new))).worker_id == "gpu-1"


async def test_a_new_token_first_used_during_a_revocation_is_refused(two_registries: TwoRegistries) -> None:
    old = (await two_registries.join()).token
    await two_registries.one.workers.rotate_token("gpu-1", "operator")
    new = (await two_registries.one.authentication.of(bearer(old))).rotated_token
    assert new is not None
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        revoking, using = await start_blocked(
            two_registries.central,
            two_registries.two.workers.revoke("gpu-1", "operator"),
            two_registries.one.authentication.of(bearer(new)),
        )
    await revoking
    with pytest.raises(NotAuthenticated):
        await using


async def test_two_concurrent_rotations_of_a_worker_token_count_as_one(two_registries: TwoRegistries) -> None:
    old = (await two_registries.join()).token
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            two_registries.central,
            *(room.workers.rotate_token("gpu-1", "operator") for room in (two_registries.one, two_registries.two)),
        )
    await asyncio.gather(*tasks)
    assert await two_registries.events("rotate_token") == ["rotate_token"]
    new = (await two_registries.one.authentication.of(bearer(old))).rotated_token
    assert new is not None
    await two_registries.two.authentication.of(bearer(new))


async def test_two_sweepers_remove_a_worker_once(two_registries: TwoRegistries) -> None:
    await two_registries.join()
    await two_registries.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, two_registries.one.sweeper.sweep()) as first:
        await two_registries.two.sweeper.sweep()
    await first
    assert await two_registries.sessions() == ["stale"]
    assert await two_registries.events("removed_as_stale") == ["removed_as_stale"]


async def test_a_sweep_waits_for_a_lease_under_way_and_leaves_its_worker(two_registries: TwoRegistries) -> None:
    """The sweeper has found the worker stale; the lease is committed before the worker is removed."""
    job = await two_registries.race.submit()
    registered = await two_registries.join()
    await two_registries.silent_for(301)
    async with two_registries.central.transaction() as connection:
        # A lease that has asked whether its worker is drained, and is not committed yet.
        await connection.fetchval("SELECT drained_workers(ARRAY['gpu-1'])")
        [sweeping] = await start_blocked(two_registries.central, two_registries.one.sweeper.sweep())
        await connection.execute(
            """UPDATE ai_job_dispatches SET status = 'leased', worker_id = 'gpu-1', lease_token = gen_random_uuid(),
                   lease_seq = 1, attempts = 1, leased_at = now(), last_leased_at = now(),
                   lease_expires_at = now() + interval '1 h' WHERE tenant_job_id = $1 AND tenant_id = $2""",
            job.id,
            two_registries.race.ann.tenant_id,
        )
    await sweeping
    assert await two_registries.sessions() == [None]
    assert await two_registries.dispatch() == ("leased", 1)
    assert (await two_registries.two.authentication.of(bearer(registered.token))).worker_id == "gpu-1"


async def test_a_lease_that_waits_for_a_sweep_is_requeued_by_the_next_sweep(two_registries: TwoRegistries) -> None:
    """Its poll was let in before the worker was removed."""
    job = await two_registries.race.submit()
    await two_registries.join()
    await two_registries.silent_for(301)
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        # The sweeper has the lock that leases wait for, and waits for the worker's row.
        sweeping, leasing = await start_blocked(
            two_registries.central, two_registries.one.sweeper.sweep(), two_registries.race.one.lease("gpu-1")
        )
    await sweeping
    assert await leasing is not None
    assert await two_registries.sessions() == ["stale"]
    await two_registries.two.sweeper.tick(SystemClock().now())
    assert await two_registries.dispatch() == ("queued", 1)
    assert await two_registries.race.one.status(two_registries.race.ann, job.id) == "queued"


async def test_a_heartbeat_on_its_way_keeps_the_worker_of_a_lease_that_is_about_to_run_out(
    two_registries: TwoRegistries,
) -> None:
    await two_registries.race.submit()
    await two_registries.join()
    started = await two_registries.race.one.start("gpu-1")
    await two_registries.race.one.expire_lease(started.lease.dispatch_id)
    await two_registries.silent_for(301)
    async with two_registries.central.transaction() as connection:
        await connection.execute(
            "UPDATE ai_job_dispatches SET lease_expires_at = now() + interval '1 h' WHERE dispatch_id = $1",
            started.lease.dispatch_id,
        )
        # Neither waits for the other: what ran out is taken back by the reaper, which looks at the row itself.
        await two_registries.one.sweeper.sweep()
    await two_registries.race.one.reap()
    await two_registries.one.sweeper.sweep()
    assert await two_registries.sessions() == [None]
    assert await two_registries.dispatch() == ("leased", 1)


async def test_one_of_two_processes_that_requeue_the_same_lease_logs_it(two_registries: TwoRegistries) -> None:
    await two_registries.race.submit()
    await two_registries.join()
    await two_registries.race.one.start("gpu-1")
    await two_registries.silent_for(91)
    async with open_transaction(two_registries.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE"):
        tasks = await start_blocked(
            two_registries.central, two_registries.join(), two_registries.two.workers.revoke("gpu-1", "operator")
        )
    await asyncio.gather(*tasks)
    assert await two_registries.dispatch() == ("queued", 1)
    assert await two_registries.events("lease_requeued") == ["lease_requeued"]
    assert [row["jobs_requeued"] for row in await two_registries.rows("SELECT * FROM worker_sessions ORDER BY id")] in (
        [1, 0],
        [0, 1],
    )
    assert (await two_registries.one.workers.get("gpu-1")).revoked_at is not None


async def test_a_lease_that_another_worker_has_by_now_is_not_requeued(two_registries: TwoRegistries) -> None:
    job = await two_registries.race.submit()
    await two_registries.join()
    await two_registries.race.one.start("gpu-1")
    await two_registries.silent_for(91)
    async with open_transaction(two_registries.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE") as connection:
        [joining] = await start_blocked(two_registries.central, two_registries.join())
        # Meanwhile it was reaped, and given to another worker.
        await connection.execute(
            """UPDATE ai_job_dispatches SET past_lease_tokens = past_lease_tokens || lease_token, worker_id = 'gpu-2',
                   lease_token = gen_random_uuid(), lease_seq = lease_seq + 1 WHERE tenant_job_id = $1
               AND status = 'leased'""",
            job.id,
        )
    await joining
    [row] = await two_registries.rows("SELECT worker_id FROM ai_job_dispatches WHERE status = 'leased'")
    assert row["worker_id"] == "gpu-2"
    assert await two_registries.sessions() == ["registered anew", None]


async def test_a_worker_that_is_seen_again_while_it_is_swept_stays(two_registries: TwoRegistries) -> None:
    registered = await two_registries.join()
    await two_registries.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, two_registries.one.sweeper.sweep()) as sweeping:
        await two_registries.two.authentication.of(bearer(registered.token))
        await two_registries.two.authentication.presence.tick(SystemClock().now())
    await sweeping
    assert await two_registries.sessions() == [None]
    assert (await two_registries.one.authentication.of(bearer(registered.token))).worker_id == "gpu-1"


async def test_a_worker_that_registers_anew_while_it_is_swept_stays(two_registries: TwoRegistries) -> None:
    await two_registries.join()
    await two_registries.silent_for(301)
    async with paused_at(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, two_registries.one.sweeper.sweep()) as sweeping:
        again = await join(two_registries.two, "gpu-1", two_registries.slug)
    await sweeping
    assert await two_registries.sessions() == ["registered anew", None]
    assert (await two_registries.one.authentication.of(bearer(again.token))).worker_id == "gpu-1"


async def test_a_deregistration_of_an_old_session_does_not_end_the_new_one(two_registries: TwoRegistries) -> None:
    old = await two_registries.one.authentication.of(bearer((await two_registries.join()).token))
    async with paused_at(
        Failpoint.DEREGISTER_BEFORE_REMOVE, two_registries.one.registry.deregister(old, "too late")
    ) as leaving:
        await two_registries.silent_for(91)
        again = await join(two_registries.two, "gpu-1", two_registries.slug)
    await leaving
    assert await two_registries.sessions() == ["registered anew", None]
    assert (await two_registries.one.authentication.of(bearer(again.token))).worker_id == "gpu-1"


async def test_an_id_that_deregisters_may_register_again_at_once(two_registries: TwoRegistries) -> None:
    registered = await two_registries.join()
    principal = await two_registries.one.authentication.of(bearer(registered.token))
    async with paused_at(
        Failpoint.DEREGISTER_BEFORE_REMOVE, two_registries.one.registry.deregister(principal, None)
    ) as leaving:
        with pytest.raises(AlreadyRegistered):
            await join(two_registries.two, "gpu-1", two_registries.slug)
    await leaving
    await join(two_registries.two, "gpu-1", two_registries.slug)
    assert await two_registries.sessions() == ["deregistered: the worker deregistered", None]


async def test_two_control_planes_that_write_about_the_same_sessions_do_not_stop_each_other(
    two_registries: TwoRegistries,
) -> None:
    sessions = [
        (
            await two_registries.rows(
                "INSERT INTO worker_sessions (worker_id, stage) VALUES ($1, 's') RETURNING id", name
            )
        )[0]["id"]
        for name in ("a", "b")
    ]

    def event(session: int) -> Event:
        settled = Settlement(1, uuid7(), two_registries.race.one.workflow, None, 1.0, 1.0)
        return Event("w", session, "complete", "worker:w", settled=settled, outcome="completed")

    works = [
        room.audit.record(event(session))
        for _ in range(20)
        for room, order in ((two_registries.one, sessions), (two_registries.two, sessions[::-1]))
        for session in order
    ]
    await asyncio.gather(*works)
    rows = await two_registries.rows("SELECT busy_seconds, jobs_completed FROM worker_sessions")
    assert [(row["busy_seconds"], row["jobs_completed"]) for row in rows] == [(40.0, 40), (40.0, 40)]
    [timing] = await two_registries.rows("SELECT samples, average_seconds FROM workflow_timings")
    assert (timing["samples"], timing["average_seconds"]) == (80, 1.0)


async def new_fleet_token(two_registries: TwoRegistries) -> tuple[CreatedFleetToken, TokenCredential]:
    fleet = await two_registries.one.fleets.create(
        CreateFleetRequest(slug="gpu", workflow_slugs=[two_registries.slug]), "operator"
    )
    created = await two_registries.one.fleet_tokens.create(fleet.id, None, "operator")
    return created, TokenCredential(hash_token(created.token))


async def test_a_registration_during_a_revocation_of_its_token_is_refused(two_registries: TwoRegistries) -> None:
    token, credential = await new_fleet_token(two_registries)
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id
    ):
        tasks = await start_blocked(
            two_registries.central,
            two_registries.two.fleet_tokens.revoke(token.id, "operator"),
            join(two_registries.one, "gpu-1", credential=credential),
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert not isinstance(revoked, BaseException)
    assert isinstance(refused, NotAuthenticated)
    assert await two_registries.rows("SELECT 1 FROM comfyui_workers") == []


async def test_a_registration_before_a_revocation_of_its_token_is_valid(two_registries: TwoRegistries) -> None:
    token, credential = await new_fleet_token(two_registries)
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id
    ):
        tasks = await start_blocked(
            two_registries.central,
            join(two_registries.one, "gpu-1", credential=credential),
            two_registries.two.fleet_tokens.revoke(token.id, "operator"),
        )
    registered, revoked = await asyncio.gather(*tasks)
    assert isinstance(registered, RegisterResponse)
    assert (await two_registries.one.authentication.of(bearer(registered.token))).is_approved
    assert revoked.workers == 1


async def test_a_worker_that_registers_during_a_rotation_of_its_token_is_accepted(
    two_registries: TwoRegistries,
) -> None:
    token, credential = await new_fleet_token(two_registries)
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id
    ):
        tasks = await start_blocked(
            two_registries.central,
            two_registries.two.fleet_tokens.rotate(token.id, 60, "operator"),
            join(two_registries.one, "gpu-1", credential=credential),
        )
    rotated, registered = await asyncio.gather(*tasks)
    assert isinstance(registered, RegisterResponse)
    await join(two_registries.one, "gpu-2", credential=TokenCredential(hash_token(rotated.token)))


async def test_a_worker_that_registers_after_a_rotation_without_overlap_is_refused(
    two_registries: TwoRegistries,
) -> None:
    token, credential = await new_fleet_token(two_registries)
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id
    ):
        tasks = await start_blocked(
            two_registries.central,
            two_registries.two.fleet_tokens.rotate(token.id, 0, "operator"),
            join(two_registries.one, "gpu-1", credential=credential),
        )
    _, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, NotAuthenticated)


async def test_one_of_two_concurrent_rotations_creates_the_next_token(two_registries: TwoRegistries) -> None:
    token, _ = await new_fleet_token(two_registries)
    async with open_transaction(
        two_registries.central, "SELECT 1 FROM fleet_tokens WHERE id = $1 FOR UPDATE", token.id
    ):
        tasks = await start_blocked(
            two_registries.central,
            *(room.fleet_tokens.rotate(token.id, 60, "operator") for room in (two_registries.one, two_registries.two)),
        )
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    assert kinds(responses) == ["Conflict", "CreatedFleetToken"]
    [count] = await two_registries.rows("SELECT count(*) FROM fleet_tokens")
    assert count["count"] == 2


async def test_a_worker_that_registers_under_another_id_while_it_is_revoked_with_its_token_stays_out(
    two_registries: TwoRegistries,
) -> None:
    _, credential = await new_fleet_token(two_registries)
    await join(two_registries.one, "gpu-1", credential=credential)
    async with open_transaction(two_registries.central, LOCK_WORKER, "gpu-1"):
        tasks = await start_blocked(
            two_registries.central,
            two_registries.two.workers.revoke("gpu-1", "operator", with_token=True),
            join(two_registries.one, "gpu-2", credential=credential),
        )
    revoked, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert not isinstance(revoked, BaseException)
    assert isinstance(refused, NotAuthenticated)


async def test_either_the_deletion_of_a_fleet_or_a_registration_with_its_token_succeeds(
    two_registries: TwoRegistries,
) -> None:
    token, credential = await new_fleet_token(two_registries)
    async with open_transaction(two_registries.central, "DELETE FROM gpu_fleets WHERE id = $1", token.fleet_id):
        [joining] = await start_blocked(
            two_registries.central, join(two_registries.one, "gpu-1", credential=credential)
        )
    with pytest.raises(NotAuthenticated):
        await joining
