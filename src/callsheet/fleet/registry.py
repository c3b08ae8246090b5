"""How workers come and go: one transaction registers, and what an earlier registration held goes back to the queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from callsheet.fleet.asg import AutoscalingGroups, Verdict
from callsheet.fleet.audit import Audit, Event, write
from callsheet.fleet.leases import HeldLeases
from callsheet.fleet.principal import WorkerPrincipal
from callsheet.fleet.tokens import hash_token, new_token
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import Connection, statements
from callsheet.settings import FleetSettings
from callsheet.toolbox.sanitizing import clean_line
from callsheet.wire.errors import AlreadyRegistered, FieldProblem, Forbidden, InvalidRequest, NotFound
from callsheet.wire.fleet import Registered, RegisterRequest

SQL = statements("callsheet.fleet")

DEFAULT_STAGE = "production"
DEFAULT_PROVIDERS = ("self_hosted",)
# Of the ids of workers inside control planes.
OWN_PREFIX = "control-plane:"
# Polls come every 55 seconds at the least: who was seen in this time is alive.
ALIVE_SECONDS = 90


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a worker's jobs come from: a fleet's workflows, or its own."""

    stage: str
    workflows: tuple[str, ...]
    fleet_id: int | None = None
    fleet_slug: str | None = None
    workflow_ids: tuple[int, ...] = ()


class Registry:
    def __init__(
        self,
        databases: Databases,
        settings: FleetSettings,
        groups: AutoscalingGroups,
        held: HeldLeases,
        audit: Audit,
    ):
        self._databases = databases
        self._settings = settings
        self._groups = groups
        self._held = held
        self._audit = audit

    async def register(self, request: RegisterRequest, *, is_own: bool = False) -> Registered:
        """`is_own`: a worker inside a control plane, which nobody has to approve and no limit keeps out."""
        check_shape(request)
        if request.worker_id.startswith(OWN_PREFIX) != is_own:
            raise InvalidRequest.field(
                "worker_id", f"should not begin with {OWN_PREFIX!r}: those are the control planes' own"
            )
        # Outside the transaction: AWS may take seconds.
        verdict = await self._groups.verdict(request.worker_id)
        if verdict.membership == "stranger":
            await self._refuse(request.worker_id, verdict)
        token = new_token()
        async with self._databases.central.transaction() as connection:
            await SQL["lock_registrations"].run(connection)
            placement = await _placement(connection, request)
            earlier = await self._admit(connection, request.worker_id, is_own=is_own)
            approve = is_own or self._settings.auto_approve
            is_approved = await self._save(connection, request, placement, token, verdict, earlier, approve)
        # Nobody knows the new token yet, so all that is held under this id was leased before; also where the worker was
        # removed while its poll was under way.
        await hit(Failpoint.REGISTER_BEFORE_PUT_BACK)
        await self._held.put_back(
            request.worker_id,
            earlier["session_id"] if earlier else None,
            keep_attempt=True,
            reason="its worker registered anew",
            actor=f"worker:{request.worker_id}",
        )
        return Registered(
            worker_id=request.worker_id,
            token=token,
            workflows_assigned=list(placement.workflows),
            fleet_slug=placement.fleet_slug,
            stage=placement.stage,
            is_approved=is_approved,
        )

    async def deregister(self, worker: WorkerPrincipal, reason: str | None) -> None:
        """Its leases first: where a crash comes in between, the worker is still there to be found stale."""
        # As the user of a job that goes back may read it.
        said = clean_line(reason or "") or "it said good-bye"
        returned = await self._held.put_back(
            worker.worker_id, worker.session_id, keep_attempt=False, reason=said, actor=worker.actor
        )
        await hit(Failpoint.DEREGISTER_BEFORE_REMOVE)
        async with self._databases.central.transaction() as connection:
            removed = await SQL["remove_session_of_worker"].run(
                connection, worker_id=worker.worker_id, session_id=worker.session_id
            )
            if removed:
                await SQL["end_session"].run(connection, worker_id=worker.worker_id, reason=f"deregistered: {said}")
                await SQL["forget_drain"].run(connection, worker_id=worker.worker_id, own_prefix=OWN_PREFIX)
                details = {"reason": said, "leases": returned}
                event = Event(worker.worker_id, worker.session_id, "deregistered", worker.actor, details=details)
                await write(connection, [event])

    async def _refuse(self, worker_id: str, verdict: Verdict) -> None:
        details = {"reason": verdict.reason}
        await self._audit.record(Event(worker_id, None, "register_refused", f"worker:{worker_id}", details=details))
        raise Forbidden(f"Instance {worker_id!r} may not register: {verdict.reason}.")

    async def _admit(self, connection: Connection, worker_id: str, *, is_own: bool) -> asyncpg.Record | None:
        """The worker of this id that may be replaced, if there is one."""
        known = await SQL["lock_worker"].row(connection, worker_id=worker_id)
        if known is not None and known["revoked_at"] is not None:
            raise Forbidden(f"Worker {worker_id!r} was revoked. An admin has to approve it first.")
        if known is not None and known["in_session"] and known["seen_seconds_ago"] < ALIVE_SECONDS:
            raise AlreadyRegistered(worker_id, max(1, math.ceil(ALIVE_SECONDS - known["seen_seconds_ago"])))
        others = await SQL["count_other_workers"].value(connection, worker_id=worker_id, own_prefix=OWN_PREFIX)
        if others >= self._settings.max_workers and not is_own:
            raise Forbidden(f"{others} workers are registered; at most {self._settings.max_workers} may be.")
        return known

    async def _save(
        self,
        connection: Connection,
        request: RegisterRequest,
        placement: Placement,
        token: str,
        verdict: Verdict,
        earlier: asyncpg.Record | None,
        approve: bool,
    ) -> bool:
        worker_id = request.worker_id
        await SQL["end_session"].run(connection, worker_id=worker_id, reason="registered anew")
        session_id: int = await SQL["begin_session"].value(
            connection,
            worker_id=worker_id,
            fleet_slug=placement.fleet_slug,
            stage=placement.stage,
            capacity_type=request.capacity_type,
            instance_type=request.instance_type or None,
        )
        is_approved: bool = await SQL["save_worker"].value(
            connection,
            worker_id=worker_id,
            display_name=request.display_name or "",
            registration_source="workflows" if placement.fleet_id is None else "fleet",
            fleet_id=placement.fleet_id,
            stage=placement.stage,
            providers=list(dict.fromkeys(request.providers or DEFAULT_PROVIDERS)),
            session_id=session_id,
            token_hash=hash_token(token),
            max_concurrency=request.max_concurrency or 1,
            capabilities=request.capabilities or {},
            capacity_type=request.capacity_type,
            instance_type=request.instance_type or None,
            is_approved=approve,
        )
        await assign(connection, worker_id, placement.workflow_ids)
        actor = f"worker:{worker_id}"
        events = [Event(worker_id, session_id, "registered", actor, details=_details(placement, verdict, is_approved))]
        if earlier is not None:
            events.insert(0, Event(worker_id, earlier["session_id"], "superseded", actor))
        if verdict.membership == "unknown":
            details = {"reason": verdict.reason}
            events.append(Event(worker_id, session_id, "asg_not_validated", actor, details=details))
        await write(connection, events)
        return is_approved


