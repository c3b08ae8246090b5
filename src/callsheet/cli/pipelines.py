"""`callsheet pipelines` and `callsheet runs`: pipelines as files declare them, and runs of them. HTTP only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from callsheet.cli.console import checked, err, out, print_json, print_table
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.pipelines import CreateRun, Pipeline, Run, RunSummary

if TYPE_CHECKING:
    from callsheet.cli.declarations import Change
    from callsheet.cli.pipeline_client import PipelineClient
    from callsheet.wire.pipelines import CreatePipeline

Result = TypeVar("Result")

pipelines = typer.Typer(
    help="Pipelines: steps, each of which makes candidates of the step before.", no_args_is_help=True
)
runs = typer.Typer(help="Runs of pipelines.", no_args_is_help=True)

URL = typer.Option(None, "--url", help="Address of the control plane (client.url).")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
RUN = typer.Argument(help="Id of the run.")


@pipelines.command("apply")
def apply(
    file: Path = typer.Argument(help="A TOML file that declares a pipeline."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Write it without asking."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Make a pipeline what a file says. What is so already stays; runs keep the steps they began with."""
    from callsheet.cli.declarations import read_declaration

    wanted = read_declaration(file)

    async def work(client: PipelineClient) -> None:
        found, changed = await _compared(client, wanted)
        written = found
        if changed:
            for change in changed:
                err.print(str(change))
            if not yes and not _agreed():
                raise OperatorError("Nothing was written. Add --yes to write it.")
            written = await (client.create_pipeline(wanted) if found is None else client.update_pipeline(wanted))
        assert written is not None, "what is not there differs"
        if as_json:
            print_json({"changes": [str(change) for change in changed], "pipeline": written})
        else:
            state = "is" if changed else "was"
            out.print(f"Pipeline {written.slug} {state} as {file.name} says: version {written.version}.")

    _with_client(url, work)


async def _compared(client: PipelineClient, wanted: CreatePipeline) -> tuple[Pipeline | None, list[Change]]:
    from callsheet.cli.declarations import changes

    found = await client.pipeline(wanted.slug)
    named = {step.effect for step in wanted.steps if step.effect is not None} if found is not None else set()
    effects = {slug: str((await client.effect(slug)).id) for slug in sorted(named)}
    return found, changes(found, wanted, effects)


@pipelines.command("list")
def list_pipelines(url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """List your pipelines."""
    found = _with_client(url, lambda client: client.pipelines())
    if as_json:
        print_json(found)
    else:
        rows = [(row.slug, row.name, row.version, f"{row.updated_at:%Y-%m-%d %H:%M}") for row in found]
        print_table(("slug", "name", "version", "changed"), rows)


@runs.command("start")
def start_run(
    pipeline: str = typer.Argument(help="Short name of the pipeline."),
    name: str = typer.Option(..., help="What to call the run."),
    budget: int = typer.Option(..., help="The most tokens it may use up."),
    prompt: str | None = typer.Option(None, help="What {{prompt}} stands for."),
    variables: list[str] = typer.Option([], "--set", help="A variable of the run: KEY=VALUE, as JSON or text."),
    folder: str | None = typer.Option(None, help="Where its files go. Default: made of the name."),
    strategy: str = typer.Option("finish_first", help="finish_first or breadth_first."),
    seed: int | None = typer.Option(None, help="What everything it draws follows from. Default: a random one."),
    leaves: int | None = typer.Option(None, help="T: how many finished candidates to aim at."),
    children: int | None = typer.Option(None, help="N for every step, in place of the steps' own."),
    concurrency: int | None = typer.Option(None, help="Jobs at once."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Start a run."""
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
        variables=dict(_pair(each) for each in variables),
        **{key: value for key, value in given.items() if value is not None},
    )
    run = _with_client(url, lambda client: client.start_run(pipeline, wanted))
    if as_json:
        print_json(run)
    else:
        out.print(f"Run {run.id} is {_state(run)}, seed {run.seed}, files in {run.target_folder}.")


@runs.command("list")
def list_runs(
    pipeline: str | None = typer.Option(None, help="Only those of this pipeline."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List your runs, newest first."""
    found = _with_client(url, lambda client: client.runs(pipeline))
    if as_json:
        print_json(found)
        return
    rows = [(row.id, row.name, _state(row), row.candidates, f"{row.spent}/{row.budget}") for row in found]
    print_table(("id", "name", "status", "candidates", "tokens"), rows)


@runs.command("pause")
def pause_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Begin nothing more; what is under way comes to its end."""
    _changed(run, "pause", url, as_json)


@runs.command("resume")
def resume_run(run: str = RUN, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Go on with a run."""
    _changed(run, "resume", url, as_json)


def _changed(run_id: str, verb: str, url: str | None, as_json: bool) -> None:
    run: Run = _with_client(url, lambda client: client.change_run(run_id, verb))
    print_json(run) if as_json else out.print(f"Run {run.id} is {_state(run)}.")


def _state(run: RunSummary) -> str:
    return run.status.value if run.reason is None else f"{run.status.value} ({run.reason.value})"


def _pair(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise OperatorError(f"--set takes KEY=VALUE, not {text!r}.")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _agreed() -> bool:
    return sys.stdin.isatty() and typer.confirm("Write it?", default=True)


def _with_client(url: str | None, work: Callable[[PipelineClient], Awaitable[Result]]) -> Result:
    return asyncio.run(_asked(url, work))


async def _asked(url: str | None, work: Callable[[PipelineClient], Awaitable[Result]]) -> Result:
    from callsheet.cli.login import login_of
    from callsheet.cli.pipeline_client import PipelineClient
    from callsheet.settings import load_settings

    login = login_of(load_settings(**({"client": {"url": url}} if url is not None else {})))
    client = PipelineClient(login.url, login.api_key)
    async with client:
        return await work(client)
