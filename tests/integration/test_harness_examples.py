"""The examples in the docstrings of the harnesses run as they are written: tests/README.md sends its readers there."""

from __future__ import annotations

import ast
import asyncio
import importlib
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.media.storage import open_storage
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from tests.support.fleets.scaling_harness import ScalingHarness
from tests.support.http.accounts import People
from tests.support.http.jobs_api import JobsApi
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import open_worker_harness
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.race import Race
from tests.support.media.media_harness import open_media_harness
from tests.support.pipelines.pipeline_harness import open_pipeline_harness
from tests.support.programs.commands import Callsheet
from tests.support.providers.replicate_server import ReplicateServer
from tests.worker.harness import open_agent_harness

pytestmark = pytest.mark.thorough

KNOWN = {
    "pytest": pytest,
    "Failpoint": Failpoint,
    "Role": Role,
    "uuid7": uuid7,
}


def example_of(docstring: str) -> str:
    """The paragraphs from the first one on that is code."""
    paragraphs = docstring.split("\n\n")
    for start in range(1, len(paragraphs)):
        code = "async def example():\n" + textwrap.indent("\n\n".join(paragraphs[start:]), "    ")
        try:
            ast.parse(code)
        except SyntaxError:
            continue
        return code
    raise AssertionError(f"This docstring has no example: {docstring}")


async def run(module: str, **given: Any) -> None:
    imported = importlib.import_module(module)
    names = {**KNOWN, **vars(imported), **given}
    exec(example_of(imported.__doc__ or ""), names)
    await names["example"]()


@pytest.fixture
async def race(shared_databases: Databases, shared_settings: Settings) -> AsyncIterator[Race]:
    other = await open_databases(shared_settings)
    one, two = await open_core(shared_databases).prepare(), open_core(other)
    two.workflow = one.workflow
    yield Race(one, two, await one.member("pool_1"), await one.member("pool_2"), aside=await one.add_workflow())
    await other.close()


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


async def test_the_core_runs_as_shown(shared_databases: Databases) -> None:
    await run("tests.support.jobs.core", databases=shared_databases)


async def test_a_race_runs_as_shown(race: Race) -> None:
    await run("tests.support.jobs.race", race=race)


async def test_the_control_of_races_runs_as_shown(race: Race) -> None:
    await run("tests.support.jobs.race_control", race=race)


async def test_a_crash_runs_as_shown(core: Core, ann: Member) -> None:
    await core.submit(ann)
    await run("tests.support.jobs.crashes", core=core)


async def test_the_plan_of_a_statement_is_read_as_shown(core: Core) -> None:
    await run("tests.support.database.plans", database=core.databases.pools[0])


async def test_media_run_as_shown(core: Core, ann: Member, tmp_path: Path) -> None:
    await run("tests.support.media.media_harness", core=core, ann=ann, tmp_path=tmp_path)


async def test_pipelines_run_as_shown(core: Core, ann: Member, tmp_path: Path) -> None:
    async with open_media_harness(core, ann, tmp_path) as media:
        names = {"core": core, "ann": ann, "media": media, "open_pipeline_harness": open_pipeline_harness}
        await run("tests.support.pipelines.pipeline_harness", **names)


async def test_calls_of_providers_run_as_shown(
    core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
) -> None:
    await run("tests.support.providers.provider_calls", core=core, ann=ann, tmp_path=tmp_path, replicate=replicate)


async def test_scaling_runs_as_shown(core: Core, ann: Member, scaling: ScalingHarness) -> None:
    await run("tests.support.fleets.scaling_harness", core=core, ann=ann, scaling=scaling)


async def test_bulk_actions_run_as_shown(core: Core, ann: Member) -> None:
    await run("tests.support.jobs.bulk_actions", core=core, ann=ann)


async def test_alerts_are_checked_as_shown(core: Core, tmp_path: Path) -> None:
    storage = open_storage(Settings(home=tmp_path), b"a secret of at least thirty-two bytes", None)
    await run("tests.support.jobs.alert_checks", core=core, tmp_path=tmp_path, storage=storage)
    await storage.close()


async def test_accounts_are_made_as_shown(client: httpx.AsyncClient, people: People) -> None:
    await run("tests.support.http.accounts", client=client, people=people)


async def test_jobs_over_http_run_as_shown(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> None:
    await run("tests.support.http.jobs_api", plane=plane, client=client, people=people)


async def test_media_over_http_run_as_shown(plane: ControlPlane) -> None:
    await run("tests.support.http.media_api", plane=plane)


async def test_effects_over_http_run_as_shown(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, jobs_api: JobsApi
) -> None:
    ann = await jobs_api.person(tokens=100)
    await run("tests.support.http.catalog_api", plane=plane, client=client, people=people, ann=ann)


async def test_workers_over_http_run_as_shown(plane: ControlPlane, jobs_api: JobsApi, core: Core) -> None:
    given = {"plane": plane, "jobs_api": jobs_api, "core": core, "databases": core.databases}
    await core.add_workflow("face-swap")
    await run("tests.support.http.fleet_api", **given)


async def test_scripted_workers_run_as_shown(plane: ControlPlane) -> None:
    async with open_worker_harness(plane) as worker_harness:
        await run("tests.support.http.worker_harness", worker_harness=worker_harness, described=described)


async def test_the_agent_runs_as_shown(plane: ControlPlane, tmp_path: Path) -> None:
    async with open_agent_harness(plane, tmp_path) as agent_harness:
        await run("tests.worker.harness", agent_harness=agent_harness)


def test_commands_run_as_shown(callsheet: Callsheet) -> None:
    asyncio.run(run("tests.support.programs.commands", callsheet=callsheet))
