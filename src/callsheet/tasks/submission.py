"""Submits a task. The order is: form, idempotency key, plan of its actor, limit and commit."""

from __future__ import annotations

from functools import partial

from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.quotas import check_payload
from callsheet.jobs.submit.drafts import Draft, outline
from callsheet.jobs.submit.new_jobs import NewTask
from callsheet.jobs.submit.priorities import check_priority
from callsheet.jobs.submit.submission import Submission, SubmittedJob
from callsheet.tasks.plans import Plans, TaskRequest
from callsheet.wire.errors import InvalidRequest, Refusal
from callsheet.wire.tasks import SubmitTask, actor_named

KIND = "task"


class TaskSubmission:
    def __init__(self, plans: Plans, submission: Submission):
        self._plans = plans
        self._submission = submission

    async def submit(self, principal: Principal, request: SubmitTask) -> SubmittedJob:
        wanted = task_request(principal, request)
        check_payload(await self._submission.quotas.of(principal.tenant_id), "payload", wanted.payload)
        # The two names of the field with the actor mean the same request.
        actor = {"actor": wanted.actor, "task_type": None}
        return await self._submission.once(principal, request, partial(self._plans.job, principal, wanted), also=actor)

    async def draft(self, principal: Principal, request: SubmitTask) -> Draft:
        """What `submit` would do with the request, for a quote. Nothing is written."""
        known = outline(principal, KIND, NewTask(request.actor or request.task_type or KIND))
        try:
            wanted = task_request(principal, request)
            check_payload(await self._submission.quotas.of(principal.tenant_id), "payload", wanted.payload)
        except Refusal as refusal:
            return Draft(known, refusal=refusal)
        return await self._plans.draft(principal, wanted)


def one_actor(actor: str | None, task_type: str | None) -> str | None:
    """The actor that a request names in one of the two fields, or in both."""
    names = {actor_named(name) for name in (actor, task_type) if name is not None}
    if len(names) > 1:
        raise InvalidRequest.field(
            "task_type", "The field task_type is an alias of actor, and the two differ. Send only one of them."
        )
    return next(iter(names), None)


def task_request(principal: Principal, request: SubmitTask) -> TaskRequest:
    actor = one_actor(request.actor, request.task_type)
    if actor is None:
        raise InvalidRequest.field("actor", "Send the name of the actor.")
    check_priority(principal, request.priority)
    return TaskRequest(
        kind=KIND,
        actor=actor,
        payload=request.payload,
        queue_name=request.queue_name,
        priority=request.priority,
        max_attempts=request.max_retries + 1,
    )
