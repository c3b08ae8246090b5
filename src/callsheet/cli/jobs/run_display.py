"""Shows a run while it is watched: a table that grows on a terminal, a line per change elsewhere."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from callsheet.wire.pipelines.pipelines import Run
from callsheet.wire.plurals import counted

LINES = ("step", "candidates", "rejected", "under way", "waits for")


def lines_of(run: Run) -> list[tuple[str, int, int, int, str]]:
    """A line for each step."""
    return [
        (
            each.step.name,
            each.active,
            each.candidates - each.active,
            each.in_flight,
            "approval" if each.step.requires_approval and not each.approved and each.active else "",
        )
        for each in run.steps
    ]


class RunDisplay:
    def __init__(self, console: Console):
        self._console = console
        self._started_at = time.monotonic()
        self._last_line = ""
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> RunDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, run: Run) -> None:
        line = summary_of(run)
        if self._console.is_terminal:
            self._live.update(Group(Text(f"{self._seconds():6.1f} s  {line}"), _table_of(run)), refresh=True)
        elif line != self._last_line:
            self._console.print(f"{self._seconds():6.1f} s  {line}")
        self._last_line = line

    def _seconds(self) -> float:
        return time.monotonic() - self._started_at


def summary_of(run: Run) -> str:
    leaves = run.steps[-1].active
    progress = (
        f"{counted(run.candidates, 'candidate')}, {leaves} of {counted(run.target_leaves, 'leaf', 'leaves')}, "
        f"{run.spent} of {counted(run.budget, 'token')}"
    )
    return progress if run.reason is None else f"{progress}: {run.reason.value}"


def _table_of(run: Run) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in LINES:
        table.add_column(column)
    for line in lines_of(run):
        table.add_row(*(Text(str(cell)) for cell in line))
    return table
