"""Answers of the worker protocol in a `data` envelope, for worker programs that look for them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from callsheet.wire.errors import InvalidRequest

HEADER = "x-callsheet-envelope"


@dataclass(frozen=True, slots=True)
class Envelope:
    """The setting decides, because a program that needs the envelope cannot send a header that it does not know. One
    that can send the header decides for itself."""

    default: Literal["none", "data"] = "none"

    def is_wanted(self, request: Request) -> bool:
        wanted = request.headers.get(HEADER, self.default)
        if wanted not in ("none", "data"):
            raise InvalidRequest.field(HEADER, "The value must be `data` or `none`.")
        return wanted == "data"


def enveloped(answer: str) -> str:
    """The JSON object inside `data`. Its fields stay beside it too: other workers of the installation look there."""
    fields = answer[1:-1]
    return f'{{"data":{answer},{fields}}}' if fields else f'{{"data":{answer}}}'
