from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs.wheels import built_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Callsheet's own."""
    return built_wheel(tmp_path_factory.mktemp("dist"))
