"""Registers and deregisters workers. The leases of an earlier registration are requeued."""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from callsheet.catalog.engines import live_engines
from callsheet.catalog.engines.environments import enter
from callsheet.fleet.fleets.placement import Placement, check_shape, placement_of
from callsheet.fleet.protocol.authentication import WorkerPrincipal, hash_token, new_token
from callsheet.fleet.registry.asg import UNVERIFIED, AsgVerdict, AutoscalingGroups
from callsheet.fleet.registry.credentials import Credential, OwnCredential, SecretCredential, TokenCredential
from callsheet.fleet.registry.held_leases import HeldLeases
from callsheet.fleet.registry.worker_log import Audit, Event, write
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import FleetSettings
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.wire.errors import Conflict, Forbidden, InvalidRequest, RateLimited, RatePolicy, Unavailable
from callsheet.wire.fleet import RegisterRequest, RegisterResponse
from callsheet.wire.plurals import counted
from callsheet.wire.worker.environment import MAX_SHOWN, CannotRun, Environment
from callsheet.wire.worker.errors import AlreadyRegistered

REGISTRATION_SQL = statements("callsheet.fleet.registry", "registration_statements.sql")
LOG_SQL = statements("callsheet.fleet.registry", "log_statements.sql")
FLEETS_DRAIN_SQL = statements("callsheet.fleet.fleets", "drain_statements.sql")

DEFAULT_PROVIDERS = ("self_hosted",)
# Prefix of the ids of in-process workers of control planes.
OWN_PREFIX = "control-plane:"
RETRY_AWS_SECONDS = 30
# Workers poll at least every 55 seconds: a worker seen within this time is alive.
ALIVE_SECONDS = live_engines.ALIVE_SECONDS
# Minimum time between two reports of a worker. A restarted engine may have other nodes, but engines do not restart more
# often than this.
REPORT_SECONDS = 1.0
MAX_REMEMBERED = 10_000


class LockedWorkerRow(NamedTuple):
    """A worker that is locked until the end of the transaction."""

    worker_id: str
    session_id: int
    registration_source: Literal["fleet", "workflows"]
    is_approved: bool
    revoked_at: datetime | None
    rotation_id: UUID | None
    fleet_id: int | None
    fleet_token_id: int | None
    seen_seconds_ago: float
    in_session: bool


