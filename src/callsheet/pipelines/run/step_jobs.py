"""Checks the workflow of a step and the inputs of a run for it, and builds the step's jobs.

This module handles workflows of the catalog. `task_steps` handles actors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from callsheet.catalog.graphs import Graph
from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.payloads import FIELD, PayloadFile, check_file, filled, resolve
from callsheet.catalog.pricing.prices import price_of
from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.show.descriptions import JobDescription, medium_of
from callsheet.jobs.show.outlook import Route
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.task_files import PIPELINE
from callsheet.pipelines.rows import ClaimedRun, StepRow
from callsheet.pipelines.run.payload_placeholders import variables_in
from callsheet.pipelines.run.task_steps import (
    TaskPlans,
    TaskSteps,
    filled_payload,
    is_actor,
    missing_variable,
)
from callsheet.pipelines.run.workflow_placeholders import (
    PROMPT,
    SEED,
    Needs,
    check_step,
    completed,
    file_property,
    given_values,
    lacking_variables,
    names_of,
    property_of,
    seed_used,
    taken_variables,
)
from callsheet.wire.errors import FieldProblem, InvalidRequest, Refusal, sentences
from callsheet.wire.pipelines.pipelines import NewStep

# Replaces the file of a parent if only the inputs are checked.
NO_FILE = UUID(int=0)
# Maximum number of checked steps that are cached.
REMEMBERED = 10_000
SWITCHED_OFF = "The workflow is switched off, or its effect is no longer published."


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The values that a run gives to the job of a step."""

    prompt: str | None
    variables: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, slots=True)
class StepJobPreview:
    """The job of a first step, as it would be built."""

    seed: int
    # The values of properties that users can set, by key.
    values: Mapping[str, Any]
    payload: dict[str, Any] | None = None
    graph: dict[str, Any] | None = None


class UnsuitableParent(Exception):
    """The step's workflow cannot use the file of this parent. The text says why."""


