"""The audit log: the actions of admins and operators, their subjects and their actors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.redaction.redaction import redact_json
from callsheet.wire.base import Page
from callsheet.wire.operate.audit import AuditEntry, AuditFilter, AuditLine

SQL = statements("callsheet.identity", "audit_log_statements.sql")

# The actor of commands, which work on the databases directly.
OPERATOR = "operator"
# The actor of requests without credentials.
ANONYMOUS = "anonymous"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_USER = re.compile(r"(?:admin|user):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def actor_of(principal: Principal) -> str:
    """The name of an admin or a service key in the audit log and in the history of jobs."""
    return f"admin:{principal.user_id}" if principal.service_scopes is None else f"key:{principal.key_id}"


def user_actor(user_id: UUID) -> str:
    """The name of a user who changed something of their own."""
    return f"user:{user_id}"


async def record(
    connection: Connection,
    actor: str,
    action: str,
    subject_type: str,
    subject_id: object,
    tenant_id: UUID | None = None,
    **details: object,
) -> None:
    """Writes one line, in the transaction of the change that it records. `action` is, for example, `workflow.create`.

    `connection` is a connection to central. If an action writes to a pool, the line is written right after the commit
    of the pool.
    """
    await SQL["record"].run(
        connection,
        actor=actor,
        action=action,
        subject_type=subject_type,
        subject_id=str(subject_id),
        tenant_id=tenant_id,
        details=_written(details),
    )


def _written(details: Mapping[str, object]) -> Any:
    """The details as they are written: ids, times and enumerations as text."""
    return redact_json(json.loads(json.dumps(details, default=str)))


class EmailOfUser(NamedTuple):
    id: UUID
    email: str


async def emails_of(connection: Connection, actors: Iterable[str]) -> Mapping[str, str]:
    """The e-mail addresses of the actors that are users and were not deleted. `connection` is a connection to
    central.
    """
    users = {actor: UUID(found[1]) for actor in actors if (found := _USER.fullmatch(actor))}
    if not users:
        return {}
    rows = await SQL["emails_of_users"].rows(connection, EmailOfUser, ids=sorted(set(users.values())))
    emails = {row.id: row.email for row in rows}
    return {actor: emails[user_id] for actor, user_id in users.items() if user_id in emails}


class NamedId(NamedTuple):
    id: UUID
    name: str


class AuditLog:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def add(
        self,
        actor: str,
        action: str,
        subject_type: str,
        subject_id: object,
        tenant_id: UUID | None = None,
        **details: object,
    ) -> None:
        """Writes a line in its own transaction, right after the commit of a write to a pool."""
        async with self._databases.central.connection() as connection:
            await record(connection, actor, action, subject_type, subject_id, tenant_id, **details)

    async def add_if_missing(
        self,
        actor: str,
        action: str,
        subject_type: str,
        subject_id: object,
        tenant_id: UUID | None,
        identity: Mapping[str, object],
        **details: object,
    ) -> bool:
        """Writes a line unless there is one with this `identity` in its details, for example the id of a payment.
        Returns whether it was missing.
        """
        async with self._databases.central.transaction() as connection:
            await SQL["lock_subject"].run(connection, subject_id=str(subject_id))
            line = {"action": action, "subject_type": subject_type, "subject_id": str(subject_id)}
            is_missing = not await SQL["has_line"].value(connection, **line, details=_written(identity))
            if is_missing:
                await record(connection, actor, action, subject_type, subject_id, tenant_id, **identity, **details)
        return is_missing

    async def list(self, wanted: AuditFilter, before: int | None, limit: int) -> Page[AuditEntry]:
        """The entries, newest first."""
        # Type and id of a subject share an index.
        of_subject = wanted.subject_type is not None and wanted.subject_id is not None
        async with self._databases.central.reports() as connection:
            values = {**asdict(wanted), "before": before, "limit": limit + 1}
            values["actors"] = await _actors(connection, values.pop("actor"))
            if of_subject:
                entries = await SQL["list_entries_of_subject"].rows(connection, AuditLine, **values)
            else:
                entries = await SQL["list_entries"].rows(connection, AuditLine, **values)
            items = await _with_names(connection, entries[:limit])
        return Page(items=items, next_cursor=str(items[-1].id) if len(entries) > limit else None)


async def _with_names(connection: Connection, lines: Sequence[AuditLine]) -> list[AuditEntry]:
    """Adds the names of the users and tenants whose ids are in the details."""
    ids = {line.id: ids_in(line.details) for line in lines}
    wanted = set().union(*ids.values())
    rows = await SQL["names_of_ids"].rows(connection, NamedId, ids=sorted(wanted)) if wanted else []
    names = {row.id: row.name for row in rows}
    return [
        AuditEntry(**dict(line), names={str(each): names[each] for each in ids[line.id] if each in names})
        for line in lines
    ]


def ids_in(details: object) -> set[UUID]:
    """The values of the fields `user_id` and `tenant_id`, also of those inside other fields."""
    if not isinstance(details, dict):
        return set()
    found = {UUID(value) for field in ("user_id", "tenant_id") if _ID.fullmatch(str(value := details.get(field)))}
    return found.union(*(ids_in(value) for value in details.values()))


async def _actors(connection: Connection, actor: str | None) -> list[str] | None:
    """The actors to look for. An e-mail address means its user, both as an admin and as a user who changed own data."""
    if actor is None or "@" not in actor:
        return None if actor is None else [actor]
    user_id = await SQL["find_actor"].value(connection, email=actor.lower())
    return [] if user_id is None else [f"admin:{user_id}", f"user:{user_id}"]
