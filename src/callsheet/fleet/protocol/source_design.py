"""The expectations of worker programs of the source design (decision 0030): responses in a `data` envelope, and
providers that only their polls name. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from callsheet.fleet.protocol.authentication import WorkerPrincipal
from callsheet.wire.errors import InvalidRequest

# The source design has two providers: a ComfyUI beside the worker, and Comfy Cloud.
ENGINE_PROVIDERS = ("cloud", "self_hosted")
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


def registered_providers(worker: WorkerPrincipal) -> Sequence[str]:
    """The providers that a poll can name: those of the registration, or of any engine if it named none."""
    return worker.providers if worker.names_providers else ENGINE_PROVIDERS
