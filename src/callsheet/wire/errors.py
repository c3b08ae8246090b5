"""Every error that Callsheet returns for a request.

A refusal has a stable `code` that programs match on. The docstring of its class is the sentence that people read.
`plumbing.problems` decides the HTTP status of each code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.wire.plurals import counted
from callsheet.wire.refusals import MAX_SENTENCES
from callsheet.wire.refusals import CallsheetError as CallsheetError
from callsheet.wire.refusals import FieldProblem as FieldProblem
from callsheet.wire.refusals import Refusal as Refusal
from callsheet.wire.refusals import sentences as sentences


class InvalidRequest(Refusal):
    """The request has fields that are missing, unknown or wrong."""

    code = "invalid_request"

    @classmethod
    def field(cls, name: str, reason: str) -> InvalidRequest:
        return cls.of([FieldProblem(name, reason)])

    @classmethod
    def of(cls, problems: Sequence[FieldProblem]) -> InvalidRequest:
        return cls(sentences(problems), errors=problems)


class MalformedRequest(Refusal):
    """The request could not be read."""

    code = "malformed_request"


class BodyTooLarge(Refusal):
    """The body is larger than this URL accepts."""

    code = "body_too_large"

    def __init__(self, limit_bytes: int):
        super().__init__(
            f"The limit here is {counted(limit_bytes, 'byte')}. Send a smaller body.",
            errors=[FieldProblem("body", f"The body is larger than {counted(limit_bytes, 'byte')}.")],
            limit_bytes=limit_bytes,
        )


class BodyTooSlow(Refusal):
    """The body did not arrive in time."""

    code = "body_too_slow"

    def __init__(self, bytes_per_second: int, seconds: float | None):
        whole = f", and the whole body within {counted(seconds, 'second')}" if seconds is not None else ""
        super().__init__(
            f"Send the body at {counted(bytes_per_second, 'byte')} per second or faster{whole}. Send the request "
            "again.",
            errors=[FieldProblem("body", "The body arrives too slowly.")],
            bytes_per_second=bytes_per_second,
        )


class HeadersTooLarge(Refusal):
    """The request's headers are larger than this server accepts."""

    code = "headers_too_large"

    def __init__(self, field: str, limit_bytes: int):
        super().__init__(
            f"The URL and all headers together may have at most {counted(limit_bytes, 'byte')}.",
            errors=[FieldProblem(field, "This part of the request is the largest. Make it shorter.")],
            limit_bytes=limit_bytes,
        )


class UnsupportedMediaType(Refusal):
    """This URL does not accept a body of this media type."""

    code = "unsupported_media_type"


class NotAuthenticated(Refusal):
    """Sign in, or send an API key as `Authorization: Bearer …`."""

    code = "not_authenticated"


class InvalidCredentials(Refusal):
    """The e-mail address or the password is wrong."""

    code = "invalid_credentials"


class Forbidden(Refusal):
    """You are not allowed to make this request. The detail says why."""

    code = "forbidden"


class WrongHost(Refusal):
    """This control plane does not serve this host name."""

    code = "wrong_host"

    def __init__(self, host: str):
        super().__init__(
            f"The request names the host {host[:200]!r}. Use the URL of server.public_url. An operator can add other "
            "host names with server.allowed_origins.",
            errors=[FieldProblem("header host", "This host name is not one of this control plane.")],
        )


class CsrfFailed(Refusal):
    """The request came with a session cookie but without the session's CSRF token."""

    code = "csrf_failed"


class NotFound(Refusal):
    """Not found: no such path or id."""

    code = "not_found"


class MethodNotAllowed(Refusal):
    """This URL does not accept this HTTP method."""

    code = "method_not_allowed"


class Conflict(Refusal):
    """The request conflicts with an object that exists, or with another request. The detail says what to change."""

    code = "conflict"


EMAIL_IN_USE = "A user with this e-mail address already exists."


class InUse(Refusal):
    """Another object still uses this object. End that use first."""

    code = "in_use"


class WrongState(Refusal):
    """The current state of the object does not allow this request. Read the object to see its state."""

    code = "wrong_state"


class RatePolicy(NamedTuple):
    """A limit of requests: at most `quota` in each window. Without a window, at most `quota` at the same time."""

    name: str
    quota: int
    window_seconds: int | None


