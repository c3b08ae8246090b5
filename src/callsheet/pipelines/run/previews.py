"""Previews a run without starting it: its first job, and how many jobs and tokens it would need."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.outlook import Route
from callsheet.pipelines.design.definitions import Pipelines
from callsheet.pipelines.rows import StepRow
from callsheet.pipelines.run.expectations import Link, expected_candidates
from callsheet.pipelines.run.selection import Draw
from callsheet.pipelines.run.step_jobs import RunInputs, StepJobs
from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.pipelines.design import FirstJob, InputProblem, PreviewRun, RunPreview, StepPreview
from callsheet.wire.pipelines.pipelines import CreateRun


def cost_of(steps: Sequence[StepPreview]) -> int | None:
    """The price of all candidates. None if the price of a step is not known."""
    costs = [None if each.cost is None else each.cost * each.candidates for each in steps]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


class RunPreviews:
    def __init__(self, pipelines: Pipelines, step_jobs: StepJobs):
        self._pipelines = pipelines
        self._step_jobs = step_jobs

    async def preview(self, principal: Principal, wanted: PreviewRun) -> RunPreview:
        """The preview. Raises InvalidRequest with fields `steps.…` for steps that could not be saved. Problems of
        the run's own values are part of the result: a user who designs the steps has not written a prompt yet.
        """
        steps = await self._pipelines.check(principal, wanted.steps)
        # The first job of a run is a base, so its draw has no parent.
        given = RunInputs(wanted.prompt, wanted.variables, Draw(wanted.seed or 0, 1).seed())
        problems, used = await self._problems(steps, given)
        expected = await self.expected(steps, wanted)
        return RunPreview(
            steps=expected,
            jobs=sum(each.candidates for each in expected),
            cost=cost_of(expected),
            variables=sorted(used),
            needs_prompt=any(step.needs_run_prompt for step in steps),
            first_job=None if problems else await self._first_job(principal, steps[0], given),
            problems=problems,
        )

    async def expected(self, steps: Sequence[StepRow], wanted: PreviewRun | CreateRun) -> list[StepPreview]:
        """How many candidates each step is expected to make, and the price of each."""
        given = RunInputs(wanted.prompt, wanted.variables, Draw(wanted.seed or 0, 1).seed())
        counts = expected_candidates(
            [Link(wanted.max_children or step.max_children, step.top_k) for step in steps],
            wanted.target_leaves,
            wanted.strategy,
        )
        return [
            StepPreview(
                position=step.position,
                name=step.name,
                slug=step.slug,
                workflow=step.workflow,
                cost=await self._cost(step, given),
                candidates=count,
            )
            for step, count in zip(steps, counts, strict=True)
        ]

    async def route(self, steps: Sequence[StepRow]) -> Route | None:
        """Where the first job of a run would run. None for an actor, or if its workflow cannot be used now."""
        return await self._step_jobs.route(steps[0])

    async def _problems(self, steps: Sequence[StepRow], given: RunInputs) -> tuple[list[InputProblem], set[str]]:
        """Problems of the run's own values, and the variables that the steps use."""
        problems: list[FieldProblem] = []
        used: set[str] = set()
        for step in steps:
            wrong, names = await self._step_jobs.check_given(step, given)
            problems += wrong
            used |= names
        problems += [
            FieldProblem(f"variables.{name}", "No step of this pipeline uses this variable.")
            for name in given.variables
            if name not in used
        ]
        return [InputProblem(field=each.field, reason=each.reason) for each in dict.fromkeys(problems)], used

    async def _cost(self, step: StepRow, given: RunInputs) -> int | None:
        try:
            return await self._step_jobs.cost(step, given)
        except InvalidRequest:
            # The price of this actor depends on a variable that is not given.
            return None

    async def _first_job(self, principal: Principal, step: StepRow, given: RunInputs) -> FirstJob:
        job = await self._step_jobs.preview(step, given)
        # The graph contains values that the effect hides from users, and names the operator's models.
        graph = job.graph if principal.may(Permission.SEE_PAYLOADS) else None
        return FirstJob(
            step=step.slug,
            workflow=step.workflow,
            cost=await self._step_jobs.cost(step, given),
            seed=job.seed,
            values=job.values,
            payload=job.payload,
            graph=graph,
        )
