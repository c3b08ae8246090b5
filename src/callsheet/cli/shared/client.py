"""A client of the HTTP API for commands: upload, submit, watch, fetch. Needs no server part."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import BaseModel, ValidationError

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.redirects import refuse_unsafe_redirect
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.base import Page
from callsheet.wire.effects import Effect
from callsheet.wire.errors import FieldProblem
from callsheet.wire.jobs import TERMINAL, Job, JobEvent, JobOutput, JobProgress
from callsheet.wire.media import CreatedUpload, File, UploadRequest, Video
from callsheet.wire.problems import Problem, ProblemField
from callsheet.wire.tasks import Task
from callsheet.wire.wallet import Credit, CreditResponse, Wallet

Model = TypeVar("Model", bound=BaseModel)
StreamItem = JobEvent | JobProgress
Counted = Callable[[int], object]

PIECE = 262_144
SECONDS = httpx.Timeout(60.0, connect=10.0)
# A stream without events sends a comment every 15 seconds.
SILENT_SECONDS = httpx.Timeout(45.0, connect=10.0)
ATTEMPTS = 5
# File extensions that some systems do not know, or map to another type.
TYPES = {
    ".mkv": "video/x-matroska",
    ".m4v": "video/mp4",
    ".ts": "video/mp2t",
    ".mts": "video/mp2t",
    ".3gp": "video/3gpp",
    ".wmv": "video/x-ms-wmv",
    ".webp": "image/webp",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
}
PASSING = frozenset({408, 502, 503, 504})
_random = Random()  # noqa: S311 (jitter)


class ServerRefusal(OperatorError):
    """The control plane refused the request. `code` is the stable name of the reason."""

    def __init__(self, sentence: str, code: str, status: int, errors: Sequence[ProblemField] = ()):
        super().__init__(sentence)
        self.code = code
        self.status = status
        self.errors = tuple(errors)


class Away(Exception):
    """The control plane cannot be reached, or asks to retry later."""


class StopWatching(Exception):
    """The job had already ended."""


class Client:
    def __init__(self, url: str, api_key: str):
        self.url = url
        self._lost: Callable[[str], object] = lambda reason: None
        headers = {"authorization": f"Bearer {api_key}", "user-agent": "callsheet"}
        options: dict[str, Any] = {"timeout": SECONDS, "trust_env": False, "verify": certificates()}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, **options)
        # A signed URL is enough, and the API key must not be sent to storage.
        hooks = {"response": [refuse_unsafe_redirect]}
        self._storage = httpx.AsyncClient(follow_redirects=True, event_hooks=hooks, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        await self._storage.aclose()

    def on_lost(self, hear: Callable[[str], object]) -> None:
        """Sets the function that is called when the stream of a job breaks and is opened again."""
        self._lost = hear

    async def effect(self, slug: str) -> Effect:
        return await self._ask(Effect, "GET", f"/api/effects/{_quoted(slug)}", attempts=1)

    async def effects(self) -> list[Effect]:
        return (await self._ask(Page[Effect], "GET", "/api/effects?limit=100")).items

    async def wallet(self) -> Wallet:
        return await self._ask(Wallet, "GET", "/api/wallet")

    async def credit(self, user_id: UUID, credit: Credit) -> CreditResponse:
        """Credits a user. Needs the key of an admin."""
        return await self._ask(CreditResponse, "POST", f"/api/admin/users/{user_id}/credits", credit.model_dump())

    async def job(self, job_id: str | UUID) -> Job:
        return await self._ask(Job, "GET", f"/api/ai-jobs/{_quoted(str(job_id))}")

    async def submit(self, effect: str, values: Mapping[str, Any], **fields: Any) -> Job:
        # The key is created once, so that a repeated request after a lost response does not create a second job.
        body = {"effect_id": effect, "input_payload": dict(values), "idempotency_key": uuid.uuid4().hex, **fields}
        return await self._ask(Job, "POST", "/api/ai-jobs", body)

    async def submit_task(
        self, actor: str, payload: Mapping[str, Any], queue_name: str, labels: Mapping[str, Any] | None = None
    ) -> Task:
        body = {
            "actor": actor,
            "payload": payload,
            "queue_name": queue_name,
            **(labels or {}),
            "idempotency_key": uuid.uuid4().hex,
        }
        return await self._ask(Task, "POST", "/api/task", body)

    async def task(self, task_id: str) -> Task:
        return await self._ask(Task, "GET", f"/api/task/{_quoted(task_id)}")

    async def upload(self, path: Path, counted: Counted) -> File:
        """Uploads and confirms a file."""
        mime_type = media_type(path)
        size, digest = await asyncio.to_thread(_measured, path)
        if size == 0:
            raise OperatorError(f"{path} is empty.")
        # File names need not be text.
        name = path.name.encode("utf-8", "replace").decode("utf-8")[:200]
        body = {"name": name, "mime_type": mime_type, "size": size, "sha256": digest}
        created = await self._ask(CreatedUpload, "POST", "/api/videos/uploads", body)
        await self.put(created.upload, path, size, counted)
        return await self._ask(File, "POST", f"/api/videos/uploads/{created.file.id}/confirm")

    async def video(self, file: File) -> Video:
        return await self._ask(Video, "POST", "/api/videos", {"original_file_id": str(file.id)})

    async def put(
        self, upload: UploadRequest, content: bytes | Path, size: int = 0, counted: Counted = lambda sent: None
    ) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            body = content if isinstance(content, bytes) else _pieces(content, counted)
            length = len(content) if isinstance(content, bytes) else size
            # The request has a length, because signed URLs of S3 accept no chunked body.
            headers = {**upload.headers, "content-length": str(length)}
            try:
                response = await self._storage.put(upload.url, content=body, headers=headers)
            except httpx.RequestError as error:
                if attempt == ATTEMPTS:
                    raise OperatorError(f"The upload was interrupted ({type(error).__name__}).") from None
            else:
                if response.is_success:
                    return
                if response.status_code not in PASSING or attempt == ATTEMPTS:
                    raise _refusal(response)
            await _pause(attempt)

    async def fetch(self, output: JobOutput, target: Path, counted: Counted) -> None:
        """Downloads a file. It gets its name only when it is complete and its checksum is right."""
        url = output.url
        if url is None:
            raise OperatorError(f"{output.name} cannot be fetched: it no longer exists.")

        async def all_of_it(part: Path) -> None:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    digest = await _download(self._storage, url, part, counted)
                    break
                except httpx.RequestError as error:
                    if attempt == ATTEMPTS:
                        raise OperatorError(f"The download was interrupted ({type(error).__name__}).") from None
                    await _pause(attempt)
            if output.sha256 is not None and digest != output.sha256:
                raise OperatorError(f"The download of {output.name} has a wrong checksum. Try again.")

        await _written(target, all_of_it)

    async def save(self, path: str, target: Path, counted: Counted) -> None:
        """Saves the whole response of the control plane at that URL. It is created for this request, so it cannot be
        resumed.
        """

        async def all_of_it(part: Path) -> None:
            try:
                await _download(self._http, path, part, counted)
            except httpx.RequestError as error:
                raise OperatorError(f"The download was interrupted ({type(error).__name__}). Try again.") from None

        await _written(target, all_of_it)

    async def events(self, job_id: str | UUID) -> AsyncGenerator[StreamItem, None]:
        """Yields everything that a job reports until it has ended. Continues at the last position if the connection
        breaks (G9).
        """
        last: str | None = None
        failures = 0
        while True:
            try:
                async with aclosing(self._stream(job_id, last)) as items:
                    async for position, item in items:
                        failures = 0
                        last = position or last
                        if item is None:
                            continue
                        yield item
                        if isinstance(item, JobEvent) and item.to_status in TERMINAL:
                            return
            except StopWatching:
                return
            except (httpx.TransportError, Away) as error:
                self._lost(str(error) or type(error).__name__)
            failures += 1
            await _pause(failures)

    async def _stream(
        self, job_id: str | UUID, last: str | None
    ) -> AsyncGenerator[tuple[str | None, StreamItem | None], None]:
        """Yields each message with its id; None for a reset, after which all events of the job follow again."""
        headers = {"last-event-id": last} if last else {}
        path = f"/api/ai-jobs/{_quoted(str(job_id))}/stream"
        async with self._http.stream("GET", path, headers=headers, timeout=SILENT_SECONDS) as response:
            if response.status_code == httpx.codes.NO_CONTENT:
                raise StopWatching
            if response.status_code != httpx.codes.OK:
                await response.aread()
                if response.status_code in PASSING:
                    raise Away(f"it returned the status {response.status_code}")
                raise _refusal(response)
            async for name, position, data in messages(response.aiter_lines()):
                if name == "progress":
                    yield None, JobProgress.model_validate_json(data)
                elif name.startswith("job."):
                    yield position, JobEvent.model_validate_json(data)
                elif name == "reset":
                    yield position, None

    async def _ask(
        self, model: type[Model], method: str, path: str, body: object = None, attempts: int = ATTEMPTS
    ) -> Model:
        return _read(model, await self._response(method, path, body, attempts), self.url)

    async def _response(self, method: str, path: str, body: object = None, attempts: int = ATTEMPTS) -> httpx.Response:
        """A response of success. A lost or late response is requested again."""
        for attempt in range(1, attempts + 1):
            try:
                response = await self._http.request(method, path, json=body)
            except httpx.TransportError as error:
                if attempt == attempts:
                    reason = type(error).__name__
                    raise OperatorError(
                        f"No control plane responds at {self.url} ({reason}). Check that it is running there."
                    ) from None
            else:
                if response.is_success:
                    return response
                if response.status_code not in PASSING or attempt == attempts:
                    raise _refusal(response)
            await _pause(attempt)
        raise AssertionError("the last attempt returns or raises")


async def _written(target: Path, write: Callable[[Path], Awaitable[None]]) -> None:
    """Writes a file, which gets its name only when it is complete."""
    # The temporary name is not derived from the name, which may have the maximum length.
    part = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        await write(part)
        part.replace(target)
    except OSError as error:
        raise OperatorError(f"{target} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


async def _download(http: httpx.AsyncClient, url: str, part: Path, counted: Counted) -> str:
    """Downloads the file and returns its checksum."""
    digest, got = hashlib.sha256(), 0
    async with http.stream("GET", url) as response:
        if not response.is_success:
            await response.aread()
            raise _refusal(response)
        with part.open("wb") as file:
            async for piece in response.aiter_bytes(PIECE):
                await asyncio.to_thread(file.write, piece)
                digest.update(piece)
                got += len(piece)
                counted(got)
    return digest.hexdigest()


async def messages(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str | None, str]]:
    """Server-sent events as (name, id, data); comments are left out."""
    name, position, data = "message", None, list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                position = value
            case "data":
                data.append(value)
            case "" if not line:
                if data:
                    yield name, position, "\n".join(data)
                name, position, data = "message", None, []


def media_type(path: Path) -> str:
    guessed = TYPES.get(path.suffix.lower()) or mimetypes.guess_type(path.name)[0]
    if guessed is None or guessed.partition("/")[0] not in ("image", "video", "audio"):
        raise OperatorError(
            f"{path} does not have the extension of a video, image or audio file, for example .mp4 or .png."
        )
    return guessed


def _measured(path: Path) -> tuple[int, str]:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}.") from None


async def _pieces(path: Path, counted: Counted) -> AsyncIterator[bytes]:
    sent = 0
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
            sent += len(piece)
            counted(sent)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _read(model: type[Model], response: httpx.Response, url: str) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError:
        raise OperatorError(f"The server at {url} does not respond like Callsheet. Check the URL.") from None


def _refusal(response: httpx.Response) -> ServerRefusal:
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        where = response.request.url.host
        return ServerRefusal(f"{where} returned the status {response.status_code}.", "unknown", response.status_code)
    return ServerRefusal(sentence_of(problem), problem.code, problem.status, problem.errors or ())


def sentence_of(problem: Problem) -> str:
    if problem.code == "not_authenticated":
        return (
            "The API key is missing, wrong or revoked. Log in with another one: callsheet login. "
            "To create one on the control plane, run: callsheet keys create --user EMAIL"
        )
    if problem.errors:
        # The names are as they were written on the command line.
        return " ".join(str(FieldProblem(_as_written(each.field), each.reason)) for each in problem.errors)
    return f"{problem.title} {problem.detail}" if problem.detail else problem.title


def _as_written(field: str) -> str:
    return field.removeprefix("input_payload.").removeprefix("payload.")


async def _pause(attempt: int) -> None:
    await asyncio.sleep(backoff_seconds(attempt, 0.2, 5.0, _random))
