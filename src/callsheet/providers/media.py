"""The interface of media providers: their actions, how they finish, and how they are called.

The task's worker calls a `sync` provider and waits for the result. A `webhook` provider is called, and calls back. A
`worker` provider is not called: agents beside engines lease its jobs. No provider stores jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from callsheet.wire.errors import FieldProblem


class Finish(StrEnum):
    WORKER = "worker"
    SYNC = "sync"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Maximum number of dispatches with this identifier that run at the same time, across all machines."""

    identifier: str
    limit: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A request to a provider. `action` is one of the provider's actions, for example `txt2img`."""

    action: str
    prompt: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    # A URL in `params` that belongs to this installation's storage. It may therefore be in a private network.
    own_url: str | None = None


# Gets percent (0 to 100, if known) and a sentence. Called often, so it must not block.
ReportProgress = Callable[[float | None, str | None], None]


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A result on the disk of this machine."""

    path: Path
    name: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Made:
    files: Sequence[MadeFile] = ()
    provider_job_id: str | None = None
    # Data of the provider, for admins; without secrets and without URLs that expire.
    details: Mapping[str, Any] = field(default_factory=dict)


class MediaProvider(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def finish(self) -> Finish: ...
    @property
    def actions(self) -> frozenset[str]: ...

    @property
    def paid(self) -> bool:
        """Whether a generation costs money at the provider. Then a task of it needs a price in `tasks.costs`."""
        ...

    @property
    def run_limit_seconds(self) -> int:
        """Maximum time of one attempt, on the machine that runs it."""
        ...

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        """The problems of a request, by field, for example `params.width`. If the provider is not configured, the field
        is `provider` and the reason names the setting. Pure: the control plane calls it at submit. `action` is one of
        the provider's actions."""
        ...

    def concurrency(self, generation: Generation) -> Concurrency | None: ...

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        """Information for a page before the request: model, size, number of images. Pure."""
        ...

    async def close(self) -> None: ...


class SyncProvider(MediaProvider, Protocol):
    async def generate(self, generation: Generation, directory: Path, report_progress: ReportProgress) -> Made:
        """Streams the results into files below `directory`. Raises ProviderError."""
        ...


@dataclass(frozen=True, slots=True)
class EffectUse:
    """The effect of the task's job, if an engine's worker runs the task."""

    effect: str
    input_payload: Mapping[str, Any]
    input_file_id: str | None = None
    # The field of the task's payload that a field of the job came from, for example input_file_id:
    # params.input_file_id. A field that is not listed has the same name in both; input_payload is `params`.
    places: Mapping[str, str] = field(default_factory=dict)


class WorkerProvider(MediaProvider, Protocol):
    def effect(self, generation: Generation) -> EffectUse: ...


@dataclass(frozen=True, slots=True)
class Callback:
    """The URL for the provider's callback. It has an id that cannot be guessed, and is new for every charge cycle.

    `may_exist`: an earlier attempt may have reached the provider. The provider is searched for its job before the
    request is submitted again.
    """

    url: str
    may_exist: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """The provider's last report about its own job."""

    id: str
    status: Literal["running", "succeeded", "failed", "canceled"]
    # URLs of the results. They expire at the provider.
    outputs: tuple[str, ...] = ()
    text: str | None = None
    error: str | None = None
    percent: float | None = None
    # The callback URL that the provider reports, if it reports one. A callback with another URL is for another job.
    callback_url: str | None = None


class CallbackRefused(Exception):
    """The callback is not from the provider, or is too old. The reason is logged, never returned."""


class WebhookProvider(MediaProvider, Protocol):
    @property
    def callback_seconds(self) -> float:
        """Longest time to wait for the callback."""
        ...

    async def submit(self, generation: Generation, callback: Callback) -> Prediction: ...

    async def find(self, callback: Callback) -> Prediction | None:
        """The job submitted with this callback, if there is one."""
        ...

    async def get(self, provider_job_id: str) -> Prediction: ...

    async def cancel(self, provider_job_id: str) -> None: ...

    async def read_callback(self, headers: Mapping[str, str], body: bytes, now: float) -> Prediction:
        """Verifies signature and age of a callback on the raw body. Header names are lower case. Raises
        CallbackRefused.
        """
        ...


async def found_or_submitted(provider: WebhookProvider, generation: Generation, callback: Callback) -> Prediction:
    """Finds or submits the prediction. This finishes even if the task is canceled: half-way it is not known whether
    the provider has the job, which costs money. The worker waits only a few seconds for a canceled task.
    """
    found = await provider.find(callback) if callback.may_exist else None
    if found is not None:
        return found
    call = asyncio.ensure_future(provider.submit(generation, callback))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        if call.cancelled():
            raise
        return await call
