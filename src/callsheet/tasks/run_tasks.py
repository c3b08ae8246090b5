"""Tasks of pipeline runs: the part of this room that the pipelines room uses. The composition root connects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.identity.access.principal import Owner
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.task_files import PIPELINE
from callsheet.providers.actor import Plan
from callsheet.providers.media import Finish
from callsheet.tasks.actors import Actors
from callsheet.tasks.plans import FIELD, Plans, TaskRequest, plan_of, workflow_run_id
from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.tasks import actor_of

WORKFLOW = "workflow"
NO_IMAGES = "This actor makes neither images nor videos, so it cannot make candidates."


class RunTasks:
    def __init__(self, actors: Actors, plans: Plans):
        self._actors = actors
        self._plans = plans

    async def check(self, workflow: str, payload: Mapping[str, Any]) -> tuple[bool, int]:
        """Whether the task becomes the job of an effect, and its price. Raises InvalidRequest with fields `workflow`
        and `payload.…`.
        """
        try:
            name, queue_name = _named(workflow)
            actor = self._actors.named(name)
            await self._actors.workflow(name, queue_name)
            workflow_run_id(payload)
            plan = plan_of(actor, payload)
            if plan.effect is not None:
                cost = await self._plans.check_effect(plan.effect)
            else:
                cost = self._actors.prices.of(actor, plan)
        except InvalidRequest as refusal:
            raise _by_field_of_step(refusal) from None
        _require_images(plan)
        return plan.finish is Finish.WORKER, cost

    async def job(self, owner: Owner, workflow: str, payload: Mapping[str, Any]) -> NewJob:
        """A job that can be submitted, at the current price."""
        try:
            name, queue_name = _named(workflow)
            wanted = TaskRequest(PIPELINE, name, payload, queue_name=queue_name)
            return await self._plans.job(owner, wanted)
        except InvalidRequest as refusal:
            raise _by_field_of_step(refusal) from None


def _named(workflow: str) -> tuple[str, str]:
    found = actor_of(workflow)
    if found is None:
        raise InvalidRequest.field(WORKFLOW, "This workflow does not belong to an actor.")
    return found


def _require_images(plan: Plan) -> None:
    if not plan.makes_images:
        raise InvalidRequest.field(WORKFLOW, NO_IMAGES)


def _by_field_of_step(refusal: InvalidRequest) -> InvalidRequest:
    """The problems by fields of a step. A step has no fields `actor`, `queue_name` or `provider`: their problems
    belong to its workflow.
    """
    problems = [
        each
        if each.field == FIELD or each.field.startswith(f"{FIELD}.")
        else FieldProblem(WORKFLOW, each.reason if each.field == WORKFLOW else str(each))
        for each in refusal.errors or [FieldProblem(FIELD, refusal.detail or refusal.title())]
    ]
    return InvalidRequest.of(problems)