class StepJobs:
    def __init__(self, catalog: CatalogRoom, tasks: TaskPlans):
        """`tasks` builds the jobs of steps that are actors."""
        self._catalog = catalog
        self.tasks = TaskSteps(tasks)
        # The workflow of each step when it was last checked.
        self._fitting: dict[UUID, EffectRecipe] = {}

    async def effect_of(self, step: NewStep) -> UUID | None:
        """The published effect that sets price and provider of the step's workflow. None for an actor."""
        if is_actor(step.workflow):
            return None
        if step.payload is not None:
            raise InvalidRequest.field("payload", 'Only an actor takes a payload: workflow = "actor:NAME".')
        selling = await self._catalog.effects.selling(step.workflow)
        if not selling:
            # The error is the same for an unpublished workflow, because users must not learn its name.
            reason = f"There is no workflow {step.workflow!r} with a published effect, which sets its price."
            raise InvalidRequest.field("workflow", reason)
        if step.effect is None and len(selling) > 1:
            names = ", ".join(sorted(selling))[:500]
            raise InvalidRequest.field(
                "effect", f"The workflow has several published effects. Choose one effect: {names}."
            )
        if step.effect is None:
            return next(iter(selling.values()))
        if step.effect not in selling:
            raise InvalidRequest.field("effect", f"The workflow {step.workflow!r} has no such published effect.")
        return selling[step.effect]

    async def check(self, step: NewStep, effect_id: UUID | None, position: int) -> list[FieldProblem]:
        needs = needs_of(step)
        if effect_id is None:
            return await self.tasks.check(step, needs, position)
        recipe, graph = await self._open(effect_id)
        return list(check_step(recipe, graph, needs, position))

    async def check_given(self, step: StepRow, given: RunInputs) -> tuple[list[FieldProblem], set[str]]:
        """Problems of the inputs that a run gives to the step; and the variables that the step uses."""
        needs = needs_of(step)
        no_prompt = [FieldProblem("prompt", f"The step {step.slug!r} needs a prompt.")]
        if step.effect_id is None:
            taken = variables_in(step.payload or {}, needs)
            if needs.prompt and not given.prompt:
                return no_prompt, taken
            return await self.tasks.check_given(step, needs, given.prompt, given.variables), taken
        recipe, graph = await self._open(step.effect_id)
        self._check_again(recipe, graph, step)
        taken = taken_variables(recipe, graph, needs)
        if needs.prompt and not given.prompt:
            return no_prompt, taken
        if lacking := lacking_variables(needs, given.variables):
            return [missing_variable(step, name) for name in lacking], taken
        try:
            whole, values = _fitted(recipe, graph, needs, given)
            resolve(whole, values)
        except InvalidRequest as refusal:
            return [_of_run(problem, recipe, step) for problem in refusal.errors], taken
        return [], taken

    async def build(
        self, pool: str, run: ClaimedRun, step: StepRow, parent: PayloadFile | None, seed: int
    ) -> tuple[NewJob, int]:
        """The job, and the seed in it. Raises a refusal if its workflow can no longer be used.

        `pool`: the database of the run.
        """
        needs = needs_of(step)
        if step.effect_id is None:
            return await self.tasks.build(pool, run, step, needs, parent, seed)
        recipe, graph = await self._open(step.effect_id)
        self._check_again(recipe, graph, step)
        given = RunInputs(run.prompt, run.variables, seed)
        whole, values = _fitted(recipe, graph, needs, given, parent.id if parent else NO_FILE)
        files: dict[UUID, PayloadFile] = {}
        place = file_property(whole) if needs.parent else None
        if place is not None and parent is not None:
            if problems := check_file("parent_image_path", place, parent):
                raise UnsuitableParent(problems[0].reason)
            files[parent.id] = parent
        primary = parent if place is not None and place.is_primary_input else None
        resolved = resolve(whole, values)
        payload = await self._catalog.payloads.build(whole, resolved, primary, files)
        if not await self._catalog.effects.mark_used(recipe):
            raise InvalidRequest.field("workflow", SWITCHED_OFF)
        job = NewJob(
            tenant_id=run.tenant_id,
            user_id=run.user_id,
            kind=PIPELINE,
            workflow_id=recipe.workflow_id,
            payload=payload,
            cost=price_of(whole, resolved, {}),
            provider=recipe.provider,
            stage=recipe.stage,
            run_limit_seconds=recipe.run_limit_seconds,
            refund_on_cancel=recipe.refund_on_cancel,
            lease_seconds=recipe.lease_seconds,
            max_attempts=recipe.max_attempts,
            effect_id=recipe.effect_id,
            input_file_ids=tuple(files),
            description=JobDescription(
                recipe.name,
                tuple(file.name for file in files.values()),
                {"prompt": run.prompt or ""},
                medium_of(recipe.output_mime_type),
            ),
            actor=f"run:{run.id}",
        )
        return job, _seed_of(whole, resolved.values, seed)

    async def cost(self, step: StepRow, given: RunInputs) -> int:
        """The price of a job of the step."""
        if step.effect_id is None:
            return await self.tasks.cost(step, needs_of(step), given.prompt, given.variables)
        recipe, graph = await self._open(step.effect_id)
        if not recipe.price.formula:
            return recipe.price.tokens
        whole, values = _fitted(recipe, graph, needs_of(step), given)
        return price_of(whole, resolve(whole, values), {})

    async def route(self, step: StepRow) -> Route | None:
        """Where the jobs of the step run. None for an actor, or if its workflow cannot be used now."""
        recipe = await self._catalog.effects.recipe(str(step.effect_id)) if step.effect_id else None
        return None if recipe is None else (recipe.workflow_id, recipe.stage, recipe.provider)

    async def preview(self, step: StepRow, given: RunInputs) -> StepJobPreview:
        """The job that `build` would make without a parent. Nothing is written."""
        needs = needs_of(step)
        if step.effect_id is None:
            payload, seed = filled_payload(step, needs, given.prompt, given.variables, given.seed)
            return StepJobPreview(seed, {}, payload=payload)
        recipe, graph = await self._open(step.effect_id)
        whole, values = _fitted(recipe, graph, needs, given)
        resolved = resolve(whole, values)
        shown = {
            each.key: resolved.values[each.placeholder]
            for each in whole.properties
            if each.user_configurable and each.placeholder in resolved.values
        }
        seed = _seed_of(whole, resolved.values, given.seed)
        return StepJobPreview(seed, shown, graph=filled(whole, graph, resolved.values).graph)

    async def _open(self, effect_id: UUID) -> tuple[EffectRecipe, Graph]:
        recipe = await self._catalog.effects.recipe(str(effect_id))
        if recipe is None or not recipe.is_active:
            raise InvalidRequest.field("workflow", SWITCHED_OFF)
        return recipe, await self._catalog.payloads.graph(recipe)

    def _check_again(self, recipe: EffectRecipe, graph: Graph, step: StepRow) -> None:
        """Checks the step again if its workflow was changed after the pipeline was defined."""
        known = self._fitting.get(step.id)
        # A graph that was written is never overwritten, so its path identifies it.
        if known is not None and all(getattr(known, name) == getattr(recipe, name) for name in DECISIVE):
            return
        if problems := list(check_step(recipe, graph, needs_of(step), step.position)):
            raise InvalidRequest.of(problems)
        if len(self._fitting) >= REMEMBERED:
            self._fitting.clear()
        self._fitting[step.id] = recipe


