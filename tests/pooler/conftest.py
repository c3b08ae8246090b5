"""These tests need a PgBouncer. Only `make test-pgbouncer` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--pooler") is None else None
