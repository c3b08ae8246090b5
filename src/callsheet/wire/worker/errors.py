"""Errors of leases and of the worker protocol."""

from __future__ import annotations

from callsheet.wire.errors import FieldProblem, NotAuthenticated, Refusal
from callsheet.wire.plurals import counted


class RegistrationExpired(NotAuthenticated):
    """The worker was removed because it sent no request for too long. Register again."""

    code = "registration_expired"


class AlreadyRegistered(Refusal):
    """A worker with this id is registered and sent a request a moment ago."""

    code = "already_registered"

    def __init__(self, worker_id: str, retry_after_seconds: int):
        super().__init__(
            f"Worker {worker_id!r} is registered and sent a request a moment ago. If it is the same worker, register "
            f"again in {counted(retry_after_seconds, 'second')}.",
            retry_after_seconds=retry_after_seconds,
        )
        self.retry_after_seconds = retry_after_seconds


class EmptyOutput(Refusal):
    """An output is an empty file. Report a failure of the type empty_output."""

    code = "empty_output"

    def __init__(self, field: str, name: str):
        reason = (
            f"The engine or the actor wrote an empty file: {name!r} has 0 bytes. Check the log and the free disk space "
            "of its machine, and the node that saves the result."
        )
        super().__init__(reason, errors=[FieldProblem(field, reason)])


class LeaseLost(Refusal):
    """This lease has ended, and another one may have taken over. Stop the work and discard its result."""

    code = "lease_lost"
