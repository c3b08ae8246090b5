"""What the tests of the core share."""

from __future__ import annotations

import pytest

from tests.support.core import Core, Member


@pytest.fixture
async def ann(core: Core) -> Member:
    return await core.member("pool_1")
