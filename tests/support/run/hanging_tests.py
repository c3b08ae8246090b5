"""Shows where a hanging test waits: the tasks of its event loop, in the report of its failure.

pytest-timeout ends the test (`make test` sets the number of seconds) and shows the stack of each thread. For a test
that waits in an event loop that stack is always the same, so this module adds the stack of each task.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # pytest-timeout has no exception of its own: https://github.com/pytest-dev/pytest-timeout, "Timeout (>300s)".
    if call.excinfo is not None and str(call.excinfo.value).startswith("Timeout (>"):
        report.sections.append(("Tasks that wait", _stacks_of_tasks()))
    return report


def _stacks_of_tasks() -> str:
    loop = asyncio.get_event_loop_policy().get_event_loop()
    text = io.StringIO()
    for task in asyncio.all_tasks(loop):
        task.print_stack(file=text)
    return text.getvalue()
