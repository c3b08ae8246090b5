"""Workers that disappear in any way are found, and other workers run their jobs (G1, G12)."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callsheet.app.in_process.plane import InProcessPlane
from callsheet.fleet.protocol.authentication import Presence, hash_token
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.credentials import OWN
from callsheet.fleet.registry.registry import OWN_PREFIX
from callsheet.fleet.registry.sweeper import TOKEN_DAYS, WorkerSweeper
from callsheet.fleet.room import FleetRoom
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import FleetSettings
from callsheet.toolbox.clock import ManualClock
from callsheet.wire.errors import NotAuthenticated
from callsheet.wire.fleet import RegisterRequest, RegisterResponse
from callsheet.wire.worker.errors import RegistrationExpired
from callsheet.wire.worker.protocol import PollRequest, PollResponse
from tests.support.http.fleet_api import bearer, join, recording_reaped, registry
from tests.support.jobs.core import Core, Member, Row

STALE = 300
SILENT = STALE + 1


@dataclass(slots=True)
class RegistryHarness:
    """The registry of workers, and what is in its tables."""

    core: Core
    room: FleetRoom
    slug: str

    async def join(self, worker_id: str = "gpu-1") -> RegisterResponse:
        return await join(self.room, worker_id, self.slug)

    async def silent_for(self, seconds: float, worker_id: str = "gpu-1") -> None:
        await self.rows(
            "UPDATE comfyui_workers SET last_seen_at = last_seen_at - make_interval(secs => $1) WHERE worker_id = $2",
            seconds,
            worker_id,
        )

    async def rows(self, query: str, *values: object) -> list[Row]:
        return await self.core.rows(self.core.databases.central, query, *values)

    async def workers(self) -> list[str]:
        return [row["worker_id"] for row in await self.rows("SELECT worker_id FROM comfyui_workers ORDER BY 1")]

    async def ends(self) -> list[str | None]:
        return [row["end_reason"] for row in await self.rows("SELECT end_reason FROM worker_sessions ORDER BY id")]

    async def events(self) -> list[str]:
        return [row["event"] for row in await self.rows("SELECT event FROM worker_audit_logs ORDER BY id")]

    async def dispatch(self) -> tuple[str, int]:
        [row] = await self.rows("SELECT status, attempts FROM ai_job_dispatches")
        return row["status"], row["attempts"]


@pytest.fixture
async def registry_harness(core: Core) -> RegistryHarness:
    """The registry of workers, with a short time until a worker is stale."""
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    return RegistryHarness(core, registry(core.databases, core.room.leases, stale_seconds=STALE), row["slug"])


async def crashed(point: Failpoint, work: Coroutine[Any, Any, object]) -> None:
    with armed({point: crash}), pytest.raises(Crashed):
        await work


async def test_a_silent_worker_keeps_its_registration_and_its_job_while_its_lease_is_valid(
    registry_harness: RegistryHarness, ann: Member
) -> None:
    registered = await registry_harness.join()
    job = await registry_harness.core.submit(ann)
    started = await registry_harness.core.start("gpu-1")
    await registry_harness.silent_for(SILENT)
    assert not await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == ["gpu-1"]
    assert await registry_harness.dispatch() == ("leased", 1)
    await registry_harness.core.complete(started)
    assert (await registry_harness.room.authentication.of(bearer(registered.token))).worker_id == "gpu-1"
    assert await registry_harness.core.status(ann, job.id) == "completed"


async def test_a_silent_worker_is_removed_once_its_lease_ran_out_and_its_job_counts_the_attempt(
    registry_harness: RegistryHarness, ann: Member
) -> None:
    registered = await registry_harness.join()
    registry_harness.core.room = recording_reaped(registry_harness.core)
    job = await registry_harness.core.submit(ann)
    started = await registry_harness.core.start("gpu-1")
    await registry_harness.silent_for(SILENT)
    await registry_harness.core.expire_lease(started.lease.dispatch_id)
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == ["gpu-1"], "the reaper comes first: only it takes leases back"
    await registry_harness.core.reap()
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == []
    assert await registry_harness.ends() == ["stale"]
    assert await registry_harness.dispatch() == ("queued", 1)
    assert await registry_harness.core.status(ann, job.id) == "queued"
    assert await registry_harness.events() == ["registered", "lease_expired", "removed_as_stale"]
    [session] = await registry_harness.rows("SELECT * FROM worker_sessions")
    assert session["jobs_requeued"] == 1
    assert session["busy_seconds"] > 0
    with pytest.raises(RegistrationExpired):
        await registry_harness.room.authentication.of(bearer(registered.token))
    await registry_harness.core.check()


async def refusal_of(registry_harness: RegistryHarness, token: str) -> str:
    """The code a request with this token is refused with."""
    with pytest.raises(NotAuthenticated) as refused:
        await registry_harness.room.authentication.of(bearer(token))
    return refused.value.code


async def test_only_the_token_of_a_removed_worker_gets_registration_expired(registry_harness: RegistryHarness) -> None:
    removed, revoked = await registry_harness.join("gpu-1"), await registry_harness.join("gpu-2")
    await registry_harness.room.workers.revoke("gpu-2", "operator")
    for worker_id in ("gpu-1", "gpu-2"):
        await registry_harness.silent_for(SILENT, worker_id)
    await registry_harness.room.sweeper.sweep()
    assert await refusal_of(registry_harness, removed.token) == "registration_expired"
    assert await refusal_of(registry_harness, revoked.token) == "not_authenticated"
    assert await refusal_of(registry_harness, "f" * 64) == "not_authenticated"
    [kept] = await registry_harness.rows("SELECT * FROM removed_worker_tokens")
    assert kept["token_hash"] == hash_token(removed.token), "the token itself is stored nowhere"


async def test_a_token_of_an_earlier_registration_is_refused_after_its_worker_has_registered_again(
    registry_harness: RegistryHarness,
) -> None:
    removed = await registry_harness.join()
    await registry_harness.silent_for(SILENT)
    await registry_harness.room.sweeper.sweep()
    await registry_harness.join()
    assert await refusal_of(registry_harness, removed.token) == "not_authenticated"


async def test_both_tokens_of_a_rotation_get_registration_expired(registry_harness: RegistryHarness) -> None:
    old = (await registry_harness.join()).token
    await registry_harness.room.workers.rotate_token("gpu-1", "operator")
    new = (await registry_harness.room.authentication.of(bearer(old))).rotated_token
    assert new is not None
    await registry_harness.silent_for(SILENT)
    await registry_harness.room.sweeper.sweep()
    assert [await refusal_of(registry_harness, token) for token in (old, new)] == ["registration_expired"] * 2


async def test_hashes_of_removed_tokens_are_deleted_after_a_month(registry_harness: RegistryHarness) -> None:
    first = await registry_harness.join("gpu-1")
    await registry_harness.silent_for(SILENT, "gpu-1")
    await registry_harness.room.sweeper.sweep()
    await registry_harness.rows(
        "UPDATE removed_worker_tokens SET removed_at = removed_at - make_interval(days => $1)", TOKEN_DAYS
    )
    second = await registry_harness.join("gpu-2")
    await registry_harness.silent_for(SILENT, "gpu-2")
    await registry_harness.room.sweeper.sweep()
    assert await refusal_of(registry_harness, first.token) == "not_authenticated"
    assert await refusal_of(registry_harness, second.token) == "registration_expired"


async def test_workers_that_were_seen_recently_and_revoked_workers_stay(registry_harness: RegistryHarness) -> None:
    for worker_id in ("alive", "revoked"):
        await registry_harness.join(worker_id)
        await registry_harness.silent_for(STALE / 2, worker_id)
    await registry_harness.room.workers.revoke("revoked", "operator")
    await registry_harness.silent_for(SILENT, "revoked")
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == ["alive", "revoked"], (
        "a revoked id must stay known, or it could register"
    )


async def test_an_approved_worker_that_never_returned_is_deleted_in_the_end(
    registry_harness: RegistryHarness,
) -> None:
    await registry_harness.join()
    await registry_harness.room.workers.revoke("gpu-1", "operator")
    await registry_harness.silent_for(SILENT)
    await registry_harness.room.workers.approve("gpu-1", "operator")
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == ["gpu-1"], "it gets the time to register"
    await registry_harness.silent_for(SILENT)
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == []


async def test_after_a_restart_or_an_outage_workers_get_time_for_their_next_request(
    registry_harness: RegistryHarness,
) -> None:
    clock = ManualClock()
    sweeper = WorkerSweeper(
        registry_harness.core.databases,
        FleetSettings(stale_seconds=STALE),
        registry_harness.room.sweeper._held,
        clock=clock,
    )
    await registry_harness.join()
    await registry_harness.silent_for(SILENT)
    for _ in range(STALE // 15):
        await sweeper.tick(clock.now())
        clock.advance(15)
    assert await registry_harness.workers() == ["gpu-1"]
    clock.advance(3600)
    await sweeper.tick(clock.now())
    assert await registry_harness.workers() == ["gpu-1"], (
        "for an hour nobody could be heard of, because nobody listened"
    )
    for _ in range(STALE // 15):
        clock.advance(15)
        await sweeper.tick(clock.now())
    assert await registry_harness.workers() == []


async def test_a_lease_that_ran_out_counts_for_the_session_that_had_it(
    registry_harness: RegistryHarness, ann: Member
) -> None:
    await registry_harness.join()
    registry_harness.core.room = recording_reaped(registry_harness.core)
    await registry_harness.rows("UPDATE worker_sessions SET started_at = started_at - interval '1 hour'")
    await registry_harness.core.submit(ann, max_attempts=2)
    for _ in range(2):
        started = await registry_harness.core.start("gpu-1")
        await registry_harness.rows(
            "UPDATE ai_job_dispatches SET last_leased_at = last_leased_at - interval '15 minutes'"
        )
        await registry_harness.core.expire_lease(started.lease.dispatch_id)
        await registry_harness.core.reap()
    [session] = await registry_harness.rows("SELECT * FROM worker_sessions")
    assert (session["jobs_requeued"], session["jobs_failed"], session["jobs_completed"]) == (1, 1, 0)
    assert session["busy_seconds"] >= 1800
    lines = await registry_harness.rows("SELECT session_id FROM worker_audit_logs WHERE event = 'lease_expired'")
    assert [line["session_id"] for line in lines] == [session["id"]] * 2


async def test_a_crash_before_a_stale_worker_is_removed_leaves_it_to_be_found_again(
    registry_harness: RegistryHarness,
) -> None:
    await registry_harness.join()
    await registry_harness.silent_for(SILENT)
    await crashed(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, registry_harness.room.sweeper.sweep())
    assert await registry_harness.workers() == ["gpu-1"]
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == []


async def test_a_crash_in_a_deregistration_leaves_the_worker_to_the_sweeper(
    registry_harness: RegistryHarness, ann: Member
) -> None:
    registered = await registry_harness.join()
    await registry_harness.core.submit(ann)
    await registry_harness.core.start("gpu-1")
    principal = await registry_harness.room.authentication.of(bearer(registered.token))
    await crashed(Failpoint.DEREGISTER_BEFORE_REMOVE, registry_harness.room.registry.deregister(principal, "bye"))
    assert await registry_harness.dispatch() == ("queued", 0)
    assert (await registry_harness.workers(), await registry_harness.ends()) == (["gpu-1"], [None])
    await registry_harness.silent_for(SILENT)
    await registry_harness.room.sweeper.sweep()
    assert (await registry_harness.workers(), await registry_harness.ends()) == ([], ["stale"])


async def test_a_crash_in_a_revocation_leaves_the_leases_to_the_sweeper(
    registry_harness: RegistryHarness, ann: Member
) -> None:
    job = await registry_harness.core.submit(ann)
    registered = await registry_harness.join()
    await registry_harness.core.start("gpu-1")
    await crashed(Failpoint.REVOKE_BEFORE_REQUEUE, registry_harness.room.workers.revoke("gpu-1", "operator"))
    assert await registry_harness.dispatch() == ("leased", 1)
    with pytest.raises(NotAuthenticated):
        await registry_harness.room.authentication.of(bearer(registered.token))
    clock = ManualClock()
    await registry_harness.room.sweeper.tick(clock.now())
    assert await registry_harness.dispatch() == ("queued", 1)
    assert await registry_harness.core.status(ann, job.id) == "queued"
    assert await registry_harness.workers() == ["gpu-1"]


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_crash_after_a_registration_leaves_the_old_leases_to_the_next_or_to_the_sweeper(
    registry_harness: RegistryHarness, ann: Member, comes_back: bool
) -> None:
    await registry_harness.core.submit(ann)
    await registry_harness.join()
    await registry_harness.core.start("gpu-1")
    await registry_harness.silent_for(91)
    await crashed(Failpoint.REGISTER_BEFORE_REQUEUE, registry_harness.join())
    assert await registry_harness.dispatch() == ("leased", 1)
    if comes_back:
        # Its answer was lost with the process, and with it the token.
        await registry_harness.silent_for(91)
        await registry_harness.join()
    else:
        # What an earlier session held is taken back first, so the worker holds nothing.
        await registry_harness.room.sweeper.requeue_left_behind()
        await registry_harness.silent_for(SILENT)
        await registry_harness.room.sweeper.sweep()
    assert await registry_harness.dispatch() == ("queued", 1)
    assert await registry_harness.ends() == [
        "registered anew",
        *(["registered anew", None] if comes_back else ["stale"]),
    ]


async def test_the_time_a_worker_was_seen_is_written_later_and_never_moved_back(
    registry_harness: RegistryHarness,
) -> None:
    registered = await registry_harness.join()
    await registry_harness.silent_for(1000)
    presence = registry_harness.room.authentication.presence
    await presence.tick(ManualClock().now())
    [before] = await registry_harness.rows("SELECT last_seen_at, clock_timestamp() AS now FROM comfyui_workers")
    assert (before["now"] - before["last_seen_at"]).total_seconds() > 999
    await registry_harness.room.authentication.of(bearer(registered.token))
    await presence.tick(ManualClock().now())
    [after] = await registry_harness.rows("SELECT last_seen_at, clock_timestamp() AS now FROM comfyui_workers")
    assert (after["now"] - after["last_seen_at"]).total_seconds() < 60
    late = Presence(registry_harness.core.databases)
    late._clock = clock = ManualClock()
    late.record("gpu-1")
    late.record("gone")
    clock.advance(500)
    await late.tick(clock.now())
    [still] = await registry_harness.rows("SELECT last_seen_at FROM comfyui_workers")
    assert still["last_seen_at"] == after["last_seen_at"]


async def test_presence_that_could_not_be_written_is_written_later_and_at_the_stop(
    registry_harness: RegistryHarness,
) -> None:
    registered = await registry_harness.join()
    await registry_harness.silent_for(1000)
    presence = registry_harness.room.authentication.presence
    await registry_harness.room.authentication.of(bearer(registered.token))
    await registry_harness.rows("ALTER TABLE comfyui_workers RENAME TO away")
    with pytest.raises(Exception, match="comfyui_workers"):
        await presence.tick(ManualClock().now())
    await registry_harness.rows("ALTER TABLE away RENAME TO comfyui_workers")
    await presence.stop()
    [row] = await registry_harness.rows("SELECT clock_timestamp() - last_seen_at AS ago FROM comfyui_workers")
    assert row["ago"].total_seconds() < 60


async def test_a_stale_worker_keeps_its_drain_and_a_control_planes_own_worker_loses_it(
    registry_harness: RegistryHarness,
) -> None:
    own = f"{OWN_PREFIX}host:1"
    await registry_harness.join()
    await registry_harness.room.registry.register(
        RegisterRequest(worker_id=own, workflow_slugs=[registry_harness.slug]), OWN
    )
    for worker_id in ("gpu-1", own):
        await registry_harness.room.workers.drain(worker_id, "operator")
        await registry_harness.silent_for(SILENT, worker_id)
    await registry_harness.room.sweeper.sweep()
    assert await registry_harness.workers() == []
    # Every process has a new id, so an operator could not undo the drain in time.
    assert [row["worker_id"] for row in await registry_harness.rows("SELECT worker_id FROM worker_drains")] == ["gpu-1"]
    registered = await registry_harness.join()
    assert (await registry_harness.room.authentication.of(bearer(registered.token))).is_draining


class ScriptedPolls:
    """What a poll does first."""

    def __init__(self, room: FleetRoom):
        self._room = room

    async def response(self, header: str | None, *_: object) -> PollResponse:
        await self._room.authentication.of(header, for_poll=True)
        return PollResponse(job=None, reason="empty")


async def test_a_control_planes_own_worker_that_was_removed_registers_again_with_its_next_request(
    registry_harness: RegistryHarness,
) -> None:
    own, room = f"{OWN_PREFIX}host:1", registry_harness.room
    protocol = cast("WorkerProtocol", SimpleNamespace(polls=ScriptedPolls(room)))
    plane = InProcessPlane(
        own, [registry_harness.slug], ["self_hosted"], 1, room.registry, room.authentication, protocol, 1000
    )
    await plane.enter()
    await registry_harness.silent_for(SILENT, own)
    await room.sweeper.sweep()
    assert await registry_harness.workers() == []
    assert (await plane.poll(PollRequest())).reason == "empty"
    assert (await registry_harness.workers(), await registry_harness.ends()) == ([own], ["stale", None])
