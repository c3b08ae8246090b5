"""Every way Callsheet says no.

A refusal has a stable `code` that programs match on and a docstring that is the sentence people read. What HTTP
status a code has is decided at the edge, in `plumbing.problems`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with a request: which field, and why."""

    field: str
    reason: str


class Refusal(Exception):
    """The request was refused."""

    code: ClassVar[str] = "refused"

    def __init__(self, detail: str | None = None, *, errors: Sequence[FieldProblem] = (), **data: object):
        self.detail = detail
        self.errors = tuple(errors)
        self.data = data
        super().__init__(detail or self.title())

    @classmethod
    def title(cls) -> str:
        return (inspect.getdoc(cls) or cls.__name__).splitlines()[0]


class InvalidRequest(Refusal):
    """The request has fields that are missing, unknown or wrong."""

    code = "invalid_request"

    @classmethod
    def field(cls, name: str, reason: str) -> InvalidRequest:
        return cls(f"{name}: {reason}", errors=[FieldProblem(name, reason)])


class MalformedRequest(Refusal):
    """The request could not be read."""

    code = "malformed_request"


class BodyTooLarge(Refusal):
    """The body is larger than this address accepts."""

    code = "body_too_large"

    def __init__(self, limit_bytes: int):
        super().__init__(
            f"At most {limit_bytes} bytes are accepted here.",
            errors=[FieldProblem("body", f"is larger than {limit_bytes} bytes")],
            limit_bytes=limit_bytes,
        )


class BodyTooSlow(Refusal):
    """The body did not arrive in time."""

    code = "body_too_slow"

    def __init__(self, bytes_per_second: int, seconds: float | None):
        whole = f", and the whole body within {seconds:g} seconds" if seconds is not None else ""
        super().__init__(
            f"A body must arrive with {bytes_per_second} bytes per second at least{whole}. Send it again.",
            errors=[FieldProblem("body", "arrives too slowly")],
            bytes_per_second=bytes_per_second,
        )


class HeadersTooLarge(Refusal):
    """The request's headers are larger than this server accepts."""

    code = "headers_too_large"

    def __init__(self, field: str, limit_bytes: int):
        super().__init__(
            f"All headers and the address together may have {limit_bytes} bytes.",
            errors=[FieldProblem(field, "is too large")],
            limit_bytes=limit_bytes,
        )


class UnsupportedMediaType(Refusal):
    """The body is of a type this address does not accept."""

    code = "unsupported_media_type"


class NotAuthenticated(Refusal):
    """Sign in, or send an API key as `Authorization: Bearer …`."""

    code = "not_authenticated"


class RegistrationExpired(NotAuthenticated):
    """The worker was removed because it sent no request for too long. Register again."""

    code = "registration_expired"


class InvalidCredentials(Refusal):
    """The e-mail address or the password is wrong."""

    code = "invalid_credentials"


class Forbidden(Refusal):
    """You may not do this."""

    code = "forbidden"


class WrongHost(Refusal):
    """The request is for a host that this control plane does not answer for."""

    code = "wrong_host"

    def __init__(self, host: str):
        super().__init__(
            f"This control plane is not {host[:200]!r}. Use the address of server.public_url; an operator can add "
            "another one to server.allowed_origins.",
            errors=[FieldProblem("header host", "is not an address of this control plane")],
        )


class CsrfFailed(Refusal):
    """The request came with a session cookie but without the session's CSRF token."""

    code = "csrf_failed"


class NotFound(Refusal):
    """There is nothing here."""

    code = "not_found"


class MethodNotAllowed(Refusal):
    """This address does not take this method."""

    code = "method_not_allowed"


class Conflict(Refusal):
    """It exists already."""

    code = "conflict"


class InUse(Refusal):
    """Something else still needs it."""

    code = "in_use"


class AlreadyRegistered(Refusal):
    """A worker of this id is registered and was seen a moment ago."""

    code = "already_registered"

    def __init__(self, worker_id: str, retry_after_seconds: int):
        super().__init__(
            f"Worker {worker_id!r} is alive. If that was you, try again in {retry_after_seconds} seconds.",
            retry_after_seconds=retry_after_seconds,
        )
        self.retry_after_seconds = retry_after_seconds


