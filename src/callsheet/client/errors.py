"""The errors of the client: a class for each code that the control plane refuses with, and what a client itself finds.

    from callsheet.client.errors import CallsheetError, InsufficientTokens

The control plane raises the same classes. A code that this version does not know is a `Refusal` with that `code`.
"""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from callsheet.wire import errors
from callsheet.wire.errors import *  # noqa: F403 (the table of codes)
from callsheet.wire.errors import CallsheetError, FieldProblem, Refusal
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.problems import Problem
from callsheet.wire.worker import errors as worker_errors
from callsheet.wire.worker.errors import *  # noqa: F403

UNKNOWN = "unknown"
CLASSES: dict[str, type[Refusal]] = {
    each.code: each
    for module in (errors, worker_errors)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Refusal)
}


class ClientError(CallsheetError):
    """The client found the problem itself."""


class Unreachable(ClientError):
    """The control plane or its storage does not respond, although the client tried for some time."""


class NotConnected(Unreachable):
    """Nothing accepts a connection at the URL of the control plane."""


class UnknownResponse(ClientError):
    """The server does not respond like Callsheet."""


class UnusableFile(ClientError):
    """A file cannot be read, written, sent or fetched."""


class JobNotCompleted(ClientError):
    """The job has ended without a result: it has failed or expired, or it was canceled."""

    def __init__(self, job: Job):
        reason = f": {job.error.message}" if job.error is not None else "."
        super().__init__(
            f"Job {job.id} {'was' if job.status is JobStatus.CANCELED else 'has'} {job.status.value}{reason}"
        )
        self.job = job


class NotEnded(ClientError, TimeoutError):
    """The job has not ended within the given time. It goes on."""


def refusal_of(response: httpx.Response) -> Refusal:
    """The error of a response that was read. It has the sentences of the server."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        text = f"{response.request.url.host} returned the status {response.status_code}."
        problem = Problem(type="about:blank", title=text, status=response.status_code, code=UNKNOWN)
    known = CLASSES.get(problem.code) or type("Refusal", (Refusal,), {"code": problem.code})
    refusal: Refusal = Refusal.__new__(known)
    Refusal.__init__(
        refusal, problem.detail, errors=[FieldProblem(each.field, each.reason) for each in problem.errors or ()]
    )
    sentence = f"{problem.title} {problem.detail}" if problem.detail else problem.title
    request_id = problem.request_id or response.headers.get("x-request-id")
    wait = response.headers.get("retry-after", "")
    seconds = int(wait) if wait.isascii() and wait.isdigit() else None
    refusal.receive(sentence, problem.model_extra or {}, response.status_code, request_id, seconds)
    return refusal
