"""One control plane for all these tests, emptied before each: starting one takes half a second of processor time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.app import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.installation import empty, isolated_installation
from tests.support.waiting import until
from tests.worker.harness import Site, open_site


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
    await until(lambda: not _plane_of_all.jobs.waiters)
    await empty(_plane_of_all.databases)
    return _plane_of_all


@pytest.fixture
async def site(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(plane, tmp_path / "agent") as site:
        yield site
