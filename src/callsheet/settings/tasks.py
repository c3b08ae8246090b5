"""Settings of tasks: where they run, and what they cost."""

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
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,62}")
# Default costs of the built-in kinds of generation.
COSTS: Mapping[str, int] = {"copy": 1, "scrape": 1, "static_ad": 5, "ugc_video": 20, "tts": 2}
Tokens = Annotated[int, Field(ge=0, le=2**53)]
Money = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


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


def _are_providers(prices: dict[str, float]) -> dict[str, float]:
    for name in prices:
        if not _PROVIDER.fullmatch(name):
            raise ValueError(f"{name!r} must be the name of a provider like replicate")
    return prices


def _with_defaults(value: object) -> object:
    # A price for one kind does not make the others free.
    return {**COSTS, **value} if isinstance(value, dict) else value


class TaskSettings(Section):
    queues: Annotated[Names, AfterValidator(_are_queues)] = Field(
        (), description="Queues that tasks may be sent to besides `default`, comma separated."
    )
    costs: Annotated[dict[str, Tokens], BeforeValidator(_with_defaults), AfterValidator(_are_price_names)] = Field(
        dict(COSTS),
        description="Prices of tasks in tokens, as JSON: by `provider/action` (`replicate/flux`), by `provider/*`, "
        "or by actor. The first of these that is set applies. Prices that you set are merged into the "
        "defaults. A task that calls a paid provider without a price is refused; other tasks without a "
        "price cost 0.",
    )
    provider_prices: Annotated[dict[str, Money], AfterValidator(_are_providers)] = Field(
        {},
        description="What one call of a provider costs in money, as JSON by provider, for example "
        '`{"replicate": 0.04}`. Only for the estimate of operators; users pay the tokens of `tasks.costs`.',
    )
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="Currency of `tasks.provider_prices`.")
    active_per_user: int = Field(
        20,
        ge=1,
        le=100_000,
        description="Largest number of active tasks of one user, without typed jobs and jobs of runs.",
    )
    typed_active_per_user: int = Field(
        20, ge=1, le=100_000, description="Largest number of active typed jobs (`/api/generate/…`) of one user."
    )
    in_process: int = Field(
        10,
        ge=0,
        le=1000,
        description="Number of tasks that a control plane runs itself at once. 0: only workers run tasks.",
    )
    sync_wait_seconds: float = Field(
        30.0,
        ge=0,
        le=300,
        description="How long a request for copy or a scrape waits for the result, in seconds. After that the "
        "unfinished job is returned and keeps running.",
    )
    lease_seconds: int = Field(
        30,
        ge=5,
        le=3600,
        description="Lease time of a task, in seconds. If its worker sends no heartbeat for this "
        "time, another worker gets the task.",
    )
    heartbeat_seconds: float = Field(
        5.0, ge=0.1, le=600, description="Time between two heartbeats of a running task, in seconds."
    )
