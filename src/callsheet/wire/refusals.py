"""The base of all errors of a request."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

MAX_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A problem with one field of a request. The reason is a whole sentence, or several."""

    field: str
    reason: str

    def __str__(self) -> str:
        """The reason. The name of the field is put in front, unless the sentence itself names it."""
        names_it = re.search(rf"(?<![\w.]){re.escape(self.field)}(?![\w.])", self.reason)
        return self.reason if names_it else f"{self.field}: {self.reason}"


def sentences(problems: Sequence[FieldProblem]) -> str:
    """The first problems as one text. The rest are in the list of errors."""
    return " ".join(str(problem) for problem in problems[:MAX_SENTENCES])


class CallsheetError(Exception):
    """A request that had no success: it was refused, or its client got no response that it can use."""


class Refusal(CallsheetError):
    """The request was refused."""

    code: ClassVar[str] = "refused"
    # Only a client that received the refusal knows these two.
    status: int | None = None
    request_id: str | None = None
    # After how many seconds the request may be sent again, if that is known.
    retry_after_seconds: int | None = None

    def __init__(self, detail: str | None = None, *, errors: Sequence[FieldProblem] = (), **data: object):
        self.detail = detail
        self.errors = tuple(errors)
        self.data = data
        super().__init__(detail or self.title())

    def with_errors(self, errors: Iterable[FieldProblem]) -> Self:
        """The same refusal. It names the fields of another request, which contains the refused one."""
        self.errors = tuple(errors)
        return self

    def receive(
        self, sentence: str, data: Mapping[str, object], status: int, request_id: str | None, wait: int | None
    ) -> None:
        """What the response to a client says beside detail and errors."""
        self.args = (sentence,)
        self.data = dict(data)
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = wait

    @classmethod
    def title(cls) -> str:
        return (inspect.getdoc(cls) or cls.__name__).splitlines()[0]