class WorkerRegistry:
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
        # When each worker last reported its environment.
        self._reported: dict[str, float] = {}

    async def register(self, request: RegisterRequest, credential: Credential) -> RegisterResponse:
        is_own = isinstance(credential, OwnCredential)
        check_shape(request, credential)
        if request.worker_id.startswith(OWN_PREFIX) != is_own:
            raise InvalidRequest.field(
                "worker_id", f"Worker ids that start with {OWN_PREFIX!r} are reserved for control planes."
            )
        # This is outside the transaction, because AWS may take seconds.
        verdict = UNVERIFIED if is_own else await self._groups.verdict(request.worker_id)
        await self._check(request.worker_id, verdict)
        token = new_token()
        async with self._databases.central.transaction() as connection:
            await REGISTRATION_SQL["lock_registrations"].run(connection)
            placement = await placement_of(connection, request, credential)
            earlier = await self._admit(connection, request.worker_id, credential, placement)
            is_approved = await self._is_approved(connection, request.worker_id, credential)
            await self._save(connection, request, placement, credential, token, verdict, earlier, is_approved)
            cannot_run = await workflows_it_cannot_run(connection, request.worker_id)
        # No worker has the new token yet, so every lease of this id is older than the token, even if the worker was
        # removed during a poll.
        await hit(Failpoint.REGISTER_BEFORE_REQUEUE)
        await self._held.requeue_all(
            request.worker_id,
            earlier.session_id if earlier else None,
            attempt_counts=True,
            reason="the worker registered again",
            actor=f"worker:{request.worker_id}",
        )
        return RegisterResponse(
            worker_id=request.worker_id,
            token=token,
            workflows_assigned=list(placement.workflows),
            fleet_slug=placement.fleet_slug,
            stage=placement.stage,
            is_approved=is_approved,
            cannot_run=cannot_run,
        )

    async def report_environment(self, worker: WorkerPrincipal, environment: Environment) -> list[CannotRun]:
        """Replaces the worker's reported environment. Returns the worker's workflows that it cannot run."""
        self._check_pace(worker.worker_id)
        async with self._databases.central.transaction() as connection:
            digest = await enter(connection, environment)
            session = {"worker_id": worker.worker_id, "session_id": worker.session_id}
            if await REGISTRATION_SQL["set_environment"].value(connection, environment=digest, **session) is not None:
                await REGISTRATION_SQL["notify_worker_reassigned"].run(connection, worker_id=worker.worker_id)
                event = Event(worker.worker_id, worker.session_id, "environment_changed", worker.actor)
                await write(connection, [event])
            return await workflows_it_cannot_run(connection, worker.worker_id)

    def _check_pace(self, worker_id: str) -> None:
        """Limits the rate: each environment is a row of up to a megabyte, and one worker must not fill the database."""
        now = time.monotonic()
        if len(self._reported) > MAX_REMEMBERED:
            self._reported = {name: at for name, at in self._reported.items() if now - at < REPORT_SECONDS}
        if now - self._reported.get(worker_id, -REPORT_SECONDS) < REPORT_SECONDS:
            seconds = math.ceil(REPORT_SECONDS)
            raise RateLimited(seconds, RatePolicy("environments", 1, seconds))
        self._reported[worker_id] = now

    async def deregister(self, worker: WorkerPrincipal, reason: str | None) -> None:
        """Deregisters a worker. Its leases are requeued first: after a crash in between, the sweeper still finds the
        worker as stale.
        """
        # The user of a requeued job can read this text.
        reason_text = clean_line(reason or "") or "the worker deregistered"
        requeued = await self._held.requeue_all(
            worker.worker_id, worker.session_id, attempt_counts=False, reason=reason_text, actor=worker.actor
        )
        await hit(Failpoint.DEREGISTER_BEFORE_REMOVE)
        async with self._databases.central.transaction() as connection:
            removed = await REGISTRATION_SQL["remove_session_of_worker"].run(
                connection, worker_id=worker.worker_id, session_id=worker.session_id
            )
            if removed:
                await LOG_SQL["end_session"].run(
                    connection, worker_id=worker.worker_id, reason=f"deregistered: {reason_text}"
                )
                await FLEETS_DRAIN_SQL["forget_drain"].run(
                    connection, worker_id=worker.worker_id, own_prefix=OWN_PREFIX
                )
                details = {"reason": reason_text, "leases": requeued}
                event = Event(worker.worker_id, worker.session_id, "deregistered", worker.actor, details=details)
                await write(connection, [event])

    async def _check(self, worker_id: str, verdict: AsgVerdict) -> None:
        is_unknown = verdict.membership == "unknown"
        self._groups.unanswered += is_unknown
        is_closed = is_unknown and not self._settings.asg_fail_open
        if verdict.membership != "stranger" and not is_closed:
            return
        details = {"reason": verdict.reason}
        await self._audit.record(Event(worker_id, None, "register_refused", f"worker:{worker_id}", details=details))
        if is_closed:
            raise Unavailable(
                f"AWS could not be reached to check {worker_id!r}, and fleet.asg_fail_open is off. Try again later.",
                retry_after_seconds=RETRY_AWS_SECONDS,
            )
        raise Forbidden(f"Worker {worker_id!r} may not register: {verdict.reason}.")

    async def _is_approved(self, connection: Connection, worker_id: str, credential: Credential) -> bool:
        prints = credential.fingerprints if isinstance(credential, SecretCredential) else ()
        return is_approved_at_once(
            credential,
            self._settings.auto_approve,
            approved_by_person=await REGISTRATION_SQL["is_approved_by_person"].value(connection, worker_id=worker_id),
            secret_was_revoked=await REGISTRATION_SQL["is_secret_of_revoked_worker"].value(
                connection, fingerprints=list(prints)
            ),
        )

    async def _admit(
        self, connection: Connection, worker_id: str, credential: Credential, placement: Placement
    ) -> LockedWorkerRow | None:
        """The earlier worker with this id, which may be replaced, or None."""
        known = await REGISTRATION_SQL["lock_worker"].row(connection, LockedWorkerRow, worker_id=worker_id)
        if known is not None and known.revoked_at is not None:
            raise Forbidden(f"Worker {worker_id!r} was revoked. An admin must approve it first.")
        if known is not None and known.in_session and known.seen_seconds_ago < ALIVE_SECONDS:
            raise AlreadyRegistered(worker_id, max(1, math.ceil(ALIVE_SECONDS - known.seen_seconds_ago)))
        if known is not None and known.in_session and not _may_replace(known, credential, placement):
            raise Conflict(
                f"A worker of another fleet is registered as {worker_id!r}. Choose another id, or wait until that "
                "worker has sent no request for fleet.stale_seconds."
            )
        others = await REGISTRATION_SQL["count_other_workers"].value(
            connection, worker_id=worker_id, own_prefix=OWN_PREFIX
        )
        if others >= self._settings.max_workers and not isinstance(credential, OwnCredential):
            raise Forbidden(
                f"{counted(others, 'worker is', 'workers are')} registered, and the limit is "
                f"{self._settings.max_workers} (fleet.max_workers)."
            )
        return known

    async def _save(
        self,
        connection: Connection,
        request: RegisterRequest,
        placement: Placement,
        credential: Credential,
        token: str,
        verdict: AsgVerdict,
        earlier: LockedWorkerRow | None,
        is_approved: bool,
    ) -> None:
        worker_id = request.worker_id
        await LOG_SQL["end_session"].run(connection, worker_id=worker_id, reason="registered anew")
        session_id: int = await LOG_SQL["begin_session"].value(
            connection,
            worker_id=worker_id,
            fleet_slug=placement.fleet_slug,
            stage=placement.stage,
            capacity_type=request.capacity_type,
            instance_type=request.instance_type or None,
        )
        await REGISTRATION_SQL["save_worker"].run(
            connection,
            worker_id=worker_id,
            display_name=request.display_name or "",
            registration_source="workflows" if placement.fleet_id is None else "fleet",
            fleet_id=placement.fleet_id,
            stage=placement.stage,
            providers=list(dict.fromkeys(request.providers or DEFAULT_PROVIDERS)),
            names_providers=bool(request.providers),
            session_id=session_id,
            token_hash=hash_token(token),
            max_concurrency=request.max_concurrency or 1,
            capabilities=request.capabilities or {},
            capacity_type=request.capacity_type,
            instance_type=request.instance_type or None,
            is_approved=is_approved,
            is_narrowed=placement.is_narrowed,
            fleet_token_id=placement.token_id,
            secret_fingerprint=credential.fingerprints[0] if isinstance(credential, SecretCredential) else None,
            asg_unverified=verdict.membership == "unknown",
            environment=await enter(connection, request.environment) if request.environment else None,
        )
        await assign(connection, worker_id, placement.workflow_ids)
        actor = f"worker:{worker_id}"
        details = _details(placement, credential, verdict, is_approved)
        events = [Event(worker_id, session_id, "registered", actor, details=details)]
        if earlier is not None:
            events.insert(0, Event(worker_id, earlier.session_id, "superseded", actor))
        if verdict.membership == "unknown":
            events.append(Event(worker_id, session_id, "asg_not_validated", actor, details={"reason": verdict.reason}))
        await write(connection, events)


