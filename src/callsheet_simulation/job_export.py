"""`callsheet jobs export`: the history of an installation as a trace that `callsheet simulate` replays. HTTP only."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import err, out, print_json
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import choose

if TYPE_CHECKING:
    from callsheet.cli.shared.operations_client import OperationsClient
    from callsheet.wire.operate.operations import Dispatch
    from callsheet_simulation.trace import QueueTrace

UNITS = {"min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
SPAN = re.compile(rf"(\d{{1,6}})({'|'.join(UNITS)})")


def export_jobs(
    file: Path = typer.Argument(help="File to write; its name ends in .csv or .jsonl. An existing file is replaced."),
    since: str = typer.Option("30d", help="Period up to now, for example 12h, 30d or 8w."),
    fleet: str | None = typer.Option(None, help="Only jobs of the workflows of this fleet (its short name)."),
    stage: str = typer.Option("production", help="Only jobs of this stage."),
    workflows: list[str] = typer.Option(None, "--workflow", help="Only jobs of this workflow. Can be repeated."),
    url: str | None = URL,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write finished jobs as a trace for `callsheet simulate`: when each arrived and how long it ran. For operators.

    Jobs that never ran are left out. Prompts, results and users are not in the file.
    """
    from callsheet.cli.shared.operations_client import with_operations
    from callsheet_simulation.trace_files import check_name, write_trace

    check_name(file)
    start = datetime.now(UTC) - read_span(since)

    async def ask(client: OperationsClient) -> QueueTrace:
        wanted = set(workflows or ())
        if fleet is not None:
            wanted |= set((await client.fleet(fleet, stage)).workflows)
        if not wanted and fleet is not None:
            raise OperatorError(f"Fleet {fleet} in {stage} serves no workflow.")
        return await read_history(client, start, stage, wanted)

    trace = with_operations(url, ask)
    if not len(trace):
        raise OperatorError(f"No job of the last {since} has run. {file} was not written.")
    write_trace(file, trace)
    if as_json:
        print_json({"file": str(file), "jobs": len(trace), "run_seconds": trace.work_seconds})
    else:
        out.print(
            f"Wrote {len(trace):,} {choose(len(trace), 'job')} to {file}. To replay them, run: callsheet simulate "
            f"--trace {file}"
        )


async def read_history(
    client: OperationsClient, start: datetime, stage: str, workflows: Collection[str] = ()
) -> QueueTrace:
    """Reads pages of finished dispatches, newest first, until every row of a page is older than `start`."""
    from callsheet_simulation.trace import QueueTrace, TraceLane

    found: list[Dispatch] = []
    with err.status("Reading the history") as status:
        async for page in client.finished_dispatches():
            found += [each for each in page if _counts(each, start, stage, workflows)]
            status.update(f"Reading the history: {len(found):,} {choose(len(found), 'job')}")
            if page and all(each.created_at < start for each in page):
                break
    found.sort(key=lambda each: (each.created_at, each.dispatch_id))
    trace = QueueTrace(found[0].created_at if found else None)
    for each in found:
        assert each.duration_seconds is not None, "only jobs that ran were kept"
        moment = (each.created_at - found[0].created_at).total_seconds()
        trace.add(moment, each.duration_seconds, TraceLane(each.tenant, "", each.priority, each.workflow))
    return trace


def _counts(each: Dispatch, start: datetime, stage: str, workflows: Collection[str]) -> bool:
    is_wanted = each.stage == stage and (not workflows or each.workflow in workflows)
    return is_wanted and each.created_at >= start and each.duration_seconds is not None


def read_span(text: str) -> timedelta:
    match = SPAN.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise OperatorError(f"--since is {text!r}: use a number and a unit, for example 90min, 12h, 30d or 8w.")
    return timedelta(seconds=int(match[1]) * UNITS[match[2]])
