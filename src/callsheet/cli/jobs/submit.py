"""`callsheet submit`, `callsheet task` and `callsheet watch`: submit work and get its results. HTTP only."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

URL = typer.Option(None, "--url", help="URL of the control plane (client.url).")
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
CLIENT_REFERENCE = typer.Option(
    None,
    "--client-reference",
    help="What you call the job, for example the number of an order. Lists can filter by it.",
)
WEBHOOK_URL = typer.Option(
    None,
    "--webhook-url",
    help="Where events of this job are sent. It starts with the URL of an endpoint with the scope job.",
)
METADATA = typer.Option(
    [], "--metadata", help="A text of yours that the job keeps: KEY=VALUE. Lists can filter by it. Can be repeated."
)


def submit(
    effect: str = typer.Argument(help="Short name of the effect."),
    files: list[Path] | None = typer.Argument(
        None,
        metavar="[FILE]...",
        help="Video or image to apply the effect to, if the effect takes one. Several files are one batch.",
    ),
    values: list[str] = typer.Option(
        [], "--set", help="Set a property of the effect: KEY=VALUE. For a file, VALUE is its path."
    ),
    watch_it: bool = typer.Option(
        False, "--watch", help="Wait for the job, show its progress and download the result."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="File or directory for the result. Default: beside the input file; for several files, the directory "
        "batch-….",
    ),
    client_reference: str | None = CLIENT_REFERENCE,
    metadata: list[str] = METADATA,
    webhook_url: str | None = WEBHOOK_URL,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Apply an effect to a video or image, or to many of them at once."""
    from callsheet.cli.shared.sending import client_of, submit_file
    from callsheet.cli.shared.values import read_labels

    labels = read_labels(client_reference, metadata, webhook_url)
    if files and len(files) > 1:
        from callsheet.cli.shared.sending_batches import submit_files

        asyncio.run(submit_files(client_of(url), effect, files, values, watch_it, output, as_json, labels))
        return
    file = files[0] if files else None
    asyncio.run(submit_file(client_of(url), effect, file, values, watch_it, output, as_json, labels))


def quote(
    effect: str = typer.Argument(help="Short name of the effect."),
    file: Path | None = typer.Argument(
        None,
        help="Video or image to apply the effect to. It is uploaded only if the price depends on it.",
    ),
    values: list[str] = typer.Option(
        [], "--set", help="Set a property of the effect: KEY=VALUE. For a file, VALUE is its path."
    ),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Show what a job of an effect would cost and how long it would wait. Nothing is submitted."""
    from callsheet.cli.shared.quoting import quote_effect
    from callsheet.cli.shared.sending import client_of

    asyncio.run(quote_effect(client_of(url), effect, file, values, as_json))


def task(
    actor: str = typer.Argument(help="Name of the actor."),
    values: list[str] = typer.Option(
        [],
        "--set",
        help="Set a payload field: KEY=VALUE, such as product.title=Lamp. VALUE is parsed as JSON if possible.",
    ),
    queue: str = typer.Option("default", "--queue", help="Name of the queue."),
    watch_it: bool = typer.Option(False, "--watch", help="Wait for the task, and download or print the result."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="File or directory for the result. Default: the working directory."
    ),
    client_reference: str | None = CLIENT_REFERENCE,
    metadata: list[str] = METADATA,
    webhook_url: str | None = WEBHOOK_URL,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Submit a task to an actor, for example to write copy, read a web page or make an image."""
    from callsheet.cli.shared.sending import client_of, submit_task
    from callsheet.cli.shared.values import read_labels, read_payload

    payload = read_payload(values)
    labels = read_labels(client_reference, metadata, webhook_url)
    asyncio.run(submit_task(client_of(url), actor, payload, queue, watch_it, output, as_json, labels))


def watch(
    job: str = typer.Argument(help="Id of the job or task."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="File or directory for the result. Default: the working directory."
    ),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Follow a job or task until it ends, then download or print the result."""
    from callsheet.cli.shared.sending import client_of, watch_job

    asyncio.run(watch_job(client_of(url), job, output, as_json))
