"""Tasks: who runs them, how, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from callsheet.settings.values import Names
from callsheet.toolbox.sections import Section

DEFAULT_QUEUE = "default"
# With the longest name of an actor it still makes the slug of a workflow.
_QUEUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,56}")
_PRICED = re.compile(r"[a-z][a-z0-9_]{0,62}|[a-z][a-z0-9_-]{0,62}/([a-z][a-z0-9_]{0,62}|\*)")
# Of the built-in kinds of generation, where nothing else is said.
COSTS: Mapping[str, int] = {"copy": 1, "scrape": 1, "static_ad": 5, "ugc_video": 20, "tts": 2}
Tokens = Annotated[int, Field(ge=0, le=2**53)]


def _are_queues(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not _QUEUE.fullmatch(value):
            raise ValueError("must be names like fast or night-shift, of 57 letters at most")
    return tuple(dict.fromkeys(value for value in values if value != DEFAULT_QUEUE))


def _are_price_names(costs: dict[str, int]) -> dict[str, int]:
    for name in costs:
        if not _PRICED.fullmatch(name):
            raise ValueError(f"{name!r} must be an actor like copy, or a provider and an action like replicate/flux")
    return costs


def _with_defaults(value: object) -> object:
    # Who prices one kind does not make the others free.
    return {**COSTS, **value} if isinstance(value, dict) else value


class TaskSettings(Section):
    queues: Annotated[Names, AfterValidator(_are_queues)] = Field(
        (), description="Queues that tasks may be sent to besides `default`, comma separated."
    )
    costs: Annotated[dict[str, Tokens], BeforeValidator(_with_defaults), AfterValidator(_are_price_names)] = Field(
        dict(COSTS),
        description="What a task costs, in tokens, as JSON: by `provider/action` (`replicate/flux`), by `provider/*`, "
        "or by actor; the first of these that is there counts. Given prices are laid over the defaults. A task that "
        "reaches a paid provider without a price is refused; other tasks without a price cost 0.",
    )
    active_per_user: int = Field(
        20, ge=1, le=100_000, description="Most active tasks of one user. Typed jobs and jobs of runs are not counted."
    )
    typed_active_per_user: int = Field(
        20, ge=1, le=100_000, description="Most active typed jobs (`/api/generate/…`) of one user."
    )
    in_process: int = Field(
        10, ge=0, le=1000, description="How many tasks a control plane runs itself at once; 0 leaves them to workers."
    )
    sync_wait_seconds: float = Field(
        30.0,
        ge=0,
        le=300,
        description="How long a request for copy or a scrape waits for its end, in seconds; it goes on without.",
    )
    lease_seconds: int = Field(
        30, ge=5, le=3600, description="A task whose worker was not heard of for so long is begun again, in seconds."
    )
    heartbeat_seconds: float = Field(
        5.0, ge=0.1, le=600, description="How often whoever runs a task says that it still does, in seconds."
    )
