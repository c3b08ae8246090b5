"""The routes of `/api/task`, `/api/actors` and `/api/providers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query, Request, Response

from callsheet.identity.access.authentication import Authentication, StreamUser
from callsheet.identity.access.principal import Principal
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.retry import Retries
from callsheet.jobs.stream.positions import Position
from callsheet.jobs.stream.streams import STREAM, Streams, last_event_seen
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.long_requests import EventStream
from callsheet.plumbing.http.routing import Router
from callsheet.providers.media import Generation, MediaProvider
from callsheet.tasks.actors import Actors
from callsheet.tasks.reader import TaskReader
from callsheet.tasks.submission import TaskSubmission, one_actor
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import Line, Page
from callsheet.wire.errors import FieldProblem, InvalidRequest, NotFound
from callsheet.wire.jobs import JobStatus
from callsheet.wire.tasks import (
    ActorInfo,
    ActorName,
    GenerationPreview,
    PreviewRequest,
    ProviderInfo,
    QueueName,
    SubmitTask,
    Task,
)

log = get_logger(__name__)
TaskId = Annotated[str, Path(description="Id of the task, for example `tq_…`.", max_length=100)]


def task_router(
    submission: TaskSubmission,
    reader: TaskReader,
    cancellation: Cancellation,
    retries: Retries,
    streams: Streams,
    authentication: Authentication,
) -> Router:
    router = Router(prefix="/api/task", tags=["tasks"])

    @router.post("", status_code=201, responses=or_earlier(Task))
    async def submit_task(
        body: SubmitTask,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Task:
        """Submits a task to an actor. Its cost is reserved. The task runs even if no client watches it.

        A repeated request with the same `idempotency_key`, or the same header Idempotency-Key, returns the same
        task with 200 and `Idempotent-Replayed: true`.
        """
        submitted = replayed(response, await submission.submit(principal, with_key(body, idempotency_key)))
        return await reader.of_job(principal, submitted.job)

    @router.get("")
    async def list_tasks(
        workflow_run_id: Line | None = Query(None, description="Only tasks whose payload names this run."),
        status: JobStatus | None = Query(None, description="Only tasks of this status."),
        actor: ActorName | None = Query(None, description="Only tasks of this actor."),
        task_type: ActorName | None = Query(None, description="Alias of `actor`. Send only one of them."),
        queue_name: QueueName | None = Query(None, description="Only tasks of this queue."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Task]:
        """Your tasks, newest first, without their payloads. Typed generation jobs are included, because they are tasks
        of their actors.

        A page ends early, with a `next_cursor`, if its results exceed 4 MiB.
        """
        return await reader.list(
            principal,
            workflow_run_id=workflow_run_id,
            status=status,
            actor=one_actor(actor, task_type),
            queue_name=queue_name,
            before=cursor,
            limit=limit,
        )

    @router.get("/{task_id}")
    async def get_task(task_id: TaskId, principal: Principal = Depends(authentication.user)) -> Task:
        """One task with its progress, its result, or why it waits."""
        return await reader.get(principal, task_id)

    _add_stream(router, reader, streams, authentication)
    _add_cancel_and_retry(router, reader, cancellation, retries, authentication)
    return router


def _add_stream(router: Router, reader: TaskReader, streams: Streams, authentication: Authentication) -> None:
    @router.get("/{task_id}/stream", response_class=EventStream, responses={**STREAM, 204: {}})
    async def stream_task(
        task_id: TaskId,
        request: Request,
        last_event_id: Position | None = Depends(last_event_seen),
        watcher: StreamUser = Depends(authentication.watcher),
    ) -> Response:
        """A task's events as they happen, from the first event or from Last-Event-ID. The stream closes when the
        task ends. It returns 204 if the task has already ended.
        """
        row = (await reader.job(watcher.principal, task_id)).row
        return await streams.of_job(watcher, request, row, last_event_id, task_id)


def _add_cancel_and_retry(
    router: Router,
    reader: TaskReader,
    cancellation: Cancellation,
    retries: Retries,
    authentication: Authentication,
) -> None:
    @router.post("/{task_id}/cancel")
    async def cancel_task(task_id: TaskId, principal: Principal = Depends(authentication.user)) -> Task:
        """Cancels a task and refunds its tokens."""
        row = (await reader.job(principal, task_id)).row
        job = await cancellation.cancel(principal.tenant_id, row.id, actor=f"user:{principal.user_id}")
        return await reader.of_job(principal, job)

    @router.post("/{task_id}/retry")
    async def retry_task(
        task_id: TaskId,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Task:
        """Retries a failed or expired task. Its cost is reserved again. A repeated request with the same header
        Idempotency-Key returns the task as it is, even if it has failed again.
        """
        row = (await reader.job(principal, task_id)).row
        actor = f"user:{principal.user_id}"
        retried = await retries.once(principal.tenant_id, row.id, idempotency_key, actor=actor)
        return await reader.of_job(principal, replayed(response, retried).shown)


def provider_router(actors: Actors, media: Mapping[str, MediaProvider], authentication: Authentication) -> Router:
    router = Router(prefix="/api", tags=["tasks"], dependencies=[Depends(authentication.user)])

    @router.get("/actors")
    async def list_actors() -> list[ActorInfo]:
        """The actors that run tasks, their queues and prices."""
        return await actors.list()

    @router.get("/providers")
    async def list_media_providers() -> list[ProviderInfo]:
        """The media providers with their actions and prices."""
        return [
            ProviderInfo(
                name=name,
                finish=provider.finish.value,
                actions=sorted(provider.actions),
                costs=actors.costs_of(provider),
            )
            for name, provider in sorted(media.items())
        ]

    @router.post("/providers/{provider}/preview")
    async def preview_generation(
        provider: Annotated[str, Path(max_length=100)], body: PreviewRequest
    ) -> GenerationPreview:
        """Information about a generation before it is submitted. Nothing is generated or charged."""
        found = media.get(provider)
        if found is None:
            raise NotFound("There is no such provider.")
        if body.action_type not in found.actions:
            raise InvalidRequest.field(
                "action_type",
                f"Unknown action_type {body.action_type!r}. Available: {', '.join(sorted(found.actions))}.",
            )
        info = previewed(found, Generation(body.action_type, body.prompt, body.params))
        return GenerationPreview(provider=found.name, action_type=body.action_type, info=info)

    return router


def previewed(provider: MediaProvider, generation: Generation) -> dict[str, Any]:
    try:
        problems = [FieldProblem(problem.field, problem.reason) for problem in provider.problems(generation)]
        if not problems:
            return dict(provider.preview_info(generation))
    except Exception as error:
        # Any package may add a provider, so a preview may raise any exception.
        log.exception("provider.preview_failed", provider=provider.name)
        raise InvalidRequest.field(
            "params", f"The provider {provider.name!r} cannot use these params. Check their values."
        ) from error
    raise InvalidRequest.of(problems)
