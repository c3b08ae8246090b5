"""`callsheet pipelines`: pipelines that are declared in files. HTTP only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.shared.console import err, out, print_json, print_table, require_consent

if TYPE_CHECKING:
    from callsheet.cli.shared.pipeline_client import PipelineClient
    from callsheet.wire.pipelines.pipelines import Pipeline

Result = TypeVar("Result")

pipelines = typer.Typer(
    help="Pipelines: steps that make candidates from the candidates of the step before.", no_args_is_help=True
)

URL = typer.Option(None, "--url", help="URL of the control plane (client.url).")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")


@pipelines.command("apply")
def apply(
    file: Path = typer.Argument(help="A TOML file that declares a pipeline."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Apply the changes without confirmation."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the changes and write nothing."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Create or update a pipeline from a file. Running runs keep the steps they started with."""
    from callsheet.cli.jobs.declarations import changes, read_declaration

    wanted = read_declaration(file)

    async def work(client: PipelineClient) -> None:
        found = await client.pipeline(wanted.slug)
        write = client.create_pipeline if found is None else client.update_pipeline
        # The control plane returns the pipeline as it would be, with slugs and effects, or the errors of the file.
        planned = await write(wanted, dry_run=True)
        changed = changes(found, planned)
        for change in changed:
            err.print(str(change))
        if changed and not dry_run:
            require_consent("Write it?", "written", yes, "write it", default=True)
            planned = await write(wanted)
        if as_json:
            print_json({"changes": [str(change) for change in changed], "pipeline": planned})
        else:
            out.print(_outcome(found, planned, bool(changed), dry_run))

    with_client(url, work)


@pipelines.command("list")
def list_pipelines(url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """List your pipelines."""
    found = with_client(url, lambda client: client.pipelines())
    if as_json:
        print_json(found)
    else:
        rows = [(row.slug, row.name, row.version, f"{row.updated_at:%Y-%m-%d %H:%M}") for row in found]
        print_table(("slug", "name", "version", "changed"), rows)


def with_client(url: str | None, work: Callable[[PipelineClient], Awaitable[Result]]) -> Result:
    return asyncio.run(_with_client(url, work))


async def _with_client(url: str | None, work: Callable[[PipelineClient], Awaitable[Result]]) -> Result:
    from callsheet.cli.shared.login import login_for
    from callsheet.cli.shared.pipeline_client import PipelineClient

    login = login_for(url)
    client = PipelineClient(login.url, login.api_key)
    async with client:
        return await work(client)


def _outcome(found: Pipeline | None, planned: Pipeline, changed: bool, dry_run: bool) -> str:
    if not changed:
        return f"No change: {planned.slug} is at version {planned.version}."
    if dry_run:
        return f"Nothing was written. Pipeline {planned.slug} would be at version {planned.version}."
    return f"{'Created' if found is None else 'Updated'} pipeline {planned.slug} (version {planned.version})."