class RateLimited(Refusal):
    """Too many attempts. Wait, then try again."""

    code = "rate_limited"
    # The limit that was reached. A client that received the refusal does not know it.
    policy: RatePolicy | None = None

    def __init__(self, retry_after_seconds: int, policy: RatePolicy):
        self.policy = policy
        super().__init__(
            f"Try again in {counted(retry_after_seconds, 'second')}.", retry_after_seconds=retry_after_seconds
        )
        self.retry_after_seconds = retry_after_seconds


class SignatureInvalid(Refusal):
    """The signed URL was changed, or another server signed it. Request a new URL."""

    code = "signature_invalid"


class SignatureExpired(Refusal):
    """The signed URL has expired. Request a new URL."""

    code = "signature_expired"


class ContentMismatch(Refusal):
    """The uploaded bytes differ from what was declared when the URL was signed."""

    code = "content_mismatch"


class RangeNotSatisfiable(Refusal):
    """The requested range is outside the object."""

    code = "range_not_satisfiable"

    def __init__(self, size: int):
        super().__init__(f"The object has {counted(size, 'byte')}.", size=size)
        self.size = size


class Unavailable(Refusal):
    """A part that this request needs is currently not available. Try again shortly."""

    code = "unavailable"

    def __init__(self, detail: str | None = None, *, retry_after_seconds: int = 1):
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class InsufficientStorage(Refusal):
    """This installation has too little free disk space for new uploads and new jobs. Try again later."""

    code = "insufficient_storage"
    retry_after_seconds = 60

    def __init__(self) -> None:
        super().__init__(
            "Nothing was stored and nothing was charged. Jobs that were accepted before go on. Try again later. An "
            "operator sees with `callsheet doctor` which disk is full.",
            retry_after_seconds=self.retry_after_seconds,
        )


class FileNotMeasured(Refusal):
    """The price depends on a file that is not measured yet. Send the request again in a moment."""

    code = "file_not_measured"
    retry_after_seconds = 2

    def __init__(self, field: str, measure: str):
        self.measure = measure
        reason = (
            f"The price depends on the {measure} of this file, which Callsheet is measuring. Send the request again in "
            "a moment."
        )
        super().__init__(reason, errors=[FieldProblem(field, reason)], retry_after_seconds=self.retry_after_seconds)


class InsufficientTokens(Refusal):
    """The wallet does not hold enough tokens for this job or batch."""

    code = "insufficient_tokens"

    def __init__(self, required_tokens: int, balance: int, work: str = "job", *, paid_by_tenant: bool = False):
        owner = "tenant, from which all its users pay," if paid_by_tenant else "user"
        super().__init__(
            f"The {work} costs {counted(required_tokens, 'token')}, and the wallet of the {owner} has {balance}.",
            required_tokens=required_tokens,
            balance=balance,
            paid_by="tenant" if paid_by_tenant else "user",
        )


class BudgetReached(Refusal):
    """A budget has too few tokens left for this job in its current period."""

    code = "budget_reached"

    @classmethod
    def of(cls, required_tokens: int, budget: Mapping[str, Any], noun: str = "job") -> BudgetReached:
        """`budget`: what the database function `budget_refusal` returns. Empty: it has room again."""
        if not budget:
            return cls("Send the request again: the budget has tokens again.", retry_after_seconds=1)
        named = f"The {noun} costs {counted(required_tokens, 'token')}. The budget {budget['budget']!r}"
        data = {
            "required_tokens": required_tokens,
            **{name: budget[name] for name in ("budget_id", "budget", "resets_at")},
        }
        if required_tokens > budget["limit"]:
            return cls(f"{named} allows fewer tokens in a whole period. Ask an administrator of your tenant.", **data)
        refusal = cls(
            f"{named} has fewer tokens left until {budget['resets_at']}. Wait, or ask an administrator of your tenant.",
            retry_after_seconds=max(1, int(budget["wait_seconds"])),
            **data,
        )
        refusal.retry_after_seconds = max(1, int(budget["wait_seconds"]))
        return refusal


