"""Tests that only `make test-all` runs: tests marked `thorough`, and most forms of those marked `few_forms`."""

from __future__ import annotations

from collections import defaultdict

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with many forms, the first, the middle and the last form are ordinary. The others are thorough."""
    forms = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few_forms"):
            forms[item.nodeid.partition("[")[0]].append(item)
    for found in forms.values():
        ordinary = {0, len(found) // 2, len(found) - 1}
        for place, item in enumerate(found):
            if place not in ordinary:
                item.add_marker("thorough")
