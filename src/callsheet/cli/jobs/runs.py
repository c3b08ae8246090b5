"""`callsheet runs`: starts, watches, exports and deletes runs of pipelines. HTTP only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from callsheet.cli.jobs.pipelines import AS_JSON, URL, with_client
from callsheet.cli.shared.console import checked, err, out, print_json, print_table, require_consent
from callsheet.wire.pipelines.pipelines import CreateRun, Run, RunReason, RunStatus, RunSummary
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.cli.shared.pipeline_client import PipelineClient

# Interval between requests while a run is watched, in seconds.
POLL_SECONDS = 0.5

runs = typer.Typer(help="Runs of pipelines: start, watch, export, delete.", no_args_is_help=True)

RUN = typer.Argument(help="Id of the run.")


@runs.command("start")
def start_run(
    pipeline: str = typer.Argument(help="Short name of the pipeline."),
    name: str = typer.Option(..., help="Name of the run."),
    budget: int = typer.Option(..., help="Maximum number of tokens that the run may spend."),
    prompt: str | None = typer.Option(None, help="Text that replaces {{prompt}} in the steps."),
    variables: list[str] = typer.Option(
        [], "--set", help="Set a variable of the run: KEY=VALUE. VALUE is parsed as JSON if possible."
    ),
    folder: str | None = typer.Option(
        None, help="Name of the folder for the files of the run. Default: from its name."
    ),
    strategy: str = typer.Option("finish_first", help="Order of work: finish_first or breadth_first."),
    seed: int | None = typer.Option(None, help="Random seed; the same seed repeats the same choices. Default: random."),
    leaves: int | None = typer.Option(None, help="Number of finished candidates to aim for."),
    children: int | None = typer.Option(
        None, help="Maximum children per candidate, for every step. Default: the value of each step."
    ),
    concurrency: int | None = typer.Option(None, help="Maximum number of jobs that run at the same time."),
    watch: bool = typer.Option(False, "--watch", "-w", help="Show the progress until the run ends."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Start a run."""
    from callsheet.cli.shared.values import read_pairs

    given = {
        "target_folder": folder,
        "seed": seed,
        "target_leaves": leaves,
        "max_children": children,
        "concurrency": concurrency,
        "prompt": prompt,
    }
    wanted = checked(
        CreateRun,
        name=name,
        budget=budget,
        strategy=strategy,
        variables=read_pairs(variables),
        **{key: value for key, value in given.items() if value is not None},
    )

    async def work(client: PipelineClient) -> None:
        run = await client.start_run(pipeline, wanted)
        if not as_json:
            out.print(f"Run {run.id} is {_state(run)}, seed {run.seed}, files in {run.target_folder}.")
        if watch:
            run = await _watched(client, str(run.id))
        if as_json:
            print_json(run)
        elif watch:
            _print_run(run)

    with_client(url, work)


@runs.command("list")
def list_runs(
    pipeline: str | None = typer.Option(None, help="Only runs of this pipeline."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List your runs, newest first."""
    found = with_client(url, lambda client: client.runs(pipeline))
    if as_json:
        print_json(found)
        return
    rows = [(row.id, row.name, _state(row), row.candidates, f"{row.spent}/{row.budget}") for row in found]
    print_table(("id", "name", "status", "candidates", "tokens"), rows)


@runs.command("show")
def show_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Show the progress of a run, step by step."""
    found = with_client(url, lambda client: client.find_run(run))
    print_json(found) if as_json else _print_run(found)


@runs.command("watch")
def watch_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Show the progress of a run until it ends, is paused or waits for a person."""
    found = with_client(url, lambda client: _watched(client, run))
    print_json(found) if as_json else _print_run(found)


async def _watched(client: PipelineClient, run_id: str) -> Run:
    from callsheet.cli.jobs.run_display import RunDisplay

    with RunDisplay(err) as display:
        while True:
            run = await client.find_run(run_id)
            display.show(run)
            if not _goes_on(run):
                return run
            await asyncio.sleep(POLL_SECONDS)


@runs.command("winners")
def list_winners(
    run: str = RUN,
    limit: int = typer.Option(10, min=1, max=100, help="Number of candidates to list."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List the finished candidates with the highest ELO, with URLs of their images."""
    found = with_client(url, lambda client: client.winners(run, limit))
    if as_json:
        print_json(found)
        return
    rows = [(row.number, row.elo, row.votes, row.id, row.file.url if row.file else None) for row in found]
    print_table(("number", "elo", "votes", "id", "address"), rows)


@runs.command("export")
def export_run(
    run: str = RUN,
    to: Path | None = typer.Option(
        None, help="Name of the zip file. Default: the run's folder name, in the working directory."
    ),
    everything: bool = typer.Option(False, "--all", help="Include rejected candidates."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Download a run's images as a zip, with a manifest of the tree."""
    from callsheet.cli.shared.display import transfer

    async def work(client: PipelineClient) -> Path:
        target = to or Path(f"{(await client.find_run(run)).target_folder}.zip")
        with transfer(err, f"Fetching {target}", None) as counted:
            await client.export(run, target, counted, everything=everything)
        return target

    target = with_client(url, work)
    print_json({"file": str(target)}) if as_json else out.print(str(target))


@runs.command("pause")
def pause_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Pause a run. Running jobs finish, and no new ones start."""
    _changed(run, "pause", url, as_json)


@runs.command("resume")
def resume_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Resume a paused run."""
    _changed(run, "resume", url, as_json)


@runs.command("cancel")
def cancel_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Cancel a run. Its active jobs are canceled and refunded."""
    _changed(run, "cancel", url, as_json)


@runs.command("delete")
def delete_run(
    run: str = RUN,
    yes: bool = typer.Option(False, "--yes", "-y", help="Delete the run without asking."),
    url: str | None = URL,
) -> None:
    """Delete an ended run with its candidates, their images and votes. Charges do not change."""
    found = with_client(url, lambda client: client.find_run(run))
    gone = f"{counted(found.candidates, 'candidate')} with their images, previews and votes"
    if not yes:
        err.print(f"Run {found.id} ({found.name}) is deleted with {gone}.")
    require_consent("Delete the run?", "deleted", yes, "delete the run")
    with_client(url, lambda client: client.delete_run(run))
    out.print(f"Run {found.id} ({found.name}) is deleted.")


def _changed(run_id: str, verb: str, url: str | None, as_json: bool) -> None:
    run: Run = with_client(url, lambda client: client.change_run(run_id, verb))
    print_json(run) if as_json else out.print(f"Run {run.id} is {_state(run)}.")


def _goes_on(run: Run) -> bool:
    """Whether the run continues: False if it has ended, or waits for a person and not for a job."""
    if run.status is not RunStatus.ACTIVE:
        return False
    waits = run.reason not in (None, RunReason.TOO_MANY_ACTIVE_JOBS, RunReason.TENANT_AT_LIMIT)
    return not waits or any(step.in_flight for step in run.steps)


def _state(run: RunSummary) -> str:
    return run.status.value if run.reason is None else f"{run.status.value} ({run.reason.value})"


def _print_run(run: Run) -> None:
    from callsheet.cli.jobs.run_display import LINES, lines_of

    out.print(f"Run {run.id} ({run.name}) is {_state(run)}: {run.spent} of {counted(run.budget, 'token')}.")
    if run.reason_detail:
        out.print(run.reason_detail)
    print_table(LINES, lines_of(run))
