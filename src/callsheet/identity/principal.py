"""Who is asking: found once per request, passed on as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from callsheet.wire.identity import Role


@dataclass(frozen=True, slots=True)
class Principal:
    user_id: UUID
    tenant_id: UUID
    tenant: str
    pool: str
    email: str
    name: str
    role: Role
    signed_in_with: Literal["api_key", "session"]
    csrf_token: str | None = None