async def assign(connection: Connection, worker_id: str, workflow_ids: tuple[int, ...]) -> None:
    """These workflows and no others."""
    await SQL["unassign_workflows"].run(connection, worker_id=worker_id, workflow_ids=list(workflow_ids))
    await SQL["assign_workflows"].run(connection, worker_id=worker_id, workflow_ids=list(workflow_ids))


async def find_workflows(connection: Connection, slugs: Sequence[str]) -> list[asyncpg.Record]:
    """All of them, or a refusal that names those there are not."""
    rows = await SQL["find_workflows"].rows(connection, slugs=list(slugs))
    missing = set(slugs) - {row["slug"] for row in rows}
    if missing:
        of_actors = any(slug.startswith("actor:") for slug in missing)
        advice = " Control planes make those of the actors they have, in the queues of tasks.queues." * of_actors
        raise InvalidRequest(
            f"There is no workflow {', '.join(sorted(missing)[:5])}.{advice}",
            errors=[
                FieldProblem(f"workflow_slugs.{place}", f"there is no workflow {slug!r}")
                for place, slug in enumerate(slugs)
                if slug in missing
            ],
        )
    return rows


def check_shape(request: RegisterRequest) -> None:
    if request.fleet_slug is None and not request.workflow_slugs:
        raise InvalidRequest.field("fleet_slug", "is required, or workflow_slugs with one workflow at least")
    if request.fleet_slug is not None and request.workflow_slugs:
        raise InvalidRequest.field("workflow_slugs", "a worker of a fleet has the fleet's workflows: give one of both")


async def _placement(connection: Connection, request: RegisterRequest) -> Placement:
    stage = request.stage or DEFAULT_STAGE
    if request.fleet_slug is not None:
        return await _in_fleet(connection, request.fleet_slug, stage)
    rows = await find_workflows(connection, request.workflow_slugs or [])
    active = [row for row in rows if row["is_active"]]
    if not active:
        raise InvalidRequest.field("workflow_slugs", "none of these workflows is active")
    slugs = tuple(row["slug"] for row in active)
    # Those that are switched off are assigned too: they count from the moment they are switched on again.
    return Placement(stage, slugs, workflow_ids=tuple(row["id"] for row in rows))


async def _in_fleet(connection: Connection, slug: str, stage: str) -> Placement:
    fleet = await SQL["find_fleet_to_join"].row(connection, slug=slug, stage=stage)
    if fleet is None:
        raise NotFound(f"There is no fleet {slug!r} in stage {stage!r}.")
    if not fleet["is_active"]:
        raise InvalidRequest.field("fleet_slug", "the fleet is switched off")
    if not fleet["workflows"]:
        raise InvalidRequest.field("fleet_slug", "the fleet has no active workflow")
    return Placement(stage, tuple(fleet["workflows"]), fleet["id"], slug)


def _details(placement: Placement, verdict: Verdict, is_approved: bool) -> dict[str, object]:
    return {
        "fleet_slug": placement.fleet_slug,
        "stage": placement.stage,
        "workflows": list(placement.workflows),
        "is_approved": is_approved,
        "autoscaling_group": verdict.group,
    }
