"""Checks steps whose workflow is an actor and the inputs of a run for them, and builds their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from callsheet.catalog.payloads import PayloadFile
from callsheet.identity.access.principal import Owner
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.task_files import REPLAY, TaskFile, files_of, put_in, with_files, without_files
from callsheet.pipelines.rows import ClaimedRun, StepRow
from callsheet.pipelines.run.payload_placeholders import (
    FIELD,
    MAX_SEED,
    PARENT_FILE,
    RESERVED,
    address_places,
    check_payload,
    field_of,
    filled,
    names_behind,
    names_in,
    placed_names,
    variables_in,
)
from callsheet.pipelines.run.workflow_placeholders import PARENT, PROMPT, SEED, Needs, placeholder, seed_used
from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.pipelines.pipelines import NewStep
from callsheet.wire.tasks import actor_of, workflow_slug

# Replaces a URL in a check of the actor. The real URL is signed when a worker leases the task.
SAMPLE_URL = "https://storage.invalid/parent.png"
SAMPLE_ID = str(UUID(int=0))
SAMPLE_TEXT = "text"
# Maximum number of problems that are reported. Each problem is searched for in the payload.
MAX_PROBLEMS = 100


class TaskPlans(Protocol):
    """The part of the tasks room that this room uses."""

    async def check(self, workflow: str, payload: Mapping[str, Any]) -> tuple[bool, int]:
        """Whether the task becomes the job of an effect, and its price. Raises InvalidRequest with fields `workflow`
        and `payload.…`.
        """
        ...

    async def job(self, owner: Owner, workflow: str, payload: Mapping[str, Any]) -> NewJob: ...


@dataclass(frozen=True, slots=True)
class RunOwner:
    user_id: UUID
    tenant_id: UUID
    pool: str


class CandidateJob(NamedTuple):
    """The job that made a candidate, with the columns that a replay needs."""

    kind: str
    actor: str | None
    queue_name: str | None
    workflow_id: int
    effect_id: UUID | None
    max_attempts: int
    lease_seconds: int
    run_limit_seconds: int
    input_file_ids: list[UUID]
    payload: dict[str, Any]
    cost: int


class TaskSteps:
    def __init__(self, plans: TaskPlans) -> None:
        self._plans = plans

    async def check(self, step: NewStep, needs: Needs, position: int) -> list[FieldProblem]:
        """Problems of a step that do not depend on a run. The inputs of a run are checked when it starts."""
        payload = step.payload or {}
        problems = [*_foreign_fields(step), *check_payload(payload, needs, position)]
        if any(each.field.startswith(FIELD) for each in problems):
            # If the payload is wrong, the plan of the actor means nothing.
            return problems
        given = dict.fromkeys(names_in(payload), SAMPLE_TEXT)
        try:
            await self._planned(step.workflow, payload, {**given, **_samples()})
        except InvalidRequest as refusal:
            placed = placed_names(payload)
            found = [(each, names_behind(placed, each.field)) for each in refusal.errors[:MAX_PROBLEMS]]
            problems += [_explained(each, names) for each, names in found if not names - RESERVED]
        return problems

    async def check_given(
        self, step: StepRow, needs: Needs, prompt: str | None, variables: Mapping[str, Any]
    ) -> list[FieldProblem]:
        """Problems of the inputs of a run. Raises if the step itself can no longer be used."""
        payload = step.payload or {}
        wanted = variables_in(payload, needs)
        lacking = sorted(wanted - variables.keys() - {SEED})
        if lacking:
            return [missing_variable(step, name) for name in lacking]
        given = {**_samples(), **_own(needs, variables), **({PROMPT: prompt} if needs.prompt else {})}
        try:
            await self._planned(step.workflow, payload, given)
        except InvalidRequest as refusal:
            placed = placed_names(payload)
            problems = refusal.errors[:MAX_PROBLEMS]
            found = [(each, _given_by_run(names_behind(placed, each.field), wanted, needs)) for each in problems]
            of_step = [each for each, field in found if field is None]
            if of_step:
                raise InvalidRequest(str(refusal), errors=of_step) from None
            return [
                FieldProblem(field, f"{each.reason} The step {step.slug!r} uses it.")
                for each, field in found
                if field is not None
            ]
        return []

    async def build(
        self, pool: str, run: ClaimedRun, step: StepRow, needs: Needs, parent: PayloadFile | None, drawn: int
    ) -> tuple[NewJob, int]:
        """The job, and the seed in it. Raises a refusal if the actor can no longer be used."""
        payload = step.payload or {}
        read = parent if needs.parent else None
        made, seed = filled_payload(step, needs, run.prompt, run.variables, drawn, read.id if read else None)
        places = address_places(payload) if read is not None else []
        owner = RunOwner(run.user_id, run.tenant_id, pool)
        new = await self._plans.job(owner, step.workflow, put_in(made, ((place, SAMPLE_URL) for place in places)))
        _refuse_addresses(bool(new.effect_id), places)
        new = replace(new, actor=f"run:{run.id}")
        if read is None or new.effect_id is not None:
            # The job of an effect has its files in its own payload.
            return new, seed
        files = [TaskFile(str(read.id), read.path, read.name, read.mime_type, read.sha256, places)] if places else []
        return replace(new, payload=with_files(made, files), input_file_ids=(read.id,)), seed

    async def again(self, owner: Owner, job: CandidateJob) -> NewJob:
        """The job of the same task as an earlier job of a run, at the current price."""
        if job.actor is None or job.queue_name is None:
            raise InvalidRequest.field(
                "candidate_id",
                "The candidate's job has neither an effect nor an actor, so it cannot be generated again.",
            )
        payload = without_files(job.kind, job.payload)
        places = [place for file in files_of(job.kind, job.payload) for place in file.places]
        sample = put_in(payload, ((place, SAMPLE_URL) for place in places))
        new = await self._plans.job(owner, workflow_slug(job.actor, job.queue_name), sample)
        return replace(new, kind=REPLAY, payload=job.payload, input_file_ids=tuple(job.input_file_ids))

    async def cost(self, step: StepRow, needs: Needs, prompt: str | None, variables: Mapping[str, Any]) -> int:
        """The price of a job of the step. A sample replaces each value that the run does not give. Raises
        InvalidRequest if the actor cannot use the sample.
        """
        payload = step.payload or {}
        given = {**dict.fromkeys(names_in(payload), SAMPLE_TEXT), **_samples(), **_own(needs, variables)}
        return await self._planned(step.workflow, payload, {**given, **({PROMPT: prompt} if prompt else {})})

    async def _planned(self, workflow: str, payload: Mapping[str, Any], given: Mapping[str, Any]) -> int:
        """Checks the task, and returns its price."""
        for_engine, cost = await self._plans.check(workflow, filled(payload, given))
        _refuse_addresses(for_engine, address_places(payload))
        return cost


def filled_payload(
    step: StepRow,
    needs: Needs,
    prompt: str | None,
    variables: Mapping[str, Any],
    drawn: int,
    parent_id: UUID | None = None,
) -> tuple[dict[str, Any], int]:
    """The payload of a job, and the seed in it. The payload does not contain the URL of the parent's image yet."""
    given: dict[str, Any] = {SEED: drawn % (MAX_SEED + 1), **_own(needs, variables)}
    seed = seed_used(given[SEED], drawn)
    if needs.prompt:
        given[PROMPT] = prompt or ""
    if parent_id is not None:
        given[PARENT_FILE] = str(parent_id)
    return filled(step.payload or {}, given), seed