class TooManyActiveJobs(Refusal):
    """Too many jobs are active. Wait for one to finish, or cancel one."""

    code = "too_many_active_jobs"

    def __init__(
        self,
        active: int,
        limit: int,
        noun: str = "jobs",
        setting: str = "jobs.active_per_user",
        retry_after_seconds: int | None = None,
        new: int = 1,
    ):
        """`retry_after_seconds`: when the first of the active jobs probably ends. None: not known."""
        sentence = f"You have {active} active {noun}, and the limit is {limit} ({setting})."
        if new > 1:
            sentence += f" This request would add {new}."
        if retry_after_seconds is not None:
            sentence += f" The next of them is expected to end in about {counted(retry_after_seconds, 'second')}."
        super().__init__(sentence, active=active, limit=limit, setting=setting)
        if retry_after_seconds is not None:
            self.data["retry_after_seconds"] = retry_after_seconds
        self.retry_after_seconds = retry_after_seconds


class TooManyActiveRuns(Refusal):
    """Too many runs are active. Wait for one to finish, or pause or cancel one."""

    code = "too_many_active_runs"

    def __init__(self, limit: int):
        super().__init__(f"You have reached the limit of {counted(limit, 'active run')}.", limit=limit)


class TooManyPendingUploads(Refusal):
    """Too many uploads are not confirmed. Confirm some, or delete them."""

    code = "too_many_pending_uploads"

    def __init__(self, limit: int):
        super().__init__(f"You have reached the limit of {counted(limit, 'unconfirmed upload')}.", limit=limit)


class QuotaExceeded(Refusal):
    """A quota is used up. Delete something that counts towards it, or ask an operator for more."""

    code = "quota_exceeded"

    def __init__(self, quota: str, used: int, limit: int, detail: str):
        super().__init__(detail, quota=quota, used=used, limit=limit)


class TooManyStreams(Refusal):
    """Too many streams are open. Close some: one stream has the events of all jobs."""

    code = "too_many_streams"

    def __init__(self, limit: int):
        super().__init__(f"You have reached the limit of {counted(limit, 'open stream')}.", limit=limit)


class TooManyConnections(Refusal):
    """Your network address has too many requests in progress. Try again when some of them have ended."""

    code = "too_many_connections"

    def __init__(self, limit: int):
        super().__init__(f"One network address may have at most {counted(limit, 'request')} in progress.", limit=limit)


class IdempotencyKeyReused(Refusal):
    """This idempotency key was used for a different request. Use a new key for a new request."""

    code = "idempotency_key_reused"

    @classmethod
    def by(cls, kind: str, existing: UUID, fields: Sequence[str]) -> IdempotencyKeyReused:
        """`kind`: for example job. `fields`: those in which the request differs from the one that created it."""
        places = f" in {', '.join(fields[:MAX_SENTENCES])}" if fields else ""
        detail = f"The {kind} {existing} has this key. Its request differs{places}. Use a new key for a new request."
        problems = [FieldProblem(name, f"The request of the {kind} has another value here.") for name in fields]
        return cls(detail, errors=problems, **{f"{kind.replace(' ', '_')}_id": str(existing)})

    @classmethod
    def by_request(cls, action: str, fields: Sequence[str] = ()) -> IdempotencyKeyReused:
        """`action`: what the earlier request was. `fields`: those in which it differs, if it was the same action."""
        if not fields:
            reason = f"The request {action} has this key. Use a new key for a new request."
            return cls(reason, errors=[FieldProblem("header.idempotency-key", reason)])
        places = ", ".join(fields[:MAX_SENTENCES])
        detail = f"An earlier request with this key differs in {places}. Use a new key for a new request."
        reason = "The earlier request with this key has another value here."
        return cls(detail, errors=[FieldProblem(name, reason) for name in fields])


class RequestInProgress(Refusal):
    """An earlier request with this idempotency key has not ended yet. Send the same request again a little later."""

    code = "request_in_progress"
    retry_after_seconds = 2

    def __init__(self) -> None:
        super().__init__(None, retry_after_seconds=self.retry_after_seconds)


class ResponseNotKept(Refusal):
    """An earlier request with this idempotency key was carried out, and its response can no longer be read."""

    code = "response_not_kept"

    def __init__(self, action: str | None, reason: str):
        what = f"The request {action}" if action else "The earlier request"
        super().__init__(f"{what} was carried out. {reason} Look for what it made before you send it with a new key.")


class InvalidTransition(Refusal):
    """The job's status does not allow this."""

    code = "invalid_transition"

    def __init__(self, from_status: str, to_status: str):
        super().__init__(
            f"A job that is {from_status} cannot become {to_status}.", from_status=from_status, to_status=to_status
        )


class InternalError(Refusal):
    """An unexpected error happened on the server and was logged. Quote the request id when you report it."""

    code = "internal_error"