async def workflows_it_cannot_run(connection: Connection, worker_id: str) -> list[CannotRun]:
    """The assigned workflows for which the worker lacks something."""
    return await REGISTRATION_SQL["cannot_run"].rows(connection, CannotRun, worker_id=worker_id, limit=MAX_SHOWN)


async def assign(connection: Connection, worker_id: str, workflow_ids: tuple[int, ...]) -> None:
    """Assigns exactly these workflows."""
    await REGISTRATION_SQL["unassign_workflows"].run(connection, worker_id=worker_id, workflow_ids=list(workflow_ids))
    await REGISTRATION_SQL["assign_workflows"].run(connection, worker_id=worker_id, workflow_ids=list(workflow_ids))


def _may_replace(known: LockedWorkerRow, credential: Credential, placement: Placement) -> bool:
    """Whether a new registration may replace this worker. A token is valid for one fleet: its holder must not
    replace a silent worker of another fleet, whose jobs would be requeued. A holder of the shared secret must not
    replace a worker that registered with a token.
    """
    if isinstance(credential, TokenCredential):
        return known.fleet_id == placement.fleet_id
    return known.fleet_token_id is None


def _details(placement: Placement, credential: Credential, verdict: AsgVerdict, is_approved: bool) -> dict[str, object]:
    return {
        "fleet_slug": placement.fleet_slug,
        "stage": placement.stage,
        "workflows": list(placement.workflows),
        "registered_with": _registered_with(placement, credential),
        "is_approved": is_approved,
        "autoscaling_group": verdict.group,
    }


def _registered_with(placement: Placement, credential: Credential) -> str:
    if isinstance(credential, OwnCredential):
        return "control plane"
    if isinstance(credential, SecretCredential):
        return "shared secret, on this machine" if credential.is_local else "shared secret"
    return f"token {placement.token_id} ({placement.token_name})"


def is_approved_at_once(
    credential: Credential, auto_approve: bool | None, *, approved_by_person: bool, secret_was_revoked: bool
) -> bool:
    """Whether the worker is approved without a person.

    `approved_by_person`: a user approved this id before. `secret_was_revoked`: a worker with the same secret was
    revoked. Workers choose their ids, so any worker with that secret may be the revoked one under another id.
    Therefore, no worker with that secret is approved without a person until the secret changes or the worker is
    approved again.
    """
    if not isinstance(credential, SecretCredential):
        # The user who created the token decided this. An in-process worker is part of the control plane.
        return True
    if secret_was_revoked:
        return False
    by_setting = credential.is_local if auto_approve is None else auto_approve
    return approved_by_person or by_setting
