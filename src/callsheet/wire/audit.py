"""The audit log, as the API returns it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import Answer


class AuditEntry(Answer):
    id: int
    at: datetime
    actor: str = Field(
        description="`admin:` and the user's id, or `user:` for something of their own; `operator` for the command "
        "line; `anonymous` for a failed login."
    )
    action: str = Field(description="The action, for example `workflow.create`.")
    subject_type: str
    subject_id: str
    tenant_id: UUID | None = None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Only entries that match all filters. `None` means no filter."""

    actor: str | None = None
    action: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
