"""`callsheet submit`, `callsheet task` and `callsheet watch`: what is asked for, and what comes of it. HTTP only."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

URL = typer.Option(None, "--url", help="Address of the control plane (client.url).")
OUTPUT = typer.Option(None, "--output", "-o", help="Where the result goes. Default: beside the file.")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")


def submit(
    effect: str = typer.Argument(help="Short name of the effect."),
    file: Path | None = typer.Argument(None, help="The video or image it is applied to, if it takes one."),
    values: list[str] = typer.Option([], "--set", help="A property of the effect: KEY=VALUE; a file by its path."),
    watch_it: bool = typer.Option(False, "--watch", help="Watch the job and fetch what it made."),
    output: Path | None = OUTPUT,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Apply an effect to a file."""
    from callsheet.cli.sending import client_of, submit_file

    asyncio.run(submit_file(client_of(url), effect, file, values, watch_it, output, as_json))


def task(
    actor: str = typer.Argument(help="Whom it is for."),
    values: list[str] = typer.Option(
        [], "--set", help="Of its payload: KEY=VALUE, such as product.title=Lamp. JSON where it is JSON, else text."
    ),
    queue: str = typer.Option("default", "--queue", help="The queue it goes to."),
    watch_it: bool = typer.Option(False, "--watch", help="Watch the task, and fetch or print what it made."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Where its files go. Default: here."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Ask an actor to do something: write copy, read a page, have a picture made."""
    from callsheet.cli.sending import client_of, submit_task
    from callsheet.cli.values import read_payload

    asyncio.run(submit_task(client_of(url), actor, read_payload(values), queue, watch_it, output, as_json))


def watch(
    job: str = typer.Argument(help="Id of the job or task."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Where the result goes. Default: here."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Watch a job or task to its end, and fetch or print what it made."""
    from callsheet.cli.sending import client_of, watch_job

    asyncio.run(watch_job(client_of(url), job, output, as_json))
