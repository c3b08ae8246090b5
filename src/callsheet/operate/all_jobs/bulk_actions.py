"""Bulk actions: how operators start, watch and stop them. `bulk_loop.py` carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of, record
from callsheet.jobs.show.search_terms import BEHIND_LAST
from callsheet.operate.all_jobs.filters import fitting
from callsheet.operate.all_jobs.names import Names
from callsheet.operate.all_jobs.sql import BULK_SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.http.request_fields import differing, fields_of
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import IdempotencyKeyReused, InvalidRequest, NotFound
from callsheet.wire.operate.all_jobs import BulkAction, BulkActionKind, JobFilter, RefusalCount, StartBulkAction

NOT_FITTING = {
    BulkActionKind.RETRY: "Only failed and expired jobs can be retried. Choose one of these statuses, or none.",
    BulkActionKind.CANCEL: "Only pending, queued and processing jobs can be canceled. Choose one of them, or none.",
    BulkActionKind.SET_PRIORITY: "Only pending and queued jobs have a priority. Choose one of these statuses, or none.",
}


class ActionRow(NamedTuple):
    id: UUID
    action: str
    priority: int | None
    filter: Mapping[str, Any]
    reason: str | None
    created_by: UUID
    created_at: datetime
    state: str
    stopped_by: UUID | None
    finished_at: datetime | None
    is_collected: bool
    total: int
    done: int
    refused: int
    refusals: Sequence[Mapping[str, Any]]


class StartedAction(NamedTuple):
    shown: BulkAction
    # Whether an earlier request with the same idempotency key started it.
    replayed: bool


class BulkActions:
    def __init__(self, central: Database, names: Names, wake: Callable[[], None]):
        """`wake` makes the bulk loop of this process, if there is one, start on a new action at once."""
        self._central = central
        self._names = names
        self._wake = wake

    async def start(self, principal: Principal, body: StartBulkAction, idempotency_key: str | None) -> StartedAction:
        """The action; an earlier request with the same key may have started it."""
        wanted = frozen(body)
        action_id = uuid7()
        stored = wanted.model_dump(mode="json", exclude_defaults=True)
        request = {"action": body.action.value, "priority": body.priority, "filter": stored, "reason": body.reason}
        key = {"created_by": principal.user_id, "idempotency_key": idempotency_key}
        async with self._central.transaction() as connection:
            row = await BULK_SQL["create_action"].row(connection, ActionRow, id=action_id, **request, **key)
            if row is None:
                row = await BULK_SQL["find_action_by_key"].row(connection, ActionRow, **key)
                assert row is not None, "a unique constraint found it, and no action is deleted"
                _check_same(row, request)
            else:
                details = {"kind": request.pop("action"), **request}
                actor = actor_of(principal)
                await record(connection, actor, "bulk_action.start", "bulk_action", action_id, None, **details)
        self._wake()
        return StartedAction((await self._views([row]))[0], replayed=row.id != action_id)

    async def page(self, before: UUID | None, limit: int) -> Page[BulkAction]:
        """The bulk actions, newest first."""
        async with self._central.ordinary() as connection:
            rows = await BULK_SQL["list_actions"].rows(
                connection, ActionRow, before=before or BEHIND_LAST, limit=limit + 1
            )
        return page_of(await self._views(rows), limit)

    async def get(self, action_id: UUID) -> BulkAction:
        async with self._central.ordinary() as connection:
            row = await BULK_SQL["get_action"].row(connection, ActionRow, id=action_id)
        if row is None:
            raise NotFound("There is no such bulk action.")
        return (await self._views([row]))[0]

    async def stop(self, principal: Principal, action_id: UUID) -> BulkAction:
        """Stops the action. An action that has ended does not change."""
        async with self._central.transaction() as connection:
            stopped = await BULK_SQL["stop_action"].value(connection, id=action_id, stopped_by=principal.user_id)
            if stopped is not None:
                await record(connection, actor_of(principal), "bulk_action.stop", "bulk_action", action_id)
        self._wake()
        return await self.get(action_id)

    async def _views(self, rows: Sequence[ActionRow]) -> list[BulkAction]:
        users = {user for row in rows for user in (row.created_by, row.stopped_by) if user is not None}
        emails = await self._names.users(users) if users else {}
        return [
            BulkAction(
                **{**row._asdict(), "filter": JobFilter.model_validate(row.filter)},
                created_by_email=emails.get(row.created_by),
                stopped_by_email=emails.get(row.stopped_by) if row.stopped_by else None,
                untouched=row.total - row.done - row.refused,
            )
            for row in rows
        ]


def _check_same(row: ActionRow, request: Mapping[str, Any]) -> None:
    earlier = {name: getattr(row, name) for name in request}
    fields = differing(fields_of(earlier), fields_of(request))
    if fields:
        raise IdempotencyKeyReused.by("bulk action", row.id, fields)


def frozen(body: StartBulkAction) -> JobFilter:
    """The filter of the action, limited to the statuses that the action can change. Raises if the request is
    contradictory.
    """
    if (body.action is BulkActionKind.SET_PRIORITY) != (body.priority is not None):
        raise InvalidRequest.field(
            "priority",
            "Send priority: the action set_priority needs the new priority."
            if body.priority is None
            else "Only the action set_priority takes a priority.",
        )
    statuses = fitting(body.action, body.filter.status)
    if not statuses:
        raise InvalidRequest.field("filter.status", NOT_FITTING[body.action])
    return body.filter.model_copy(update={"status": statuses})


def refusals_of(counts: Mapping[str, tuple[int, str]]) -> list[RefusalCount]:
    """The refusals of an action. `counts`: by error code, the number of jobs and an example."""
    found = [RefusalCount(code=code, jobs=jobs, example=example) for code, (jobs, example) in counts.items()]
    return sorted(found, key=lambda each: (-each.jobs, each.code))
