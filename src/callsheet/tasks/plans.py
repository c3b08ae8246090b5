"""Builds a job from a task request and the plan of its actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from callsheet.catalog.offers import EffectRecipe
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.principal import Owner
from callsheet.jobs.show.descriptions import JobDescription, texts_of
from callsheet.jobs.submit.drafts import Draft, outline
from callsheet.jobs.submit.new_jobs import NewJob, NewTask
from callsheet.providers.actor import Actor, EffectUse, Plan, title_of
from callsheet.providers.media import Finish
from callsheet.settings import TaskSettings
from callsheet.tasks.actors import Actors, ActorWorkflow
from callsheet.tasks.limits import TaskLimits
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import Line
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.errors import FieldProblem, FileNotMeasured, InvalidRequest, Refusal, sentences
from callsheet.wire.reasons import reason_of

log = get_logger(__name__)
FIELD = "payload"
# Key of the payload that the user sent, inside the payload of an effect's job. The other keys are for the engine.
SENT_PAYLOAD = "task_payload"
MAX_IDENTIFIER_LENGTH = 200
MAX_NUMBER = 2**31 - 1
_LINE: TypeAdapter[str] = TypeAdapter(Line)


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A request for a task, by a user, a typed request or a run."""

    kind: str
    actor: str
    payload: Mapping[str, Any]
    queue_name: str = "default"
    priority: int = 0
    # None for the default.
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedJob:
    job: NewJob
    plan: Plan
    # The effect that the task becomes a job of.
    recipe: EffectRecipe | None


class Plans:
    def __init__(self, actors: Actors, effects: EffectJobs, limits: TaskLimits, settings: TaskSettings):
        self._actors = actors
        self._effects = effects
        self._limits = limits
        self._settings = settings

    async def check_effect(self, use: EffectUse) -> int:
        """Checks a task that would become the job of an effect, and returns its price. Raises InvalidRequest with
        fields of the payload."""
        try:
            return await self._effects.check(effect_job(use, priority=0))
        except Refusal as refusal:
            raise _as_payload(refusal, use) from None

    async def job(self, principal: Owner, wanted: TaskRequest) -> NewJob:
        """The job of a task. Raises InvalidRequest if the actor, its queue or the payload is wrong."""
        planned = await self.planned(principal, wanted)
        use, concurrency = planned.plan.effect, planned.plan.concurrency
        if planned.recipe is not None and use is not None:
            try:
                await self._effects.mark_used(planned.recipe)
            except Refusal as refusal:
                raise _as_payload(refusal, use) from None
        if concurrency is not None:
            await self._limits.declare(concurrency.identifier, concurrency.limit)
        return planned.job

    async def planned(self, principal: Owner, wanted: TaskRequest) -> PlannedJob:
        """Like `job`, without a trace in the catalog and in the queue."""
        actor = self._actors.named(wanted.actor)
        workflow = await self._actors.workflow(wanted.actor, wanted.queue_name)
        run_id = workflow_run_id(wanted.payload)
        plan = plan_of(actor, wanted.payload)
        recipe = None
        if plan.finish is Finish.WORKER:
            recipe, new = await self._for_engine(principal, wanted, plan)
        else:
            described = JobDescription(title_of(actor, plan), texts=texts_of(wanted.payload))
            cost = self._actors.prices.of(actor, plan)
            new = replace(self._for_actor(principal, wanted, plan, workflow, cost), description=described)
        if plan.concurrency is not None:
            new = replace(new, concurrency_identifier=plan.concurrency.identifier)
        new = replace(
            new,
            kind=wanted.kind,
            max_attempts=new.max_attempts if wanted.max_attempts is None else wanted.max_attempts,
            task=NewTask(wanted.actor, wanted.queue_name, run_id),
        )
        return PlannedJob(new, plan, recipe)

    async def draft(self, principal: Owner, wanted: TaskRequest) -> Draft:
        """What a submit would do with the task, for a quote."""
        try:
            new = (await self.planned(principal, wanted)).job
        except Refusal as refusal:
            return Draft(outline(principal, wanted.kind, NewTask(wanted.actor, wanted.queue_name)), refusal=refusal)
        return Draft(new, new.cost)

    def _for_actor(
        self, principal: Owner, wanted: TaskRequest, plan: Plan, workflow: ActorWorkflow, cost: int
    ) -> NewJob:
        return NewJob(
            tenant_id=principal.tenant_id,
            user_id=principal.user_id,
            kind=wanted.kind,
            workflow_id=workflow.id,
            refund_on_cancel=workflow.refund_on_cancel,
            payload=wanted.payload,
            cost=cost,
            provider=plan.provider,
            priority=wanted.priority,
            lease_seconds=self._settings.lease_seconds,
            run_limit_seconds=plan.run_limit_seconds,
            actor=f"user:{principal.user_id}",
        )

    async def _for_engine(self, principal: Owner, wanted: TaskRequest, plan: Plan) -> tuple[EffectRecipe, NewJob]:
        """Builds the job of an effect from a task: its price, its route, and a payload that the catalog builds."""
        assert plan.effect is not None, "the effect was checked when the task was planned"
        try:
            recipe, new = await self._effects.recipe_and_job(principal, effect_job(plan.effect, wanted.priority))
        except Refusal as refusal:
            raise _as_payload(refusal, plan.effect) from None
        return recipe, replace(new, payload={**new.payload, SENT_PAYLOAD: dict(wanted.payload)})


