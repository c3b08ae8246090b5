"""Admins' views of workers and actions on them. Each action is in the audit log and in the worker's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from callsheet.fleet.fleets.fleet_tokens import revoke_in
from callsheet.fleet.fleets.placement import DEFAULT_STAGE, find_workflows
from callsheet.fleet.operate.lease_progress import LeaseProgress
from callsheet.fleet.protocol.authentication import RotatedTokens, hash_token, new_token
from callsheet.fleet.registry.held_leases import HeldLeases
from callsheet.fleet.registry.registry import ALIVE_SECONDS, LockedWorkerRow, assign, workflows_it_cannot_run
from callsheet.fleet.registry.worker_log import Event, write
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.signing import Master
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, NotFound, WrongState
from callsheet.wire.fleet import (
    EngineUse,
    Worker,
    WorkerDetails,
    WorkerDisk,
    WorkerEvent,
    WorkerGroup,
    WorkerSession,
    WorkflowWorkers,
)
from callsheet.wire.worker.environment import Lack

REGISTRY_LOG_SQL = statements("callsheet.fleet.registry", "log_statements.sql")
WORKER_SQL = statements("callsheet.fleet.operate", "worker_statements.sql")
REGISTRY_REGISTRATION_SQL = statements("callsheet.fleet.registry", "registration_statements.sql")
FLEETS_DRAIN_SQL = statements("callsheet.fleet.fleets", "drain_statements.sql")

SHOWN_SESSIONS = 10
SHOWN_GROUPS = 50
# Maximum number of leases per worker in a list. A task worker may hold thousands.
SHOWN_LEASES = 3
ALL_LEASES = 10_000


@dataclass(frozen=True, slots=True)
class WorkerFilter:
    """Selects workers that match all fields; `None` matches every worker."""

    fleet: str | None = None
    stage: str | None = None
    live: bool | None = None
    approved: bool | None = None
    # Part of the id, the display name or the fleet's slug, in any case.
    search: str | None = None
    # Online, approved and not drained: with a job, or without.
    busy: bool | None = None


class EngineUseRow(NamedTuple):
    engines: Any
    reported_at: datetime


class WorkerGroupRow(NamedTuple):
    workers: int
    worker_ids: list[str]
    draining: int
    has_reported: bool
    lacks: Any
    all_workers: int
    able_workers: int


class Workers:
    def __init__(self, databases: Databases, held: HeldLeases, secret: Master):
        self._databases = databases
        self._held = held
        self._rotated = RotatedTokens(secret)
        self._progress = LeaseProgress(databases)

    async def list(self, wanted: WorkerFilter, after: str | None, limit: int) -> Page[Worker]:
        """The workers, ordered by id."""
        async with self._databases.central.ordinary() as connection:
            workers = await _workers(connection, wanted, after=after, limit=limit + 1)
        items = await self._progress.added_to(workers[:limit])
        return Page(items=items, next_cursor=items[-1].worker_id if len(workers) > limit else None)

    async def get(self, worker_id: str) -> WorkerDetails:
        async with self._databases.central.ordinary() as connection:
            worker = await _worker(connection, worker_id, max_leases=ALL_LEASES)
            cannot_run = await workflows_it_cannot_run(connection, worker_id)
            sessions = await REGISTRY_LOG_SQL["sessions_of_worker"].rows(
                connection, WorkerSession, worker_id=worker_id, before=None, limit=SHOWN_SESSIONS
            )
            disk = await WORKER_SQL["disk_of_worker"].row(connection, WorkerDisk, worker_id=worker_id)
            use = await WORKER_SQL["engine_use_of_worker"].row(connection, EngineUseRow, worker_id=worker_id)
        [worker] = await self._progress.added_to([worker])
        return WorkerDetails(
            **dict(worker),
            cannot_run=cannot_run,
            sessions=sessions,
            disk=disk,
            engine_use=[] if use is None else [EngineUse.model_validate(engine) for engine in use.engines],
            engine_use_at=None if use is None else use.reported_at,
        )

    async def of_workflow(self, slug: str) -> WorkflowWorkers:
        """The live workers that are assigned to a workflow, and what each lacks to run it."""
        async with self._databases.central.ordinary() as connection:
            workflow_id = await WORKER_SQL["find_workflow"].value(connection, slug=slug)
            if workflow_id is None:
                raise NotFound("There is no such workflow.")
            rows = await WORKER_SQL["workers_of_workflow"].rows(
                connection, WorkerGroupRow, workflow_id=workflow_id, alive_seconds=ALIVE_SECONDS, limit=SHOWN_GROUPS
            )
        groups = [
            WorkerGroup(
                workers=row.workers,
                worker_ids=row.worker_ids,
                draining=row.draining,
                has_reported=row.has_reported,
                lacks=[Lack.model_validate(lack) for lack in row.lacks],
            )
            for row in rows
        ]
        live, able = (rows[0].all_workers, rows[0].able_workers) if rows else (0, 0)
        return WorkflowWorkers(live=live, able=able, groups=groups)

    async def sessions(self, worker_id: str | None, before: int | None, limit: int) -> Page[WorkerSession]:
        """The sessions, newest first, including sessions of removed workers."""
        async with self._databases.central.ordinary() as connection:
            if worker_id is None:
                sessions = await REGISTRY_LOG_SQL["list_sessions"].rows(
                    connection, WorkerSession, before=before, limit=limit + 1
                )
            else:
                sessions = await REGISTRY_LOG_SQL["sessions_of_worker"].rows(
                    connection, WorkerSession, worker_id=worker_id, before=before, limit=limit + 1
                )
        items = sessions[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(sessions) > limit else None)

    async def events(self, worker_id: str | None, before: int | None, limit: int) -> Page[WorkerEvent]:
        """The events, newest first, including events of removed workers."""
        async with self._databases.central.ordinary() as connection:
            if worker_id is None:
                events = await REGISTRY_LOG_SQL["list_events"].rows(
                    connection, WorkerEvent, before=before, limit=limit + 1
                )
            else:
                events = await REGISTRY_LOG_SQL["events_of_worker"].rows(
                    connection, WorkerEvent, worker_id=worker_id, before=before, limit=limit + 1
                )
        items = events[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(events) > limit else None)

    async def approve(self, worker_id: str, actor: str) -> Worker:
        """Approves a worker for jobs. A revoked worker may register again."""
        async with self._databases.central.transaction() as connection:
            known = await _lock(connection, worker_id)
            await WORKER_SQL["approve_worker"].run(
                connection, worker_id=worker_id, unusable_hash=hash_token(new_token())
            )
            await WORKER_SQL["remember_approval"].run(connection, worker_id=worker_id, approved_by=actor)
            await _log(
                connection,
                worker_id,
                known.session_id,
                actor,
                "approve",
                was_revoked=known.revoked_at is not None,
            )
            return await _worker(connection, worker_id)

    async def revoke(self, worker_id: str, actor: str, *, with_token: bool = False) -> Worker:
        """Invalidates the worker's token, requeues its jobs (the attempts count), and blocks its id.

        `with_token`: also revokes its registration token, so that no other id can use the token.
        """
        async with self._databases.central.transaction() as connection:
            if with_token:
                # A registration locks the token before the worker, and this statement locks the worker first, so the
                # two must not overlap.
                await REGISTRY_REGISTRATION_SQL["lock_registrations"].run(connection)
            known = await _lock(connection, worker_id)
            if with_token:
                await revoke_in(connection, _token_of(known), actor)
            await WORKER_SQL["revoke_worker"].run(connection, worker_id=worker_id)
            await WORKER_SQL["forget_approval"].run(connection, worker_id=worker_id)
            await REGISTRY_LOG_SQL["end_session"].run(connection, worker_id=worker_id, reason="revoked")
            await _log(connection, worker_id, known.session_id, actor, "revoke")
        await hit(Failpoint.REVOKE_BEFORE_REQUEUE)
        await self._held.requeue_all(
            worker_id, known.session_id, attempt_counts=True, reason="the worker was revoked", actor=actor
        )
        async with self._databases.central.connection() as connection:
            return await _worker(connection, worker_id)

    async def drain(self, worker_id: str, actor: str, reason: str | None = None) -> Worker:
        """Drains a worker: it finishes its jobs and gets no new ones, also after it registers again, until `undrain`.

        After this returns, the worker gets no lease. A waiting poll of the worker returns at once.
        """
        async with self._databases.central.transaction() as connection:
            await FLEETS_DRAIN_SQL["lock_drains"].run(connection)
            session_id = await REGISTRY_LOG_SQL["last_session_of_worker"].value(connection, worker_id=worker_id)
            if session_id is None:
                raise NotFound(f"No worker {worker_id!r} has ever registered.")
            await FLEETS_DRAIN_SQL["drain_worker"].run(
                connection, worker_id=worker_id, drained_by=actor, reason=reason or None
            )
            await REGISTRY_REGISTRATION_SQL["notify_worker_reassigned"].run(connection, worker_id=worker_id)
            await _log(connection, worker_id, session_id, actor, "drain", reason=reason or None)
            return await _worker(connection, worker_id)

    async def undrain(self, worker_id: str, actor: str) -> Worker:
        """Ends a drain: the worker gets jobs again, at once or after it registers."""
        async with self._databases.central.transaction() as connection:
            worker = await _worker(connection, worker_id)
            if await FLEETS_DRAIN_SQL["undrain_worker"].value(connection, worker_id=worker_id) is not None:
                await _log(connection, worker_id, worker.session_id, actor, "undrain")
            elif await FLEETS_DRAIN_SQL["is_ending"].value(connection, worker_id=worker_id):
                raise WrongState(
                    "The autoscaler is ending this worker, which holds no job. The worker can no longer be kept."
                )
        of_drain = ("drained_since", "drained_by", "drained_by_email", "drain_reason")
        return worker.model_copy(update={"is_draining": False, **dict.fromkeys(of_drain)})

    async def rotate_token(self, worker_id: str, actor: str) -> Worker:
        """Starts a rotation: the next response has a new token. The old token is valid until the new one is used, at
        most ten minutes.

        While a rotation is pending, another one changes nothing: the worker may already have the pending token, and an
        invalid old token must not become valid again.
        """
        async with self._databases.central.transaction() as connection:
            known = await _lock(connection, worker_id)
            if known.revoked_at is not None:
                raise Conflict("The worker was revoked: it has no token.")
            if known.rotation_id is None:
                rotation_id = uuid4()
                await WORKER_SQL["rotate_token"].run(
                    connection,
                    worker_id=worker_id,
                    rotation_id=rotation_id,
                    next_token_hash=hash_token(self._rotated.token(worker_id, rotation_id)),
                )
                await _log(connection, worker_id, known.session_id, actor, "rotate_token")
            return await _worker(connection, worker_id)

    async def assign(self, worker_id: str, workflow_slugs: Sequence[str], actor: str) -> Worker:
        """Assigns exactly these workflows to a worker that registered without a fleet."""
        async with self._databases.central.transaction() as connection:
            known = await _lock(connection, worker_id)
            if known.registration_source == "fleet":
                raise Conflict(
                    "The worker belongs to a fleet and has the fleet's workflows. Assign the workflows to the fleet."
                )
            workflows = await find_workflows(connection, workflow_slugs, "workflow_slugs")
            await assign(connection, worker_id, tuple(workflow.id for workflow in workflows))
            await REGISTRY_REGISTRATION_SQL["notify_worker_reassigned"].run(connection, worker_id=worker_id)
            await _log(
                connection,
                worker_id,
                known.session_id,
                actor,
                "assign_workflows",
                workflows=[workflow.slug for workflow in workflows],
            )
            return await _worker(connection, worker_id)


async def _lock(connection: Connection, worker_id: str) -> LockedWorkerRow:
    known = await REGISTRY_REGISTRATION_SQL["lock_worker"].row(connection, LockedWorkerRow, worker_id=worker_id)
    if known is None:
        raise _no_worker(worker_id)
    return known


def _token_of(worker: LockedWorkerRow) -> int:
    if worker.fleet_token_id is None:
        raise WrongState(
            "The worker did not register with a token of a fleet. From now on, workers that register with the same "
            "secret under another id wait for approval. To keep them out, change CALLSHEET_FLEET__SECRET."
        )
    return worker.fleet_token_id


async def _log(
    connection: Connection, worker_id: str, session_id: int | None, actor: str, action: str, **details: object
) -> None:
    await record(connection, actor, f"worker.{action}", "worker", worker_id, None, **details)
    await write(connection, [Event(worker_id, session_id, action, actor, details=details)])


async def _worker(connection: Connection, worker_id: str, *, max_leases: int = SHOWN_LEASES) -> Worker:
    workers = await _workers(connection, WorkerFilter(), worker_id=worker_id, max_leases=max_leases)
    if not workers:
        raise _no_worker(worker_id)
    return workers[0]


async def _workers(
    connection: Connection,
    wanted: WorkerFilter,
    *,
    worker_id: str | None = None,
    after: str | None = None,
    limit: int = 1,
    max_leases: int = SHOWN_LEASES,
) -> Sequence[Worker]:
    return await WORKER_SQL["list_workers"].rows(
        connection,
        Worker,
        worker_id=worker_id,
        fleet=wanted.fleet,
        stage=wanted.stage,
        live=wanted.live,
        approved=wanted.approved,
        search=wanted.search or None,
        busy=wanted.busy,
        after=after,
        alive_seconds=ALIVE_SECONDS,
        default_stage=DEFAULT_STAGE,
        limit=limit,
        max_leases=max_leases,
    )


def _no_worker(worker_id: str) -> NotFound:
    return NotFound(f"There is no worker {worker_id!r}.")
