"""The audit log: what admins and operators did, to what, and who it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.principal import Principal
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection, statements
from callsheet.toolbox.redaction import redact_json
from callsheet.wire.audit import AuditEntry, AuditFilter
from callsheet.wire.base import Page

SQL = statements("callsheet.identity", "audit_statements.sql")

# Who works on the databases directly, on the command line.
OPERATOR = "operator"
# Who has proven nothing.
ANONYMOUS = "anonymous"
_USER = re.compile(r"(?:admin|user):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def actor_of(principal: Principal) -> str:
    """An admin as the audit log and the history of jobs name them."""
    return f"admin:{principal.user_id}"


def user_actor(user_id: UUID) -> str:
    """A user who changed something of their own."""
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
    """One line, in the transaction of the change that it records. `action` is like `workflow.create`.

    `connection` is central's. An action whose write is a pool's records it right after that committed.
    """
    await SQL["record"].run(
        connection,
        actor=actor,
        action=action,
        subject_type=subject_type,
        subject_id=str(subject_id),
        tenant_id=tenant_id,
        # Ids, times and enumerations as text.
        details=redact_json(json.loads(json.dumps(details, default=str))),
    )


class UserEmail(NamedTuple):
    id: UUID
    email: str


async def emails_of(connection: Connection, actors: Iterable[str]) -> Mapping[str, str]:
    """The e-mail addresses of the actors that are users and were not deleted. `connection` is central's."""
    users = {actor: UUID(found[1]) for actor in actors if (found := _USER.fullmatch(actor))}
    if not users:
        return {}
    rows = await SQL["emails_of_users"].rows(connection, UserEmail, ids=sorted(set(users.values())))
    emails = {row.id: row.email for row in rows}
    return {actor: emails[user_id] for actor, user_id in users.items() if user_id in emails}


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
        """A line of its own, right after the commit of a write that was a pool's."""
        async with self._databases.central.connection() as connection:
            await record(connection, actor, action, subject_type, subject_id, tenant_id, **details)

    async def list(self, wanted: AuditFilter, before: int | None, limit: int) -> Page[AuditEntry]:
        """Newest first."""
        # Type and id of a subject together have an index.
        of_subject = wanted.subject_type is not None and wanted.subject_id is not None
        async with self._databases.central.ordinary() as connection:
            values = {**asdict(wanted), "before": before, "limit": limit + 1}
            values["actors"] = await _actors(connection, values.pop("actor"))
            if of_subject:
                entries = await SQL["list_entries_of_subject"].rows(connection, AuditEntry, **values)
            else:
                entries = await SQL["list_entries"].rows(connection, AuditEntry, **values)
        items = entries[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(entries) > limit else None)


async def _actors(connection: Connection, actor: str | None) -> list[str] | None:
    """The actors to look for. An e-mail address means its user, as an admin and for things of their own."""
    if actor is None or "@" not in actor:
        return None if actor is None else [actor]
    user_id = await SQL["find_actor"].value(connection, email=actor.lower())
    return [] if user_id is None else [f"admin:{user_id}", f"user:{user_id}"]