DECISIVE = ("graph_path", "properties", "overrides")


def needs_of(step: StepRow | NewStep) -> Needs:
    return Needs(
        prompt=step.needs_run_prompt,
        parent=step.needs_parent_image_path,
        variables=step.needs_run_variables,
        values=step.values,
    )


def lineage_of(run: ClaimedRun, step: StepRow, seed: int) -> dict[str, Any]:
    """The values that were inserted into the graph. The graph itself is the job's payload."""
    return {
        "workflow": step.workflow,
        "step": step.slug,
        "prompt": run.prompt if step.needs_run_prompt else None,
        "variables": run.variables if step.needs_run_variables else {},
        "values": step.values,
        "seed": seed,
    }


def _fitted(
    recipe: EffectRecipe, graph: Graph, needs: Needs, given: RunInputs, parent_id: UUID = NO_FILE
) -> tuple[EffectRecipe, dict[str, Any]]:
    variables = given.variables if needs.variables else {}
    whole = completed(recipe, graph, {SEED: given.seed, **variables})
    values = given_values(whole, needs, given.prompt, variables, given.seed)
    place = file_property(whole)
    if needs.parent and place is not None and not place.is_primary_input:
        values[place.key] = str(parent_id)
    return whole, values


def _seed_of(recipe: EffectRecipe, values: Mapping[str, Any], drawn: int) -> int:
    """The seed that the engine gets: within the workflow's limits, or set by the step, the run or the effect."""
    each = property_of(recipe, SEED)
    return seed_used(values.get(each.placeholder) if each is not None else None, drawn)


def _of_run(problem: FieldProblem, recipe: EffectRecipe, step: StepRow) -> FieldProblem:
    """The problem with the name of the field in the request that starts the run."""
    key = problem.field.removeprefix(f"{FIELD}.")
    prompt = property_of(recipe, PROMPT)
    used = names_of(step.values.get(key))
    if PROMPT in used or (not used and key == (prompt.key if prompt else PROMPT)):
        field = PROMPT
    else:
        field = f"variables.{used[0] if used else key}"
    return FieldProblem(field, f"{problem.reason} The step {step.slug!r} uses it.")


def sentence(refusal: Refusal) -> str:
    """The refusal as a sentence for users."""
    return sentences(refusal.errors) or refusal.detail or refusal.title()