class WrongState(Refusal):
    """It is not in a state in which this can be done."""

    code = "wrong_state"


class RateLimited(Refusal):
    """Too many attempts. Wait, then try again."""

    code = "rate_limited"

    def __init__(self, retry_after_seconds: int):
        super().__init__(f"Try again in {retry_after_seconds} seconds.", retry_after_seconds=retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds


class SignatureInvalid(Refusal):
    """The signed address was changed or was not made by this server. Ask for a new one."""

    code = "signature_invalid"


class SignatureExpired(Refusal):
    """The signed address has expired. Ask for a new one."""

    code = "signature_expired"


class ContentMismatch(Refusal):
    """The bytes are not what was declared when the address was signed."""

    code = "content_mismatch"


class RangeNotSatisfiable(Refusal):
    """The requested range lies outside the object."""

    code = "range_not_satisfiable"

    def __init__(self, size: int):
        super().__init__(f"The object has {size} bytes.", size=size)
        self.size = size


class Unavailable(Refusal):
    """A part this request needs is not available now. Try again shortly."""

    code = "unavailable"

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int = 1):
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class InsufficientTokens(Refusal):
    """The wallet does not hold enough tokens for this job."""

    code = "insufficient_tokens"

    def __init__(self, required_tokens: int, balance: int):
        super().__init__(
            f"It costs {required_tokens} and the wallet holds {balance}.",
            required_tokens=required_tokens,
            balance=balance,
        )


class TooManyActiveJobs(Refusal):
    """Too many jobs are active. Wait for one to finish, or cancel one."""

    code = "too_many_active_jobs"

    def __init__(self, active: int, limit: int, noun: str = "jobs", setting: str = "jobs.active_per_user"):
        super().__init__(
            f"You have {active} active {noun}, and the limit is {limit} ({setting}).",
            active=active,
            limit=limit,
            setting=setting,
        )


class TooManyActiveRuns(Refusal):
    """Too many runs are active. Wait for one to finish, or pause or cancel one."""

    code = "too_many_active_runs"

    def __init__(self, limit: int):
        super().__init__(f"{limit} runs are active; more may not be.", limit=limit)


class TooManyPendingUploads(Refusal):
    """Too many uploads are waited for. Confirm some, or delete them."""

    code = "too_many_pending_uploads"

    def __init__(self, limit: int):
        super().__init__(f"{limit} uploads are not confirmed yet; more may not be.", limit=limit)


class QuotaExceeded(Refusal):
    """A quota is used up. Delete something that counts for it, or ask an operator for more."""

    code = "quota_exceeded"

    def __init__(self, quota: str, used: int, limit: int, detail: str):
        super().__init__(detail, quota=quota, used=used, limit=limit)


class TooManyStreams(Refusal):
    """Too many streams are open. Close some; one stream has the events of all jobs."""

    code = "too_many_streams"

    def __init__(self, limit: int):
        super().__init__(f"{limit} streams are open; more may not be.", limit=limit)


class TooManyConnections(Refusal):
    """Your network address has too many requests in progress. Try again when some of them have ended."""

    code = "too_many_connections"

    def __init__(self, limit: int):
        super().__init__(f"One address may have {limit} requests in progress.", limit=limit)


class IdempotencyKeyReused(Refusal):
    """This idempotency key was used for a different request. Use a new key for a new request."""

    code = "idempotency_key_reused"


class InvalidTransition(Refusal):
    """The job cannot do this from the status it has."""

    code = "invalid_transition"

    def __init__(self, from_status: str, to_status: str):
        super().__init__(
            f"A job that is {from_status} cannot become {to_status}.", from_status=from_status, to_status=to_status
        )


class LeaseLost(Refusal):
    """Another lease has taken over. Stop this run; its result is not wanted."""

    code = "lease_lost"
