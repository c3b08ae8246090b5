"""Responses of the worker protocol in a `data` envelope, for worker programs that expect it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from callsheet.wire.errors import InvalidRequest

HEADER = "x-callsheet-envelope"


@dataclass(frozen=True, slots=True)
class Envelope:
    """Chooses the form of responses. The setting is the default, because a program that needs the envelope may not
    know the header. A program that sends the header overrides the setting.
    """

    default: Literal["none", "data"] = "none"

    def is_wanted(self, request: Request) -> bool:
        if HEADER not in request.headers:
            return self.default == "data"
        wanted = request.headers[HEADER]
        if wanted not in ("none", "data"):
            raise InvalidRequest.field(HEADER, "The value must be `data` or `none`.")
        return wanted == "data"


def enveloped(response: str) -> str:
    """Puts the JSON object inside `data`. Its fields also stay at the top level, where other workers expect them."""
    fields = response[1:-1]
    return f'{{"data":{response},{fields}}}' if fields else f'{{"data":{response}}}'
