"""Named gaps between two commits, where a test (or a setting) ends the process.

A gap lies between two writes that do not become permanent together: two transactions, two databases, or a database and
storage, a mail server or a provider. A crash there leaves one write done and the next one not done. The code calls
`hit` with the name of the gap. The tests enumerate `Failpoint`, crash at each one, and check that the next start or the
next loop repairs the state. A transaction has no failpoint inside: PostgreSQL undoes it if it ends early.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

from callsheet.toolbox.errors import OperatorError


class Failpoint(StrEnum):
    MIGRATE_BETWEEN_DATABASES = "migrate.between_databases"
    ADD_POOL_BEFORE_REGISTER = "add_pool.before_register"
    ADOPT_BEFORE_REGISTER = "adopt.before_register"
    ADOPT_BEFORE_RETIRE = "adopt.before_retire"
    REPOINT_BETWEEN_DATABASES = "repoint.between_databases"
    CREATE_TENANT_BEFORE_CENTRAL = "create_tenant.before_central"
    DELETE_USER_BEFORE_CANCEL = "delete_user.before_cancel"
    DELETE_USER_BEFORE_ROW = "delete_user.before_row"
    MAIL_CLAIMED_BEFORE_SEND = "mail.claimed_before_send"
    MAIL_SENT_BEFORE_ROW = "mail.sent_before_row"
    ALERTS_FOUND_BEFORE_WRITE = "alerts.found_before_write"
    ALERT_SENT_BEFORE_ROW = "alert.sent_before_row"
    DELIVERY_CLAIMED_BEFORE_SEND = "delivery.claimed_before_send"
    DELIVERY_SENT_BEFORE_ROW = "delivery.sent_before_row"
    DELIVERY_ROW_BEFORE_ENDPOINT = "delivery.row_before_endpoint"
    ENDPOINT_MAIL_SENT_BEFORE_ROW = "endpoint_mail.sent_before_row"
    REQUEST_BEFORE_RESPONSE = "request.before_response"
    CREDIT_BEFORE_AUDIT = "credit.before_audit"
    BUDGET_BEFORE_AUDIT = "budget.before_audit"
    SUBMIT_BEFORE_RELAY = "submit.before_relay"
    BATCH_BEFORE_RELAY = "batch.before_relay"
    BATCH_CANCEL_BEFORE_RELAY = "batch.cancel_before_relay"
    BATCH_RETRY_BEFORE_RELAY = "batch.retry_before_relay"
    RELAY_BEFORE_QUEUED = "relay.before_queued"
    RELAY_BEFORE_CLOSED = "relay.before_closed"
    LEASE_BEFORE_START = "lease.before_start"
    START_BEFORE_RESPONSE = "start.before_response"
    START_BEFORE_CLOSE = "start.before_close"
    RESTART_BEFORE_POOL = "restart.before_pool"
    COMPLETE_BEFORE_POOL = "complete.before_pool"
    COMPLETE_BEFORE_CLOSE = "complete.before_close"
    FAIL_BEFORE_CLOSE = "fail.before_close"
    REQUEUE_BEFORE_POOL = "requeue.before_pool"
    CANCEL_BEFORE_RELAY = "cancel.before_relay"
    RETRY_BEFORE_RELAY = "retry.before_relay"
    REAP_BEFORE_CLOSE = "reap.before_close"
    EXPIRE_BEFORE_RELAY = "expire.before_relay"
    RECONCILE_BEFORE_POOL = "reconcile.before_pool"
    PRIORITY_BEFORE_POOL = "priority.before_pool"
    BULK_READ_BEFORE_ACT = "bulk.read_before_act"
    BULK_ACTED_BEFORE_OUTCOME = "bulk.acted_before_outcome"
    BULK_BATCH_BEFORE_COUNTS = "bulk.batch_before_counts"
    REGISTER_BEFORE_REQUEUE = "register.before_requeue"
    DEREGISTER_BEFORE_REMOVE = "deregister.before_remove"
    REVOKE_BEFORE_REQUEUE = "revoke.before_requeue"
    REFUSAL_BEFORE_REQUEUE = "refusal.before_requeue"
    SWEEP_WORKER_BEFORE_REMOVE = "sweep_worker.before_remove"
    SCALING_RECORDED_BEFORE_DRIVER = "scaling.recorded_before_driver"
    SCALING_ORDERED_BEFORE_END = "scaling.ordered_before_end"
    AUDIT_BEFORE_LINE = "audit.before_line"
    LEDGER_AUDIT_BEFORE_RESULT = "ledger_audit.before_result"
    STATISTICS_AFTER_COMMIT = "statistics.after_commit"
    SPEND_BETWEEN_DATABASES = "spend.between_databases"
    STORAGE_BEFORE_POINTER = "storage.before_pointer"
    STORAGE_COPY_HALF_MADE = "storage.copy_half_made"
    OBJECT_STORED_BEFORE_CHECK = "object.stored_before_check"
    PARTS_STARTED_BEFORE_ROW = "parts.started_before_row"
    CONFIRM_COPIED_BEFORE_ROW = "confirm.copied_before_row"
    CONFIRM_ROW_BEFORE_DELETE = "confirm.row_before_delete"
    OUTPUT_ACCEPTED_BEFORE_DELETE = "output.accepted_before_delete"
    MEDIA_DELETE_BEFORE_OBJECTS = "media.delete_before_objects"
    MEDIA_SWEEP_BEFORE_ROWS = "media.sweep_before_rows"
    PREVIEW_CLAIMED_BEFORE_OBJECTS = "preview.claimed_before_objects"
    PREVIEW_OBJECTS_BEFORE_ROW = "preview.objects_before_row"
    CATALOG_BEFORE_ROW = "catalog.before_row"
    EFFECT_BEFORE_SUBMIT = "effect.before_submit"
    WEBHOOK_INTENT_BEFORE_RESPONSE = "webhook.intent_before_response"
    WEBHOOK_DEFER_BEFORE_CALL = "webhook.defer_before_call"
    WEBHOOK_CALLBACK_BEFORE_RESPONSE = "webhook.callback_before_response"
    WEBHOOK_STATUS_BEFORE_RECORD = "webhook.status_before_record"
    WEBHOOK_COLLECT_BEFORE_COMPLETE = "webhook.collect_before_complete"
    WEBHOOK_COMPLETE_BEFORE_END = "webhook.complete_before_end"
    WEBHOOK_CANCEL_BEFORE_END = "webhook.cancel_before_end"
    PIPELINE_CLAIMED_BEFORE_READ = "pipeline.claimed_before_read"
    PIPELINE_CHOSEN_BEFORE_SUBMIT = "pipeline.chosen_before_submit"
    PIPELINE_SUBMITTED_BEFORE_NEXT = "pipeline.submitted_before_next"
    PIPELINE_CANCEL_BEFORE_JOBS = "pipeline.cancel_before_jobs"
    PIPELINE_RESULT_BEFORE_SETTLE = "pipeline.result_before_settle"
    PIPELINE_COPY_BEFORE_CANDIDATES = "pipeline.copy_before_candidates"
    PIPELINE_KILL_BETWEEN_PIECES = "pipeline.kill_between_pieces"
    PIPELINE_KILL_BEFORE_CANCELS = "pipeline.kill_before_cancels"
    RUN_DELETION_BETWEEN_BATCHES = "run_deletion.between_batches"
    PIPELINE_THUMBNAIL_BEFORE_OBJECT = "pipeline.thumbnail_before_object"
    PIPELINE_THUMBNAIL_BEFORE_ROW = "pipeline.thumbnail_before_row"


class Crashed(BaseException):
    """Simulates the end of the process. It is not an Exception, so no handler catches it."""


Action = Callable[[Failpoint], Awaitable[None]]

_armed: ContextVar[Mapping[Failpoint, Action] | None] = ContextVar("armed_failpoints", default=None)
# Set once at the start from the settings. Loops run in their own contexts and must see it too.
_armed_for_process: dict[Failpoint, Action] = {}


async def hit(point: Failpoint) -> None:
    action = _action_at(point)
    if action is not None:
        await action(point)


def hit_in_thread(point: Failpoint) -> Callable[[], None]:
    """Like `hit`, for work in a thread: the task calls this, and the thread calls the returned function."""
    action = _action_at(point)
    if action is None:
        return _pass
    loop = asyncio.get_running_loop()

    async def act() -> None:
        await action(point)

    def act_from_thread() -> None:
        try:
            asyncio.run_coroutine_threadsafe(act(), loop).result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None

    return act_from_thread


def _action_at(point: Failpoint) -> Action | None:
    return (_armed.get() or {}).get(point) or _armed_for_process.get(point)


def _pass() -> None:
    """No action is armed."""


async def crash(point: Failpoint) -> None:
    raise Crashed(point)


async def end_process(point: Failpoint) -> None:
    os._exit(137)


@contextmanager
def armed(actions: Mapping[Failpoint, Action]) -> Iterator[None]:
    """Arms failpoints for this task and the tasks it starts."""
    token = _armed.set({**(_armed.get() or {}), **actions})
    try:
        yield
    finally:
        _armed.reset(token)


def arm_for_process(names: str) -> None:
    """Arms the failpoints that a setting names."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in set(Failpoint)]
    if unknown:
        raise OperatorError(
            f"CALLSHEET_FAILPOINTS names unknown failpoints: {', '.join(unknown)}. Available: {', '.join(Failpoint)}."
        )
    _armed_for_process.update({Failpoint(name): end_process for name in wanted})