def is_actor(workflow: str) -> bool:
    return actor_of(workflow) is not None


def missing_variable(step: StepRow, name: str) -> FieldProblem:
    return FieldProblem(f"variables.{name}", f"The step {step.slug!r} needs this variable.")


def _own(needs: Needs, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a run that the step may use."""
    return {name: value for name, value in variables.items() if needs.variables and name not in RESERVED - {SEED}}


def _samples() -> dict[str, Any]:
    return {PROMPT: SAMPLE_TEXT, PARENT: SAMPLE_URL, PARENT_FILE: SAMPLE_ID, SEED: MAX_SEED}


def _foreign_fields(step: NewStep) -> list[FieldProblem]:
    fields = [name for name in ("effect", "values") if getattr(step, name)]
    problems = [FieldProblem(name, f"An actor has no {name}. Put the value into `{FIELD}`.") for name in fields]
    if step.payload is None:
        problems.append(FieldProblem(FIELD, "An actor needs a payload."))
    return problems


def _explained(problem: FieldProblem, names: set[str]) -> FieldProblem:
    if PARENT not in names or problem.field == FIELD:
        return problem
    kinds = f"{placeholder(PARENT)} is a URL, {placeholder(PARENT_FILE)} is the id of the file."
    return FieldProblem(problem.field, f"{problem.reason} {kinds}")


def _refuse_addresses(for_engine: bool, places: list[tuple[str | int, ...]]) -> None:
    if for_engine and places:
        reason = f"An effect takes the id of a file, not a URL. Write {placeholder(PARENT_FILE)}."
        raise InvalidRequest.field(field_of(places[0]), reason)


def _given_by_run(names: set[str], variables: set[str], needs: Needs) -> str | None:
    """The field of the request that starts the run. None if the step itself sets the value."""
    for name in sorted(names & variables):
        return f"variables.{name}"
    return "prompt" if needs.prompt and PROMPT in names else None
