"""The work of `callsheet submit` with several files, and of `callsheet batches`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import isdir
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from callsheet.cli.shared.console import err, out, print_json
from callsheet.cli.shared.display import BAR_WIDTH, transfer
from callsheet.cli.shared.operations_client import CommandClient
from callsheet.cli.shared.sending import check_input, find_effect
from callsheet.cli.shared.values import read_values
from callsheet.client import AsyncBatchHandle
from callsheet.client.batches import BatchItemValue
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.effects import MAX_ITEMS, Batch
from callsheet.wire.money.quotes import Quote
from callsheet.wire.plurals import counted


async def submit_files(
    client: CommandClient,
    slug: str,
    files: Sequence[Path],
    values: Sequence[str],
    watch_it: bool,
    output: Path | None,
    as_json: bool,
    labels: Mapping[str, Any],
) -> None:
    async with client:
        if len(files) > MAX_ITEMS:
            raise OperatorError(f"These are {counted(len(files), 'file')}. A batch has at most {MAX_ITEMS}.")
        if output is not None and not watch_it:
            raise OperatorError("--output needs --watch: only --watch fetches the results.")
        folder = checked_folder(output) if watch_it else None
        effect = await find_effect(client, slug)
        given = read_values(effect, values)
        for file in files:
            check_input(effect, file)
        shared = {key: each for key, each in given.items() if not isinstance(each, Path)}
        is_priced = _show_price(await client.quote_batch(slug, [{} for _ in files], values=shared))
        items: list[BatchItemValue] = [await _uploaded(client, file) for file in files]
        given = {key: await _uploaded(client, each) if isinstance(each, Path) else each for key, each in given.items()}
        if not is_priced:
            _show_price(await client.quote_batch(slug, items, values=given))
        batch = await client.batch(slug, items, values=given, **labels)
        if folder is not None:
            await finish(batch, folder, as_json)
        elif as_json:
            print_json(batch.now)
        else:
            out.print(
                f"Batch {batch.id} has {counted(batch.now.items, 'job')} for {counted(batch.now.cost, 'token')}. "
                f"Watch it: callsheet batches watch {batch.id}"
            )


def _show_price(quote: Quote) -> bool:
    """Whether the price is known. Raises if it is higher than the balance: before an hour of uploading, if possible."""
    if quote.cost is None:
        return False
    price = f"{counted(quote.jobs or 0, 'file')} for {counted(quote.cost, 'token')}"
    if quote.cost > quote.balance:
        raise OperatorError(f"{price}: you have {quote.balance}. Nothing was submitted.")
    err.print(f"{price}; you have {quote.balance}.")
    return True


async def watch_batch(client: CommandClient, batch_id: UUID, output: Path | None, as_json: bool) -> None:
    async with client:
        folder = checked_folder(output)
        await finish(await client.batch_of(batch_id), folder, as_json)


async def finish(batch: AsyncBatchHandle, output: Path | None, as_json: bool) -> None:
    """Watches to the end, and downloads the results into a folder."""
    folder = output or Path(f"batch-{str(batch.id)[-8:]}")
    try:
        with _progress(err, batch.now.items) as show:
            ended = await batch.wait(show)
    except asyncio.CancelledError:
        err.print(f"\nThe batch keeps running. To watch it again, run: callsheet batches watch {batch.id}")
        raise
    files: list[Path] = []
    if ended.counts.completed:
        await asyncio.to_thread(folder.mkdir, exist_ok=True)
        with transfer(err, f"Fetching into {folder}", None):
            files = await batch.save(folder)
    if as_json:
        print_json({**ended.model_dump(mode="json"), "files": [str(file) for file in files]})
    else:
        for file in files:
            out.print(str(file))
    if ended.counts.completed < ended.items:
        raise OperatorError(f"{outcome_of(ended)}{_retry_hint(ended)}")
    err.print(f"{outcome_of(ended)} The batch cost {counted(ended.cost, 'token')}.")


def outcome_of(batch: Batch) -> str:
    found = batch.counts.model_dump()
    parts = [f"{number} {name}" for name, number in found.items() if number]
    return f"{counted(batch.items, 'item')}: {', '.join(parts)}."


def _retry_hint(batch: Batch) -> str:
    can_retry = batch.counts.failed + batch.counts.expired > 0
    return f" Run the failed ones again: callsheet batches retry {batch.id}" if can_retry else ""


def checked_folder(output: Path | None) -> Path | None:
    """The folder for the results. It is checked before anything is submitted."""
    parent = Path() if output is None else output if isdir(output) else output.parent
    if output is not None and output.exists() and not isdir(output):
        raise OperatorError(f"{output} is a file. The results of a batch need a directory.")
    if not isdir(parent):
        raise OperatorError(f"There is no directory {parent}.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OperatorError(f"You may not write to the directory {parent}. Choose another one with --output.")
    return output


async def _uploaded(client: CommandClient, path: Path) -> Any:
    size = (await asyncio.to_thread(path.stat)).st_size
    with transfer(err, f"Uploading {path.name}", size) as count:
        return await client.upload(path, on_progress=count)


@contextmanager
def _progress(console: Console, items: int) -> Iterator[Callable[[Batch], object]]:
    if not console.is_terminal:
        console.print(f"Waiting for {counted(items, 'item')}")
        yield lambda batch: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(BAR_WIDTH))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Waiting", total=items)
        yield lambda batch: bar.update(task, completed=items - batch.counts.active, description=outcome_of(batch))
