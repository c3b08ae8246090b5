"""Reads everything that happened to one job, for its waterfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import emails_of
from callsheet.jobs.lease.progress import progress_of
from callsheet.jobs.machine.rows import OperatorEventRow, WholeJob
from callsheet.jobs.operate.waterfall import JobTimes, ProviderCall, StatusEvent, waterfall_of
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.views import event_view, job_view
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wallet.ledger import transactions_of_job
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import JobProgress, JobStatus
from callsheet.wire.money.wallet import Transaction
from callsheet.wire.operate.waterfall import OperatorEvent, Waterfall

PROVIDER_CALL_SQL = statements("callsheet.jobs.operate", "provider_call_statements.sql")
MACHINE_SQL = statements("callsheet.jobs.machine")
SQL = statements("callsheet.jobs.operate")

# An operator may retry a job any number of times. Only the newest attempts are shown.
MAX_EVENTS = 1000
MAX_TRACES = 20
MAX_CALLS = 200
MAX_TRANSACTIONS = 200


class TraceRow(NamedTuple):
    seq: int
    trace: Any


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one job in the databases, each list oldest first."""

    job: WholeJob
    events: Sequence[OperatorEventRow]
    traces: Mapping[int, Mapping[str, Any]]
    transactions: Sequence[Transaction]
    progress: JobProgress | None
    calls: Sequence[ProviderCall]
    now: datetime
    # The e-mail addresses of the users among the actors of the events.
    emails: Mapping[str, str]


class JobHistory:
    def __init__(self, central: Database, routing: TenantRouting, presenter: Presenter):
        self._central = central
        self._routing = routing
        self._presenter = presenter

    async def waterfall(self, principal: Principal, tenant_id: UUID, job_id: UUID) -> Waterfall:
        """The waterfall, as far as the principal's role may see it. A tenant admin gets no names of workers and
        operators, and no ids of their requests.
        """
        records = await self._records(tenant_id, job_id)
        shown = waterfall_for(principal, records)
        return shown.model_copy(
            update={"why_waiting": await self._presenter.why_waiting(tenant_id, job_view(records.job))}
        )

    async def _records(self, tenant_id: UUID, job_id: UUID) -> Records:
        names = {"tenant_id": tenant_id, "job_id": job_id}
        async with self._central.ordinary() as connection:
            calls = await PROVIDER_CALL_SQL["provider_calls_of_job"].rows(
                connection, ProviderCall, **names, limit=MAX_CALLS
            )
        pool = await self._routing.pool_of_tenant(tenant_id)
        # All reads share one snapshot, so that the status matches the last event.
        async with pool.ordinary() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            job = await MACHINE_SQL["get_job"].row(connection, WholeJob, **names)
            if job is None:
                raise NotFound("There is no such job.")
            events = await SQL["newest_events"].rows(connection, OperatorEventRow, **names, limit=MAX_EVENTS)
            traces = await SQL["newest_traces"].rows(connection, TraceRow, **names, limit=MAX_TRACES)
            transactions = await transactions_of_job(connection, tenant_id, job_id, MAX_TRANSACTIONS)
            progress = await progress_of(connection, tenant_id, [job_id])
            now = await SQL["now"].value(connection)
        async with self._central.ordinary() as connection:
            emails = await emails_of(connection, {event.actor for event in events})
        return Records(
            job,
            events[::-1],
            {row.seq: row.trace for row in traces},
            transactions,
            progress.get(job_id),
            calls[::-1],
            now,
            emails,
        )


def waterfall_for(principal: Principal, records: Records) -> Waterfall:
    job = records.job.row
    # The waterfall is built from the events as the principal sees them, so that no span shows a name that its event
    # hides.
    view = _named if principal.may(Permission.SEE_QUEUE) else _unnamed
    events = [_with_email(view(event), records.emails) for event in records.events]
    spans = waterfall_of(
        JobTimes(job.charge_cycle, job.created_at, job.submitted_at, job.started_at),
        [
            StatusEvent(each.seq, each.event, each.to_status, each.actor, each.reason, each.at, each.request_id)
            for each in events
        ],
        records.traces,
        records.calls,
        records.now,
    )
    return Waterfall(
        job_id=job.id,
        tenant_id=job.tenant_id,
        status=JobStatus(job.status),
        charge_cycle=job.charge_cycle,
        started_at=spans[0].started_at,
        ended_at=job.completed_at,
        now=records.now,
        progress=records.progress,
        spans=spans,
        nodes_left_out=sum(int(trace.get("nodes_left_out", 0)) for trace in records.traces.values()),
        events=events,
        transactions=list(records.transactions) if principal.may(Permission.SEE_WALLETS) else [],
    )


def _named(event: OperatorEventRow) -> OperatorEvent:
    """Adds the worker, the operator and the request id to an event, for operators."""
    named = {"actor": event.actor, "reason": event.reported or event.reason, "request_id": event.request_id}
    return _unnamed(event).model_copy(update=named)


def _with_email(event: OperatorEvent, emails: Mapping[str, str]) -> OperatorEvent:
    return event.model_copy(update={"actor_email": emails.get(event.actor)})


def _unnamed(event: OperatorEventRow) -> OperatorEvent:
    return OperatorEvent(**dict(event_view(event)))
