"""The form of every error response: RFC 9457 `application/problem+json`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ProblemField(BaseModel):
    field: str
    reason: str


class Problem(BaseModel):
    """The response to a refused request. Match on `code`; the other texts may change."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str | None = None
    errors: list[ProblemField] | None = None
    request_id: str | None = None
