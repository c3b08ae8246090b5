"""A run that is not started: its first job and its size are those of the run that is started afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callsheet.wire.errors import InvalidRequest
from callsheet.wire.identity import Role
from callsheet.wire.pipelines.design import PreviewRun, RunPreview
from callsheet.wire.pipelines.pipelines import Strategy
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import PipelineHarness, open_pipeline_harness


@pytest.fixture
async def media(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield media


@pytest.fixture
def pipelines(core: Core, ann: Member, media: MediaHarness) -> PipelineHarness:
    return open_pipeline_harness(core, ann, media)


async def preview(pipelines: PipelineHarness, *, role: Role = Role.OPERATOR, **request: Any) -> RunPreview:
    principal = replace(principal_of(pipelines.ann), role=role)
    return await pipelines.room.design.previews.preview(principal, PreviewRun.model_validate(request))


async def test_a_preview_has_the_first_job_of_the_run_and_writes_nothing(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base", "fix", cost=4, max_children=2)
    shown = await preview(pipelines, steps=steps, prompt="a gym", seed=99, target_leaves=4)
    assert shown.first_job is not None
    assert await pipelines.core.rows(pipelines.ann.pool, "SELECT FROM pipelines") == []
    assert await pipelines.core.rows(pipelines.ann.pool, "SELECT FROM ai_jobs") == []

    run = await pipelines.run(await pipelines.define(steps), seed=99, target_leaves=4)
    await pipelines.tick()
    [job] = await pipelines.core.rows(pipelines.ann.pool, "SELECT payload, cost FROM ai_jobs")
    assert shown.first_job.graph == job["payload"]["workflow"]
    assert shown.first_job.cost == job["cost"]
    [slot] = await pipelines.slots(run)
    assert shown.first_job.seed == slot["seed"]
    # The rest of the run is as large as expected, too.
    run = await pipelines.finish(run)
    assert [step.candidates for step in shown.steps] == [step.candidates for step in run.steps] == [2, 4]
    assert (shown.jobs, shown.cost) == (run.draws, run.spent)


@pytest.mark.parametrize(
    ("strategy", "leaves", "fields"),
    [(Strategy.FINISH_FIRST, 3, {"max_children": 2}), (Strategy.BREADTH_FIRST, 3, {"max_children": 2, "top_k": 2})],
)
async def test_a_run_is_as_large_as_its_preview_says(
    pipelines: PipelineHarness, strategy: Strategy, leaves: int, fields: dict[str, Any]
) -> None:
    steps = await pipelines.steps("one", "two", "three", cost=1, **fields)
    steps[-1].pop("top_k", None)
    size = {"strategy": strategy, "target_leaves": leaves}
    shown = await preview(pipelines, steps=steps, prompt="a gym", **size)
    run = await pipelines.finish(await pipelines.run(await pipelines.define(steps), **size))
    assert [step.candidates for step in shown.steps] == [step.candidates for step in run.steps]
    assert (shown.jobs, shown.cost) == (run.draws, run.spent)


async def test_users_see_values_and_no_graph(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base")
    shown = await preview(pipelines, role=Role.USER, steps=steps, prompt="a gym", seed=1)
    assert shown.first_job is not None
    assert shown.first_job.graph is None
    assert shown.first_job.values["prompt"] == "a gym"


async def test_a_missing_prompt_is_part_of_the_preview_and_a_wrong_step_is_refused(pipelines: PipelineHarness) -> None:
    steps = await pipelines.steps("base", "fix", cost=2)
    shown = await preview(pipelines, steps=steps, variables={"style": "noir"})
    assert {each.field for each in shown.problems} == {"prompt", "variables.style"}
    assert (shown.first_job, shown.needs_prompt, shown.variables) == (None, True, [])
    assert (shown.jobs, shown.cost) == (12, 24)
    with pytest.raises(InvalidRequest) as refused:
        await preview(pipelines, steps=[{**steps[0], "top_k": 2}])
    assert [each.field for each in refused.value.errors] == ["steps.0.top_k"]
