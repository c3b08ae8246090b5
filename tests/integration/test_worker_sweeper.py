"""Workers that disappear are found, however they did it, and what they held is run by others (G1, G12)."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callsheet.fleet.credentials import OWN
from callsheet.fleet.presence import Presence
from callsheet.fleet.protocol import WorkerProtocol
from callsheet.fleet.registry import OWN_PREFIX
from callsheet.fleet.room import FleetRoom
from callsheet.fleet.sweeper import TOKEN_DAYS, WorkerSweeper
from callsheet.fleet.tokens import hash_token
from callsheet.in_process.plane import InProcessPlane
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import FleetSettings
from callsheet.toolbox.clock import ManualClock
from callsheet.wire.errors import NotAuthenticated, RegistrationExpired
from callsheet.wire.fleet import RegisterAnswer, RegisterRequest
from callsheet.wire.worker import PollAnswer, PollRequest
from tests.support.core import Core, Member, Row
from tests.support.fleet_api import bearer, join, recording_reaped, registry

STALE = 300
SILENT = STALE + 1


@dataclass(slots=True)
class Yard:
    core: Core
    room: FleetRoom
    slug: str

    async def join(self, worker_id: str = "gpu-1") -> RegisterAnswer:
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
async def yard(core: Core) -> Yard:
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    return Yard(core, registry(core.databases, core.room.lease_reports, stale_seconds=STALE), row["slug"])


async def crashed(point: Failpoint, work: Coroutine[Any, Any, object]) -> None:
    with armed({point: crash}), pytest.raises(Crashed):
        await work


async def test_a_silent_worker_keeps_its_registration_and_its_job_while_its_lease_is_valid(
    yard: Yard, ann: Member
) -> None:
    registered = await yard.join()
    job = await yard.core.submit(ann)
    started = await yard.core.start("gpu-1")
    await yard.silent_for(SILENT)
    assert not await yard.room.sweeper.sweep()
    assert await yard.workers() == ["gpu-1"]
    assert await yard.dispatch() == ("leased", 1)
    await yard.core.complete(started)
    assert (await yard.room.authentication.of(bearer(registered.token))).worker_id == "gpu-1"
    assert await yard.core.status(ann, job.id) == "completed"


async def test_a_silent_worker_is_removed_once_its_lease_ran_out_and_its_job_counts_the_attempt(
    yard: Yard, ann: Member
) -> None:
    registered = await yard.join()
    yard.core.room = recording_reaped(yard.core)
    job = await yard.core.submit(ann)
    started = await yard.core.start("gpu-1")
    await yard.silent_for(SILENT)
    await yard.core.expire_lease(started.lease.dispatch_id)
    await yard.room.sweeper.sweep()
    assert await yard.workers() == ["gpu-1"], "the reaper comes first: only it takes leases back"
    await yard.core.reap()
    await yard.room.sweeper.sweep()
    assert await yard.workers() == []
    assert await yard.ends() == ["stale"]
    assert await yard.dispatch() == ("queued", 1)
    assert await yard.core.status(ann, job.id) == "queued"
    assert await yard.events() == ["registered", "lease_expired", "removed_as_stale"]
    [session] = await yard.rows("SELECT * FROM worker_sessions")
    assert session["jobs_requeued"] == 1
    assert session["busy_seconds"] > 0
    with pytest.raises(RegistrationExpired):
        await yard.room.authentication.of(bearer(registered.token))
    await yard.core.check()


async def refusal_of(yard: Yard, token: str) -> str:
    """The code a request with this token is refused with."""
    with pytest.raises(NotAuthenticated) as refused:
        await yard.room.authentication.of(bearer(token))
    return refused.value.code


async def test_only_the_token_of_a_removed_worker_gets_registration_expired(yard: Yard) -> None:
    removed, revoked = await yard.join("gpu-1"), await yard.join("gpu-2")
    await yard.room.workers.revoke("gpu-2", "operator")
    for worker_id in ("gpu-1", "gpu-2"):
        await yard.silent_for(SILENT, worker_id)
    await yard.room.sweeper.sweep()
    assert await refusal_of(yard, removed.token) == "registration_expired"
    assert await refusal_of(yard, revoked.token) == "not_authenticated"
    assert await refusal_of(yard, "f" * 64) == "not_authenticated"
    [kept] = await yard.rows("SELECT * FROM removed_worker_tokens")
    assert kept["token_hash"] == hash_token(removed.token), "the token itself is stored nowhere"


async def test_a_token_of_an_earlier_registration_is_refused_after_its_worker_has_registered_again(
    yard: Yard,
) -> None:
    removed = await yard.join()
    await yard.silent_for(SILENT)
    await yard.room.sweeper.sweep()
    await yard.join()
    assert await refusal_of(yard, removed.token) == "not_authenticated"


async def test_both_tokens_of_a_rotation_get_registration_expired(yard: Yard) -> None:
    old = (await yard.join()).token
    await yard.room.workers.rotate_token("gpu-1", "operator")
    new = (await yard.room.authentication.of(bearer(old))).rotated_token
    assert new is not None
    await yard.silent_for(SILENT)
    await yard.room.sweeper.sweep()
    assert [await refusal_of(yard, token) for token in (old, new)] == ["registration_expired"] * 2


async def test_hashes_of_removed_tokens_are_forgotten_after_a_month(yard: Yard) -> None:
    first = await yard.join("gpu-1")
    await yard.silent_for(SILENT, "gpu-1")
    await yard.room.sweeper.sweep()
    await yard.rows("UPDATE removed_worker_tokens SET removed_at = removed_at - make_interval(days => $1)", TOKEN_DAYS)
    second = await yard.join("gpu-2")
    await yard.silent_for(SILENT, "gpu-2")
    await yard.room.sweeper.sweep()
    assert await refusal_of(yard, first.token) == "not_authenticated"
    assert await refusal_of(yard, second.token) == "registration_expired"


async def test_workers_that_were_heard_of_and_revoked_ones_stay(yard: Yard) -> None:
    for worker_id in ("alive", "revoked"):
        await yard.join(worker_id)
        await yard.silent_for(STALE / 2, worker_id)
    await yard.room.workers.revoke("revoked", "operator")
    await yard.silent_for(SILENT, "revoked")
    await yard.room.sweeper.sweep()
    assert await yard.workers() == ["alive", "revoked"], "a revoked id must stay known, or it could register"


async def test_an_approved_worker_that_never_came_back_is_forgotten_in_the_end(yard: Yard) -> None:
    await yard.join()
    await yard.room.workers.revoke("gpu-1", "operator")
    await yard.silent_for(SILENT)
    await yard.room.workers.approve("gpu-1", "operator")
    await yard.room.sweeper.sweep()
    assert await yard.workers() == ["gpu-1"], "it gets the time to register"
    await yard.silent_for(SILENT)
    await yard.room.sweeper.sweep()
    assert await yard.workers() == []


async def test_after_a_restart_or_an_outage_workers_get_the_time_to_be_heard_of(yard: Yard) -> None:
    clock = ManualClock()
    sweeper = WorkerSweeper(
        yard.core.databases, FleetSettings(stale_seconds=STALE), yard.room.sweeper._held, clock=clock
    )
    await yard.join()
    await yard.silent_for(SILENT)
    for _ in range(STALE // 15):
        await sweeper.tick(clock.now())
        clock.advance(15)
    assert await yard.workers() == ["gpu-1"]
    clock.advance(3600)
    await sweeper.tick(clock.now())
    assert await yard.workers() == ["gpu-1"], "for an hour nobody could be heard of, because nobody listened"
    for _ in range(STALE // 15):
        clock.advance(15)
        await sweeper.tick(clock.now())
    assert await yard.workers() == []


async def test_a_lease_that_ran_out_counts_for_the_session_that_had_it(yard: Yard, ann: Member) -> None:
    await yard.join()
    yard.core.room = recording_reaped(yard.core)
    await yard.rows("UPDATE worker_sessions SET started_at = started_at - interval '1 hour'")
    await yard.core.submit(ann, max_attempts=2)
    for _ in range(2):
        started = await yard.core.start("gpu-1")
        await yard.rows("UPDATE ai_job_dispatches SET last_leased_at = last_leased_at - interval '15 minutes'")
        await yard.core.expire_lease(started.lease.dispatch_id)
        await yard.core.reap()
    [session] = await yard.rows("SELECT * FROM worker_sessions")
    assert (session["jobs_requeued"], session["jobs_failed"], session["jobs_completed"]) == (1, 1, 0)
    assert session["busy_seconds"] >= 1800
    lines = await yard.rows("SELECT session_id FROM worker_audit_logs WHERE event = 'lease_expired'")
    assert [line["session_id"] for line in lines] == [session["id"]] * 2


async def test_a_crash_before_a_stale_worker_is_removed_leaves_it_to_be_found_again(yard: Yard) -> None:
    await yard.join()
    await yard.silent_for(SILENT)
    await crashed(Failpoint.SWEEP_WORKER_BEFORE_REMOVE, yard.room.sweeper.sweep())
    assert await yard.workers() == ["gpu-1"]
    await yard.room.sweeper.sweep()
    assert await yard.workers() == []


async def test_a_crash_in_a_deregistration_leaves_the_worker_to_the_sweeper(yard: Yard, ann: Member) -> None:
    registered = await yard.join()
    await yard.core.submit(ann)
    await yard.core.start("gpu-1")
    principal = await yard.room.authentication.of(bearer(registered.token))
    await crashed(Failpoint.DEREGISTER_BEFORE_REMOVE, yard.room.registry.deregister(principal, "bye"))
    assert await yard.dispatch() == ("queued", 0)
    assert (await yard.workers(), await yard.ends()) == (["gpu-1"], [None])
    await yard.silent_for(SILENT)
    await yard.room.sweeper.sweep()
    assert (await yard.workers(), await yard.ends()) == ([], ["stale"])


async def test_a_crash_in_a_revocation_leaves_the_leases_to_the_sweeper(yard: Yard, ann: Member) -> None:
    job = await yard.core.submit(ann)
    registered = await yard.join()
    await yard.core.start("gpu-1")
    await crashed(Failpoint.REVOKE_BEFORE_PUT_BACK, yard.room.workers.revoke("gpu-1", "operator"))
    assert await yard.dispatch() == ("leased", 1)
    with pytest.raises(NotAuthenticated):
        await yard.room.authentication.of(bearer(registered.token))
    clock = ManualClock()
    await yard.room.sweeper.tick(clock.now())
    assert await yard.dispatch() == ("queued", 1)
    assert await yard.core.status(ann, job.id) == "queued"
    assert await yard.workers() == ["gpu-1"]


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_crash_after_a_registration_leaves_the_old_leases_to_the_next_or_to_the_sweeper(
    yard: Yard, ann: Member, comes_back: bool
) -> None:
    await yard.core.submit(ann)
    await yard.join()
    await yard.core.start("gpu-1")
    await yard.silent_for(91)
    await crashed(Failpoint.REGISTER_BEFORE_PUT_BACK, yard.join())
    assert await yard.dispatch() == ("leased", 1)
    if comes_back:
        # Its answer was lost with the process, and with it the token.
        await yard.silent_for(91)
        await yard.join()
    else:
        # What an earlier session held is taken back first, so the worker holds nothing.
        await yard.room.sweeper.requeue_left_behind()
        await yard.silent_for(SILENT)
        await yard.room.sweeper.sweep()
    assert await yard.dispatch() == ("queued", 1)
    assert await yard.ends() == ["registered anew", *(["registered anew", None] if comes_back else ["stale"])]


async def test_when_a_worker_was_seen_is_written_behind_and_never_moved_back(yard: Yard) -> None:
    registered = await yard.join()
    await yard.silent_for(1000)
    presence = yard.room.authentication.presence
    await presence.tick(ManualClock().now())
    [before] = await yard.rows("SELECT last_seen_at, clock_timestamp() AS now FROM comfyui_workers")
    assert (before["now"] - before["last_seen_at"]).total_seconds() > 999
    await yard.room.authentication.of(bearer(registered.token))
    await presence.tick(ManualClock().now())
    [after] = await yard.rows("SELECT last_seen_at, clock_timestamp() AS now FROM comfyui_workers")
    assert (after["now"] - after["last_seen_at"]).total_seconds() < 60
    late = Presence(yard.core.databases)
    late._clock = clock = ManualClock()
    late.record("gpu-1")
    late.record("gone")
    clock.advance(500)
    await late.tick(clock.now())
    [still] = await yard.rows("SELECT last_seen_at FROM comfyui_workers")
    assert still["last_seen_at"] == after["last_seen_at"]


async def test_presence_that_could_not_be_written_is_written_later_and_at_the_end(yard: Yard) -> None:
    registered = await yard.join()
    await yard.silent_for(1000)
    presence = yard.room.authentication.presence
    await yard.room.authentication.of(bearer(registered.token))
    await yard.rows("ALTER TABLE comfyui_workers RENAME TO away")
    with pytest.raises(Exception, match="comfyui_workers"):
        await presence.tick(ManualClock().now())
    await yard.rows("ALTER TABLE away RENAME TO comfyui_workers")
    await presence.stop()
    [row] = await yard.rows("SELECT clock_timestamp() - last_seen_at AS ago FROM comfyui_workers")
    assert row["ago"].total_seconds() < 60


async def test_the_drain_of_a_stale_worker_stays_and_that_of_a_control_planes_own_worker_goes(yard: Yard) -> None:
    own = f"{OWN_PREFIX}host:1"
    await yard.join()
    await yard.room.registry.register(RegisterRequest(worker_id=own, workflow_slugs=[yard.slug]), OWN)
    for worker_id in ("gpu-1", own):
        await yard.room.workers.drain(worker_id, "operator")
        await yard.silent_for(SILENT, worker_id)
    await yard.room.sweeper.sweep()
    assert await yard.workers() == []
    # Every process has a new id, so an operator could not undo the drain in time.
    assert [row["worker_id"] for row in await yard.rows("SELECT worker_id FROM worker_drains")] == ["gpu-1"]
    registered = await yard.join()
    assert (await yard.room.authentication.of(bearer(registered.token))).is_draining


class Asking:
    """What a poll does first."""

    def __init__(self, room: FleetRoom):
        self._room = room

    async def answer(self, header: str | None, *_: object) -> PollAnswer:
        await self._room.authentication.of(header, for_poll=True)
        return PollAnswer(job=None, reason="empty")


async def test_a_control_planes_own_worker_that_was_removed_registers_again_with_its_next_request(yard: Yard) -> None:
    own, room = f"{OWN_PREFIX}host:1", yard.room
    protocol = cast("WorkerProtocol", SimpleNamespace(polls=Asking(room)))
    plane = InProcessPlane(own, [yard.slug], ["self_hosted"], 1, room.registry, room.authentication, protocol, 1000)
    await plane.enter()
    await yard.silent_for(SILENT, own)
    await room.sweeper.sweep()
    assert await yard.workers() == []
    assert (await plane.poll(PollRequest())).reason == "empty"
    assert (await yard.workers(), await yard.ends()) == ([own], ["stale", None])
