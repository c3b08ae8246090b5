"""Shows a simulation: bars while it runs, and one table of all policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from callsheet.cli.shared.console import err, out, print_table
from callsheet.wire.plurals import choose

if TYPE_CHECKING:
    from callsheet_simulation.conditions import Conditions
    from callsheet_simulation.policies import NamedPolicy
    from callsheet_simulation.report import MachinePrices, SimulationReport
    from callsheet_simulation.trace import QueueTrace

BAR_WIDTH = 20
MINUTE, HOUR, DAY = 60, 3600, 86_400
# Below this, a tenth of a second is shown.
EXACT_SECONDS = 10


def read_with_progress(file: Path) -> QueueTrace:
    from callsheet_simulation.trace_files import read_trace

    with _bar(f"Reading {file.name}") as (show, total):
        return read_trace(file, lambda done, size: (total(size), show(done)))


def replay_with_progress(
    trace: QueueTrace,
    policies: Sequence[NamedPolicy],
    conditions: Conditions,
    wait_limit: float,
    prices: MachinePrices | None,
) -> list[SimulationReport]:
    from callsheet_simulation.replay import TraceReplay
    from callsheet_simulation.report import report

    reports = []
    for number, each in enumerate(policies, 1):
        with _bar(f"Replaying policy {number} of {len(policies)}") as (show, total):
            total(len(trace))
            outcome = TraceReplay(trace, each.policy, conditions).run(show)
        reports.append(report(each.name, each.policy, outcome, wait_limit, prices))
    return reports


@contextmanager
def _bar(what: str) -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """A bar that is shown only on a terminal, and removed at the end."""
    if not err.is_terminal:
        yield (lambda done: None), (lambda size: None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_WIDTH),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield (lambda done: bar.update(task, completed=done)), (lambda size: bar.update(task, total=size))


def print_reports(trace: QueueTrace, reports: Sequence[SimulationReport]) -> None:
    limit = reports[0].wait_seconds.limit
    hours = round(trace.work_seconds / HOUR, 1)
    out.print(
        f"{len(trace):,} {choose(len(trace), 'job')} in {duration(trace.span_seconds)}, "
        f"{hours:,.1f} {choose(hours, 'hour')} of work. Waits are from a job's arrival to its start."
    )
    has_cost = reports[0].cost is not None
    columns = ["policy", "mean", "p50", "p90", "p99", "longest", f"over {duration(limit)}"]
    columns += ["worker hours", "spot", "idle", *(["cost"] if has_cost else []), "most workers", "changes"]
    print_table(columns, [_row(each, has_cost=has_cost) for each in reports])
    for each in reports:
        if each.interruptions:
            again = f"{each.repeated_runs:,} {choose(each.repeated_runs, 'run')} had to start again"
            out.print(
                f"{each.name}: spot workers were interrupted {each.interruptions:,} "
                f"{choose(each.interruptions, 'time')}; {again}."
            )


def _row(each: SimulationReport, *, has_cost: bool) -> list[str]:
    waits = each.wait_seconds
    return [
        each.name,
        *(duration(value) for value in (waits.mean, waits.p50, waits.p90, waits.p99, waits.longest)),
        f"{waits.over_limit:,} ({waits.over_limit_share:.1%})",
        f"{each.worker_hours:,.1f}",
        f"{each.spot_hours / each.worker_hours:.0%}" if each.worker_hours else "",
        f"{each.idle_share:.0%}",
        *([f"{each.cost:,.2f}"] if has_cost else []),
        str(each.peak_workers),
        f"{each.scale_outs + each.scale_ins:,}",
    ]


def duration(seconds: float) -> str:
    """The duration with two significant digits: 4.2 s, 42 s, 4.2 min."""
    if seconds < EXACT_SECONDS:
        return f"{seconds:.1f} s"
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
