"""An actor: the adapter between a task and the provider that executes it.

The control plane and task workers load the same actors. The control plane uses them to validate a task at submit; task
workers use them to run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from callsheet.providers.media import Callback, Concurrency, EffectUse, Finish, MadeFile, ReportProgress

__all__ = ["OWN", "Actor", "Deferred", "Done", "EffectUse", "Plan", "Task", "title_of"]

# The name of the provider of tasks that need no other service: they run on machines of the installation.
OWN = "self_hosted"
# The actor whose tasks name a provider and an action.
MEDIA = "media"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a task: what it needs to run. It is decided at submit and stored with the job."""

    provider: str = OWN
    finish: Finish = Finish.SYNC
    concurrency: Concurrency | None = None
    run_limit_seconds: int = 3600
    # The provider's action, if the task uses one. The price may depend on it.
    action: str | None = None
    # Only set if `finish` is `worker`: then a GPU worker makes the result with this effect.
    effect: EffectUse | None = None
    # False if the task makes only texts or sounds: such a task cannot be a step of a pipeline.
    makes_images: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at a task."""

    id: str
    payload: Mapping[str, Any]
    # The first attempt has the number 1.
    attempt: int
    # An empty directory of this attempt. It is removed afterwards.
    directory: Path
    report_progress: ReportProgress
    # Only set if the plan finishes by webhook.
    callback: Callback | None = None
    # The URL of the first file in storage that the payload names. The control plane signs it.
    input_url: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a task. `result` is shown to the user. The files become files of the user."""

    result: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[MadeFile] = ()
    provider_job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The task was submitted to a provider that calls back. Until then no worker is needed."""

    provider_job_id: str
    expires_seconds: float


class Actor(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def paid(self) -> bool:
        """Whether tasks of this actor cost money at a service. Such tasks need a price in `tasks.costs`. The costs
        of a media provider do not count here: the provider declares them.
        """
        ...

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        """The plan of a task. Uses no I/O, because each submit waits for it. Raises InvalidRequest with fields such
        as `payload.prompt` if the payload cannot be run.
        """
        ...

    async def run(self, task: Task) -> Done | Deferred:
        """Runs a task. Raises ProviderError if the provider fails. After it is canceled, it must release its resources
        within seconds; the worker does not wait longer.

        It shares its event loop with other tasks, their heartbeats and, if the task worker is part of it, the control
        plane. Code that computes or blocks belongs in a thread (`asyncio.to_thread`) or a process.
        """
        ...


def title_of(actor: Actor, plan: Plan | None = None) -> str:
    """The name for users: the actor's `title`, or else its name. For a task that names a provider and an action, the
    title shows both.
    """
    if plan is not None and plan.action is not None and plan.provider != OWN and actor.name == MEDIA:
        return f"{plan.provider}: {plan.action.replace('_', ' ')}"
    title = getattr(actor, "title", None)
    return title if isinstance(title, str) and title else actor.name.replace("_", " ").capitalize()
