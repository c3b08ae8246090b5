"""The audit log, as the API returns it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel


class AuditLine(ResponseModel):
    """One line of the audit log."""

    id: int
    at: datetime
    actor: str = Field(
        description="`admin:` and the user's id, or `user:` for something of their own; `operator` for the command "
        "line; `anonymous` for a failed login."
    )
    actor_email: str | None = Field(None, description="E-mail address of the user who acted, if it was a user.")
    action: str = Field(description="The action, for example `workflow.create`.")
    subject_type: str
    subject_id: str
    subject_name: str | None = Field(
        None,
        description="What the subject is called: e-mail address of a user, slug of a tenant or effect, slug and stage "
        "of a fleet, name of an asset, kind of a bulk action. A subject that was deleted keeps its name.",
    )
    tenant_id: UUID | None = None
    tenant: str | None = Field(None, description="Slug of the tenant that the action concerns.")
    details: dict[str, Any]


class AuditEntry(AuditLine):
    names: dict[str, str] = Field(
        default_factory=dict,
        description="Names of the users (e-mail address) and tenants (slug) whose ids are in `details`, by their id.",
    )


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Only entries that match all filters. `None` means no filter."""

    # An actor as the log names it, or the e-mail address of a user.
    actor: str | None = None
    action: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    tenant_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
