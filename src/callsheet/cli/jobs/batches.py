"""`callsheet batches`: many jobs of one effect that were submitted together. HTTP only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import typer

from callsheet.cli.jobs.submit import AS_JSON, URL
from callsheet.cli.shared.console import moment, out, print_json, print_table
from callsheet.toolbox.errors import OperatorError

if TYPE_CHECKING:
    from callsheet.cli.shared.operations_client import OperationsClient
    from callsheet.wire.effects import Batch

Result = TypeVar("Result")
batches = typer.Typer(help="Your batches: list, show, watch, cancel, retry, download.", no_args_is_help=True)
BATCH = typer.Argument(metavar="BATCH", help="Id of the batch.")


@batches.command("list")
def list_batches(
    limit: int = typer.Option(20, min=1, max=10_000, help="How many batches to list, newest first."),
    status: str | None = typer.Option(None, help="Only batches of this status: `running` or `finished`."),
    effect: str | None = typer.Option(None, help="Only batches of this effect: its id or slug."),
    reference: str | None = typer.Option(None, help="Only batches with this client reference."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List batches, newest first."""
    from callsheet.wire.effects import Batch

    filters = {"status": status, "effect": effect, "client_reference": reference}
    found = _with_operations(url, lambda client: client.first_of(Batch, "/api/batches", limit, **filters))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each.id,
            each.title,
            each.status,
            f"{each.items - each.counts.active}/{each.items}",
            each.cost,
            moment(each.created_at),
        )
        for each in found
    ]
    print_table(("id", "effect", "status", "ended", "cost", "created"), rows)


@batches.command("show")
def show_batch(batch: str = BATCH, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Show a batch: how many of its items have ended, and how."""
    batch_id = read_batch_id(batch)

    async def ask(client: OperationsClient) -> Batch:
        return (await client.batch_of(batch_id)).now

    _print(_with_operations(url, ask), as_json)


@batches.command("watch")
def watch_batch(
    batch: str = BATCH,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Directory for the results. Default: batch-… in the working directory."
    ),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Follow a batch until all items have ended, then download the results."""
    from callsheet.cli.shared import sending_batches
    from callsheet.cli.shared.sending import client_of

    asyncio.run(sending_batches.watch_batch(client_of(url), read_batch_id(batch), output, as_json))


@batches.command("cancel")
def cancel_batch(batch: str = BATCH, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Cancel the items that have not ended. Their tokens are refunded."""
    batch_id = read_batch_id(batch)

    async def ask(client: OperationsClient) -> Batch:
        return await (await client.batch_of(batch_id)).cancel()

    _print(_with_operations(url, ask), as_json)


@batches.command("retry")
def retry_batch(batch: str = BATCH, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """Run the failed and expired items again. Their tokens are reserved again."""
    batch_id = read_batch_id(batch)

    async def ask(client: OperationsClient) -> Batch:
        return await (await client.batch_of(batch_id)).retry()

    _print(_with_operations(url, ask), as_json)


@batches.command("download")
def download_batch(
    batch: str = BATCH,
    output: Path | None = typer.Option(None, "--output", "-o", help="Name of the zip. Default: batch-….zip."),
    url: str | None = URL,
) -> None:
    """Download all results as one zip."""
    batch_id = read_batch_id(batch)
    target = output or Path(f"batch-{str(batch_id)[-8:]}.zip")

    async def ask(client: OperationsClient) -> Path:
        return await (await client.batch_of(batch_id)).save_archive(target)

    out.print(str(_with_operations(url, ask)))


def read_batch_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise OperatorError(f"{text!r} is not the id of a batch.") from None


def _print(batch: Batch, as_json: bool) -> None:
    from callsheet.cli.shared.sending_batches import outcome_of

    if as_json:
        print_json(batch)
    else:
        out.print(f"Batch {batch.id} of {batch.title} is {batch.status}. {outcome_of(batch)}")


def _with_operations(url: str | None, work: Callable[[OperationsClient], Awaitable[Result]]) -> Result:
    from callsheet.cli.shared.operations_client import with_operations

    return with_operations(url, work)
