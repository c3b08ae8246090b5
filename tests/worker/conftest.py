from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.app import ControlPlane
from tests.worker.harness import Site, open_site


@pytest.fixture
async def site(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(plane, tmp_path / "agent") as site:
        yield site
