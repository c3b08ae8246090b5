"""The work of `callsheet submit`, `task` and `watch`: upload, submit, follow, fetch, and report the cost."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from os.path import isdir, isfile
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from callsheet.cli.shared.console import err, out, print_json
from callsheet.cli.shared.display import STAGES, TASK_STAGES, JobDisplay, transfer
from callsheet.cli.shared.login import login_for
from callsheet.cli.shared.operations_client import CommandClient
from callsheet.cli.shared.refusals import sentence_of
from callsheet.cli.shared.values import read_values, with_article
from callsheet.client import AsyncJobHandle, AsyncResultFile
from callsheet.client.requests import quoted
from callsheet.client.transfers import media_type
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.file_names import named_as
from callsheet.wire.effects import Effect
from callsheet.wire.errors import CallsheetError, InvalidRequest, NotFound
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.media import File, Video
from callsheet.wire.plurals import counted
from callsheet.wire.tasks import Task, job_id_of, response_of

# Maximum in bytes. A file name has 255, and the slug of an effect up to 100.
MAX_STEM_LENGTH = 130
# If a job waits, the reason is requested after this time, and again at this interval.
EXPLAIN_SECONDS = 3.0


def client_of(url: str | None) -> CommandClient:
    login = login_for(url)
    return CommandClient(login.url, login.api_key)


async def submit_file(
    client: CommandClient,
    slug: str,
    file: Path | None,
    values: Sequence[str],
    watch_it: bool,
    output: Path | None,
    as_json: bool,
    labels: Mapping[str, Any] | None = None,
) -> None:
    async with client:
        effect = await find_effect(client, slug)
        given = read_values(effect, values)
        check_input(effect, file)
        beside = file.with_name(f"{shortened(file.stem)}-{slug}") if file is not None else Path(slug)
        place = _place(output, beside, watch_it)
        await require_tokens(client, effect)
        job = await send(client, effect, file, given, labels)
        if place is not None:
            await _finish(client, job, *place, as_json)
        elif as_json:
            await _print_json(client, job.now)
        else:
            out.print(f"Job {job.id} is {job.status.value}. Watch it: callsheet watch {job.id}")


async def submit_task(
    client: CommandClient,
    actor: str,
    payload: Mapping[str, Any],
    queue_name: str,
    watch_it: bool,
    output: Path | None,
    as_json: bool,
    labels: Mapping[str, Any] | None = None,
) -> None:
    async with client:
        place = _place(output, Path(re.sub(r"[^A-Za-z0-9_-]", "_", shortened(actor))), watch_it)
        body = {"actor": actor, "payload": payload, "queue_name": queue_name, **(labels or {})}
        task = await client.post(Task, "/api/task", body)
        if place is not None:
            await _finish(client, await client.job(task.job_id), *place, as_json, task.task_id)
        elif as_json:
            await _print_json(client, task)
        else:
            out.print(f"Task {task.task_id} is {task.status.value}. Watch it: callsheet watch {task.task_id}")


async def watch_job(client: CommandClient, job_id: str, output: Path | None, as_json: bool) -> None:
    async with client:
        target, exact = target_of(output, Path(f"job-{job_id[-8:]}"))
        job = await client.job(_job_id(job_id))
        await _finish(client, job, target, exact, as_json, job_id if job_id_of(job_id) else None)


def _place(output: Path | None, default: Path, watch_it: bool) -> tuple[Path, bool] | None:
    if output is not None and not watch_it:
        raise OperatorError("--output needs --watch: only --watch fetches the result.")
    return target_of(output, default) if watch_it else None


def target_of(output: Path | None, default: Path) -> tuple[Path, bool]:
    """The path of the result, and whether it is the complete name. It is checked before the job is submitted."""
    chosen = default if output is None else output / default.name if isdir(output) else output
    if not isdir(chosen.parent):
        raise OperatorError(f"There is no directory {chosen.parent}.")
    if not os.access(chosen.parent, os.W_OK | os.X_OK):
        raise OperatorError(f"You may not write to the directory {chosen.parent}. Choose another one with --output.")
    return chosen, output is not None and chosen is output


def _job_id(text: str) -> UUID:
    try:
        return job_id_of(text) or UUID(text)
    except ValueError:
        raise OperatorError(f"{text!r} is not the id of a job or task.") from None


async def _print_json(client: CommandClient, shown: Job | Task, files: Sequence[Path] = ()) -> None:
    """Prints the same form, watched or not: the job or task, the downloaded files, and the balance."""
    balance = (await client.wallet()).balance
    print_json({**shown.model_dump(mode="json"), "files": [str(file) for file in files], "balance": balance})


async def _finish(
    client: CommandClient, job: AsyncJobHandle, target: Path, exact: bool, as_json: bool, task_id: str | None = None
) -> None:
    """Watches to the end, downloads, and reports the cost. A task is printed as a task."""
    try:
        ended = await follow(job, JobDisplay(err, STAGES if job.now.effect_id is not None else TASK_STAGES))
    except asyncio.CancelledError:
        err.print(f"\nThe job keeps running. To watch it again, run: callsheet watch {job.id}")
        raise
    if ended.status is not JobStatus.COMPLETED:
        if as_json:
            await _print_json(client, ended if task_id is None else await _task(client, task_id))
        raise OperatorError(_ending(ended))
    try:
        files = await fetch_all(job, target, exact)
    except CallsheetError as error:
        raise OperatorError(
            f"{sentence_of(error)} The job is done; fetch it with: callsheet watch {job.id} -o DIRECTORY"
        ) from None
    if as_json:
        await _print_json(client, ended if task_id is None else await _task(client, task_id), files)
        return
    balance = (await client.wallet()).balance
    for file in files:
        out.print(str(file))
    if not files and ended.result:
        print_json(response_of(ended.result))
    err.print(f"The job cost {counted(ended.cost, 'token')}. You have {balance} left.")


async def _task(client: CommandClient, task_id: str) -> Task:
    return await client.ask(Task, "GET", f"/api/task/{quoted(task_id)}")


async def find_effect(client: CommandClient, slug: str) -> Effect:
    try:
        effect = await client.effect(slug)
    except (NotFound, InvalidRequest):
        offered = ", ".join(sorted(each.slug for each in await client.effects()))
        raise OperatorError(f"There is no effect {slug!r}. Available: {offered or 'none'}.") from None
    if not effect.is_available:
        raise OperatorError(f"{slug} currently accepts no jobs: its workflow is switched off.")
    return effect


def check_input(effect: Effect, file: Path | None) -> None:
    """Checks the file before anything is sent, not after an hour of uploading."""
    if effect.input is None:
        if file is not None:
            raise OperatorError(f"{effect.slug} takes no file. Leave {file} out.")
        return
    if file is None:
        raise OperatorError(f"{effect.slug} works on {with_article(effect.input.type)}: name the file.")
    if not isfile(file):
        raise OperatorError(f"There is no file {file}.")
    kind = media_type(file)
    if not kind.startswith(f"{effect.input.type}/"):
        raise OperatorError(f"{effect.slug} works on {with_article(effect.input.type)}; {file} is {kind}.")
    max_bytes = effect.input.max_bytes
    if max_bytes is not None and file.stat().st_size > max_bytes:
        raise OperatorError(f"{file} is too large: {effect.slug} accepts at most {counted(max_bytes, 'byte')}.")


async def require_tokens(client: CommandClient, effect: Effect) -> None:
    balance, cost = (await client.wallet()).balance, effect.credits_cost
    if balance < cost:
        raise OperatorError(f"{effect.slug} costs {counted(cost, 'token')}, and you have {balance}.")


async def send(
    client: CommandClient,
    effect: Effect,
    file: Path | None,
    values: Mapping[str, Any],
    labels: Mapping[str, Any] | None = None,
) -> AsyncJobHandle:
    """Uploads the files and submits the job."""
    given = dict(values)
    for key, value in values.items():
        if isinstance(value, Path):
            given[key] = (await uploaded(client, value)).id
    main: UUID | Video | None = None
    if file is not None:
        main = (await uploaded(client, file)).id
    if main is not None and effect.input is not None and effect.input.type == "video":
        main = await client.post(Video, "/api/videos", {"original_file_id": str(main)})
    return await client.submit(effect.slug, file=main, values=given, **(labels or {}))


async def uploaded(client: CommandClient, path: Path) -> File:
    size = (await asyncio.to_thread(path.stat)).st_size
    with transfer(err, f"Uploading {path.name}", size) as counted:
        return await client.upload(path, on_progress=counted)


async def follow(job: AsyncJobHandle, display: JobDisplay) -> Job:
    """The job when it has ended. However long the control plane is away, a person decides when to give up."""
    with display:
        explaining = asyncio.create_task(_explain(job, display))
        try:
            async with aclosing(job.stream(display.lost, math.inf)) as events:
                async for event in events:
                    display.show(event)
        finally:
            explaining.cancel()
            await asyncio.gather(explaining, return_exceptions=True)
    return await job.refresh()


async def _explain(job: AsyncJobHandle, display: JobDisplay) -> None:
    """Shows why a job waits: an operator may have to start a worker."""
    while True:
        await asyncio.sleep(EXPLAIN_SECONDS)
        if display.stage != "queue":
            continue
        # The stream reports any error.
        with suppress(CallsheetError):
            now = await job.refresh()
            if now.why_waiting is not None:
                display.waits(now.why_waiting.message)


async def fetch_all(job: AsyncJobHandle, target: Path, exact: bool) -> list[Path]:
    """Downloads every file of the job: the first to `target`, with an extension if `target` has none."""
    files = []
    for number, output in enumerate(job.files):
        path = target if exact and number == 0 else free_name(target.with_name(target.name + _ending_of(output)))
        with transfer(err, f"Fetching {path.name}", output.size) as counted:
            await output.save(path, counted)
        files.append(path)
    return files


def shortened(stem: str) -> str:
    """Shortens a name so that effect, number and extension fit into a file name."""
    name = os.fsencode(stem)
    return stem if len(name) <= MAX_STEM_LENGTH else name[:MAX_STEM_LENGTH].decode("utf-8", "ignore")


def free_name(path: Path) -> Path:
    """The path, or the first free one of name-2, name-3 and so on."""
    number, chosen = 1, path
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return chosen


def _ending_of(output: AsyncResultFile) -> str:
    """The extension of an output: that of its name, which another person chose, if it fits the type."""
    return PurePosixPath(named_as(output.name, output.mime_type)).suffix.lower()


def _ending(job: Job) -> str:
    reason = f": {job.error.message.rstrip('.')}" if job.error is not None else ""
    return f"Job {job.id} {'was' if job.status is JobStatus.CANCELED else 'has'} {job.status.value}{reason}. " + (
        f"{counted(job.cost, 'token was', 'tokens were')} refunded." if job.cost else "It cost nothing."
    )
