"""A workflow that is changed under a pipeline: what was checked when its steps were made is checked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.wire.catalog import UpdateWorkflow
from callsheet.wire.errors import WrongState
from callsheet.wire.pipelines import RunReason, RunStatus
from tests.support.core import Core, Member
from tests.support.shoot import NOW, Shoot, open_shoot
from tests.support.stage import open_stage

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
async def shoot(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Shoot]:
    async with open_stage(core, ann, tmp_path / "home") as stage:
        yield open_shoot(core, ann, stage)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [(NAMED_BY_USER, "names a file"), (OF_A_PARENT, "the step uses no parent")],
    ids=["a variable names a file", "a base has a parent"],
)
async def test_a_step_that_does_not_fit_its_workflow_any_more_is_not_filled(
    shoot: Shoot, graph: dict[str, Any], reason: str
) -> None:
    slug = await shoot.workflow(STYLED)
    pipeline = await shoot.define([{"name": "base", "workflow": slug, "needs_run_variables": True}])
    given = {"variables": {"style": "../../../etc/cron.d/x"}, "target_leaves": 2}
    run = await shoot.run(pipeline, **given)
    await shoot.room.director.tick(NOW)
    assert await shoot.work() == 1
    await shoot.catalog.workflows.update(slug, UpdateWorkflow(graph=graph), "test")

    await shoot.tick()
    assert await shoot.work() == 0
    run = await shoot.shown(run)
    assert (run.status, run.reason) == (RunStatus.ACTIVE, RunReason.CANNOT_BUILD)
    assert reason in (run.reason_detail or "")
    with pytest.raises(WrongState, match=reason) as refused:
        await shoot.run(pipeline, **given)
    assert refused.value.errors[0].field == "steps.0.workflow"

    # Once it is mended, the run goes on by itself.
    await shoot.catalog.workflows.update(slug, UpdateWorkflow(graph=STYLED), "test")
    await shoot.due(run)
    run = await shoot.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
