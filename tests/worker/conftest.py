"""One control plane for all these tests, emptied before each: starting one takes half a second of processor time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.installation import empty, isolated_installation
from tests.support.waiting import until
from tests.worker.harness import AgentHarness, open_agent_harness


@pytest.fixture(scope="session")
async def _plane_of_all(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("shared")
    async with (
        isolated_installation(postgres, templates, directory) as settings,
        running_control_plane(settings) as plane,
    ):
        yield plane


@pytest.fixture
async def plane(_plane_of_all: ControlPlane) -> ControlPlane:
    # An agent that was stopped by force leaves a poll behind, until its connection is seen to be closed.
    await until(lambda: not _plane_of_all.rooms.jobs.dispatch.waiters)
    await empty(_plane_of_all.databases)
    return _plane_of_all


@pytest.fixture
async def agent_harness(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[AgentHarness]:
    """Agents of the shared control plane, with an engine that replays recordings."""
    async with open_agent_harness(plane, tmp_path / "agent") as agent_harness:
        yield agent_harness
