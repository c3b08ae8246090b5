"""A workflow changes after its pipeline was defined: the checks of its steps run again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.wire.catalog import UpdateWorkflow
from callsheet.wire.errors import WrongState
from callsheet.wire.pipelines.pipelines import RunReason, RunStatus
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness

STYLED: dict[str, Any] = {
    "1": {"class_type": "PaintPicture", "inputs": {"text": "in {{style}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "base"}},
}
NAMED_BY_USER: dict[str, Any] = {
    "1": {"class_type": "PaintPicture", "inputs": {"text": "a hill"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "{{style}}"}},
}
OF_A_PARENT: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{{parent_image_path}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "base"}},
}


@pytest.fixture
async def pipelines(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[PipelineHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield open_pipeline_harness(core, ann, media)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [(NAMED_BY_USER, "names a file"), (OF_A_PARENT, "the step uses no parent")],
    ids=["a variable names a file", "a base has a parent"],
)
async def test_a_step_that_no_longer_fits_its_workflow_is_not_started(
    pipelines: PipelineHarness, graph: dict[str, Any], reason: str
) -> None:
    slug = await pipelines.workflow(STYLED)
    pipeline = await pipelines.define([{"name": "base", "workflow": slug, "needs_run_variables": True}])
    given = {"variables": {"style": "../../../etc/cron.d/x"}, "target_leaves": 2}
    run = await pipelines.run(pipeline, **given)
    await pipelines.room.scheduler.tick(NOW)
    assert await pipelines.work() == 1
    await pipelines.catalog.workflows.update(slug, UpdateWorkflow(graph=graph), "test")

    await pipelines.tick()
    assert await pipelines.work() == 0
    run = await pipelines.shown(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert reason in (run.reason_detail or "")
    with pytest.raises(WrongState, match=reason) as refused:
        await pipelines.run(pipeline, **given)
    assert refused.value.errors[0].field == "steps.0.workflow"

    # Once it is mended, the run goes on by itself.
    await pipelines.catalog.workflows.update(slug, UpdateWorkflow(graph=STYLED), "test")
    await pipelines.due(run)
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
