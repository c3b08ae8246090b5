"""Alerts about jobs that fail, from real rows: of every provider and workflow, and of runs that stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.dispatch.facts import Criteria
from callsheet.wire.pipelines.pipelines import RunReason, RunStatus
from tests.support.jobs.alert_checks import URL, AlertChecks
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import PipelineHarness, open_pipeline_harness

# Engines, a service that responds at once, and one that calls back: all end as rows of the same history.
PROVIDERS = ("self_hosted", "prices", "replicate")


@pytest.fixture
async def pipelines(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[PipelineHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield open_pipeline_harness(core, ann, media)


@pytest.fixture
def installation(core: Core, tmp_path: Path, pipelines: PipelineHarness) -> AlertChecks:
    return AlertChecks(core, tmp_path / "home", pipelines.media.room.files.storage, pipelines.room.numbers.read)


async def finish(core: Core, ann: Member, provider: str, *, failed: int, completed: int) -> None:
    """Jobs of one provider that end, each of a workflow of its own: no workflow has enough to say anything."""
    for number in range(failed + completed):
        workflow = await core.add_workflow()
        await core.submit(ann, workflow_id=workflow, provider=provider)
        await core.relay()
        started = await core.start("worker-1", Criteria((workflow,), providers=(provider,)))
        await (core.fail(started) if number < failed else core.complete(started))


async def test_each_kind_of_provider_raises_an_alert_if_too_many_of_its_jobs_fail(
    core: Core, ann: Member, installation: AlertChecks
) -> None:
    for provider in PROVIDERS:
        await finish(core, ann, provider, failed=6, completed=3)
    await finish(core, ann, "healthy", failed=5, completed=6)
    assert await installation.found("failing_provider", "many_failures") == []
    for provider in PROVIDERS:
        await finish(core, ann, provider, failed=1, completed=0)
    alerts = await installation.found("failing_provider", "many_failures")
    assert {alert.subject: alert.message for alert in alerts} == {
        provider: f"7 of 10 jobs of the provider {provider} failed in the last hour." for provider in PROVIDERS
    }
    for provider in PROVIDERS:
        await finish(core, ann, provider, failed=0, completed=4)
    assert await installation.found("failing_provider") == []


async def test_each_workflow_raises_an_alert_if_too_many_of_its_jobs_fail(
    core: Core, ann: Member, installation: AlertChecks
) -> None:
    # The workflow of an actor is one like all others.
    workflow = await core.add_workflow("actor:prices")
    for _ in range(10):
        await core.submit(ann, workflow_id=workflow, provider="prices")
        await core.relay()
        await core.fail(await core.start("worker-1", Criteria((workflow,), providers=("prices",))))
    [alert] = await installation.found("many_failures")
    assert (alert.subject, alert.message) == ("actor:prices", "10 of 10 jobs of actor:prices failed in the last hour.")


async def test_a_run_that_stopped_raises_an_alert_that_names_it_until_it_is_resumed(
    core: Core, ann: Member, pipelines: PipelineHarness, installation: AlertChecks
) -> None:
    run = await pipelines.finish(await pipelines.run(await pipelines.pipeline("base")), lambda _: True)
    assert (run.status, run.reason) == (RunStatus.PAUSED, RunReason.BASE_FAILED)
    # Three failed jobs are too few for a share.
    [alert] = await installation.found("stopped_run", "failing_runs", "failing_provider")
    assert (alert.code, alert.subject) == ("stopped_run", str(run.id))
    assert f"The run “A run” ({run.id}) stopped because its jobs failed." in alert.message
    assert "Jobs of the first step that failed in a row: 3." in alert.message
    assert f"{URL}/operate/jobs?status=failed&run={run.id}." in alert.action
    await pipelines.room.runs.resume(principal_of(ann), run.id)
    assert await installation.found("stopped_run") == []


async def test_the_alert_of_a_run_that_its_branches_stopped_ends_after_a_day_and_one_paused_by_its_user_has_none(
    core: Core, ann: Member, pipelines: PipelineHarness, installation: AlertChecks
) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", "fix"))
    run = await pipelines.finish(run, lambda started: bool(started.payload["assets"]))
    assert run.reason is RunReason.BRANCHES_FAILED
    other = await pipelines.run(await pipelines.pipeline("base"))
    await pipelines.room.runs.pause(principal_of(ann), other.id)
    [alert] = await installation.found("stopped_run")
    assert alert.subject == str(run.id)
    async with ann.pool.transaction() as connection:
        await connection.execute("UPDATE pipeline_runs SET due_at = due_at - interval '25 hours' WHERE id = $1", run.id)
    assert await installation.found("stopped_run") == []