def plan_of(actor: Actor, payload: Mapping[str, Any]) -> Plan:
    try:
        plan = actor.plan(payload)
        _check(plan)
    except Refusal:
        raise
    except Exception as error:
        # Any package may add an actor. A bug in an actor is not a fault of the server, and the task is refused.
        log.exception("actor.plan_failed", actor=actor.name)
        raise InvalidRequest.field(
            FIELD, f"The actor {actor.name!r} cannot use this payload. Check its values."
        ) from error
    return plan


def _check(plan: Plan) -> None:
    concurrency = plan.concurrency
    if (plan.finish is Finish.WORKER) != (plan.effect is not None):
        raise ValueError("a plan must have an effect if a worker finishes it, and only then")
    if concurrency and not (_is_name(concurrency.identifier) and _is_whole(concurrency.limit, 0)):
        raise ValueError(f"{concurrency} is not a valid concurrency")
    if plan.action is not None and not _is_name(plan.action):
        raise ValueError(f"{plan.action!r} is not a valid action")
    if not _is_whole(plan.run_limit_seconds, 1) or not _is_name(plan.provider):
        raise ValueError(f"{plan} cannot be run")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_IDENTIFIER_LENGTH and value.isprintable()


def _is_whole(value: object, minimum: int) -> bool:
    """Whether the value is an integer that fits into a column."""
    return isinstance(value, int) and minimum <= value <= MAX_NUMBER


def workflow_run_id(payload: Mapping[str, Any]) -> str | None:
    """The id that the user's own system gave to the run of the task."""
    given = payload.get("workflow_run_id")
    if given is None:
        return None
    try:
        return _LINE.validate_python(given)
    except ValidationError as invalid:
        raise InvalidRequest.field(f"{FIELD}.workflow_run_id", reason_of(invalid.errors()[0])) from None


def effect_job(use: EffectUse, priority: int) -> SubmitEffectJob:
    try:
        return SubmitEffectJob(
            effect_id=use.effect,
            input_payload=dict(use.input_payload),
            input_file_id=use.input_file_id,
            priority=priority,
        )
    except ValidationError as invalid:
        error = invalid.errors()[0]
        problem = FieldProblem(".".join(map(str, error["loc"])), reason_of(error))
        raise InvalidRequest.of([problem]) from None


def _as_payload(refusal: Refusal, use: EffectUse) -> Refusal:
    problems = [_of_payload(each, use.places) for each in refusal.errors]
    if isinstance(refusal, FileNotMeasured):
        # It will be measured soon, and the client sends the request again.
        return FileNotMeasured(problems[0].field, refusal.measure)
    return InvalidRequest(sentences(problems) or refusal.detail, errors=problems)


def _of_payload(problem: FieldProblem, places: Mapping[str, str]) -> FieldProblem:
    """The field of the task's payload that a field of the effect's job was made from."""
    name = problem.field
    if name in places:
        return FieldProblem(f"{FIELD}.{places[name]}", problem.reason)
    if name.startswith("input_payload."):
        return FieldProblem(f"{FIELD}.params.{name.removeprefix('input_payload.')}", problem.reason)
    return FieldProblem(f"{FIELD}.{name}", problem.reason)
