"""Shows a job while it is watched: one bar with its stages on a terminal, one line per stage elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from callsheet.client.streams import StreamItem
from callsheet.wire.jobs import JobEvent, JobProgress, JobStatus
from callsheet.wire.worker.protocol import UPLOADING

Stage = Literal["queue", "lease", "render", "upload", "done"]
STAGES: tuple[Stage, ...] = ("queue", "lease", "render", "upload", "done")
# The work of an actor is neither a render nor an upload; the actor itself reports its progress.
TASK_STAGES: tuple[Stage, ...] = ("queue", "lease", "done")
# The position on the bar at which each stage starts. Rendering takes nearly all the time.
BEGINS: dict[Stage, float] = {"queue": 0.0, "lease": 5.0, "render": 10.0, "upload": 95.0, "done": 100.0}


BAR_WIDTH = 20
SEPARATOR = " → "


def stage_of(event: StreamItem) -> Stage | None:
    if isinstance(event, JobProgress):
        return "upload" if event.message == UPLOADING else "render"
    if not isinstance(event, JobEvent):
        return None
    match event.to_status:
        case JobStatus.PENDING | JobStatus.QUEUED:
            return "queue"
        case JobStatus.PROCESSING:
            return "lease"
        case JobStatus.COMPLETED:
            return "done"
    return None


class JobDisplay:
    """The display. `stages`: after how many seconds each stage started."""

    def __init__(self, console: Console, trail: tuple[Stage, ...] = STAGES):
        self.stages: dict[Stage, float] = {}
        self.trail = trail
        self._console = console
        self._started_at = time.monotonic()
        self._stage: Stage = "queue"
        self._is_lost = False
        self._waits = ""
        # This fits 80 columns; a longer note is cut.
        note = TextColumn("{task.fields[note]}", markup=False, style="dim", table_column=Column(no_wrap=True))
        columns = (SpinnerColumn(), _Trail(self), BarColumn(BAR_WIDTH), TimeElapsedColumn(), note)
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("queue", total=100.0, note="")

    def __enter__(self) -> JobDisplay:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    @property
    def stage(self) -> Stage:
        return self._stage

    def show(self, event: StreamItem) -> None:
        self._is_lost = False
        stage = stage_of(event)
        if stage is None:
            return
        if stage not in self.trail:
            stage = "lease"
        for passed in self._passed(stage):
            self._reach(passed)
        self._reach(stage)
        percent = event.percent if isinstance(event, JobProgress) else None
        note = (event.message or "") if isinstance(event, JobProgress) else ""
        is_worked_on = stage in ("render", "lease") and percent is not None
        place = BEGINS[stage] + (percent or 0.0) * (BEGINS["upload"] - BEGINS["render"]) / 100 * is_worked_on
        self._bar.update(self._task, completed=place, note=note[:40])

    def _passed(self, stage: Stage) -> tuple[Stage, ...]:
        """The stages that the job passed unseen: only the latest progress is sent."""
        return self.trail[self.trail.index(self._stage) + 1 : self.trail.index(stage)] if self.stages else ()

    def _reach(self, stage: Stage) -> None:
        seconds = time.monotonic() - self._started_at
        if stage != self._stage or not self.stages:
            self._stage = stage
            if not self._console.is_terminal:
                self._console.print(f"{seconds:6.1f} s  {stage}")
        self.stages.setdefault(stage, round(seconds, 2))

    def waits(self, reason: str) -> None:
        """Shows why nothing has started yet, once for each reason."""
        if self._stage != "queue" or reason == self._waits:
            return
        self._waits = reason
        self._bar.update(self._task, note=reason)
        if not self._console.is_terminal:
            self._console.print(f"          {reason}")

    def lost(self, reason: str) -> None:
        self._bar.update(self._task, note="connection lost, trying again")
        if not self._console.is_terminal and not self._is_lost:
            self._console.print(f"connection lost ({reason}), trying again")
        self._is_lost = True


class _Trail(TextColumn):
    """The stages in their order: past, current and future ones."""

    def __init__(self, display: JobDisplay):
        super().__init__("", table_column=Column(no_wrap=True, min_width=len(SEPARATOR.join(display.trail))))
        self._display = display

    def render(self, task: object) -> Text:
        trail = self._display.trail
        now = trail.index(self._display.stage)
        text = Text()
        for place, stage in enumerate(trail):
            over = place < now or stage == self._display.stage == "done"
            style = "green" if over else "bold cyan" if place == now else "dim"
            text.append(stage, style).append(SEPARATOR if stage != "done" else "", "dim")
        return text


@contextmanager
def transfer(console: Console, what: str, size: int | None) -> Iterator[Callable[[int, int], object]]:
    """A progress bar of bytes. The caller reports the number of bytes so far, and of all."""
    if not console.is_terminal:
        console.print(what)
        yield lambda sent, size: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(BAR_WIDTH), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=size)
        yield lambda sent, size: bar.update(task, completed=sent)
