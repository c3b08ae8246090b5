"""Files on their way: uploads to signed URLs, and downloads that get their name only when they are complete."""

from __future__ import annotations

import hashlib
import mimetypes
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from callsheet.client.errors import Unreachable, UnusableFile, refusal_of
from callsheet.client.requests import Patience, Requests
from callsheet.client.transport import PIECE, Counted
from callsheet.wire.errors import CallsheetError, WrongState
from callsheet.wire.jobs import JobOutput
from callsheet.wire.media import CreatedUpload, File, SignedParts, UploadParts, UploadRequest

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
MAX_NAME_LENGTH = 200
FORBIDDEN = 403
PARTS_AT_ONCE = 4
# Responses of the storage if the parts have been joined or removed.
ENDED = frozenset({404, 409, 410})


def not_counted(done: int, total: int) -> None:
    """For callers without a progress bar."""


@dataclass(frozen=True, slots=True)
class Transfers:
    requests: Requests

    async def upload(self, source: Path | bytes, name: str | None, counted: Counted) -> File:
        """Uploads and confirms a file."""
        if isinstance(source, bytes) and name is None:
            raise UnusableFile("Bytes need a name with an extension, for example name='photo.png'.")
        path = Path(name) if name is not None else source
        assert isinstance(path, Path)
        mime_type = media_type(path)
        size, digest = await self.requests.transport.work(_measured, source)
        if size == 0:
            raise UnusableFile(f"{path} is empty.")
        # File names need not be text.
        shown = path.name.encode("utf-8", "replace").decode("utf-8")[:MAX_NAME_LENGTH]
        # The same file continues the same upload.
        body = {"name": shown, "mime_type": mime_type, "size": size, "sha256": digest, "resume_key": digest}
        created = await self.requests.ask(
            CreatedUpload, "POST", "/api/videos/uploads", body, idempotency_key=uuid.uuid4().hex
        )
        path_of_file = f"/api/videos/uploads/{created.file.id}"
        if created.upload is not None:
            await self.put(created.upload, source, size, counted)
        elif created.parts is not None:
            await self._put_parts(f"{path_of_file}/parts", created.parts, source, size, counted)
        return await self.requests.ask(File, "POST", f"{path_of_file}/confirm", repeat=True)

    async def put(self, upload: UploadRequest, source: Path | bytes, size: int, counted: Counted = not_counted) -> None:
        patience = Patience(self.requests.retry_seconds)
        while (error := await self._put_once(upload, source, 0, size, counted)) is not None:
            await self.requests.pause(patience, error)
        counted(size, size)

    async def _put_once(
        self, upload: UploadRequest, source: Path | bytes, start: int, size: int, counted: Counted
    ) -> CallsheetError | None:
        """Why it failed; None if the bytes have arrived."""
        transport = self.requests.transport
        content: Any
        if isinstance(source, bytes):
            content = source[start : start + size]
        else:
            content = transport.body(source, start, size, counted)
        # The request has a length, because signed URLs of S3 accept no chunked body.
        headers = {**upload.headers, "content-length": str(size)}
        request = transport.storage.build_request("PUT", upload.url, content=content, headers=headers)
        try:
            response = await transport.send(request, is_stored=True)
        except httpx.RequestError as lost:
            return Unreachable(f"The upload was interrupted ({type(lost).__name__}).")
        return None if response.is_success else refusal_of(response)

    async def _put_parts(
        self, path: str, parts: UploadParts, source: Path | bytes, size: int, counted: Counted
    ) -> None:
        """Uploads the parts that have not arrived, several at a time."""
        arrived = {part.number for part in parts.arrived}
        missing, sent = [], 0
        for number in range(1, parts.count + 1):
            start = (number - 1) * parts.part_bytes
            length = min(parts.part_bytes, size - start)
            if number in arrived:
                sent += length
            else:
                missing.append(partial(self._put_part, path, number, source, start, length))
        counted(sent, size)
        async for length in self.requests.transport.together(missing, PARTS_AT_ONCE):
            sent += length
            counted(sent, size)

    async def _put_part(self, path: str, number: int, source: Path | bytes, start: int, length: int) -> int:
        """Returns the length. The URL is requested for each attempt, so that it has not expired. If the upload takes no
        more parts, for example because another program has confirmed it, the confirmation knows why."""
        digest = await self.requests.transport.work(_digest, source, start, length)
        body = {"parts": [{"number": number, "sha256": digest}]}
        patience = Patience(self.requests.retry_seconds)
        while True:
            try:
                signed = (await self.requests.ask(SignedParts, "POST", path, body, repeat=True)).parts[0]
            except CallsheetError as refusal:
                if getattr(refusal, "code", None) != WrongState.code:
                    raise
                return length
            error = await self._put_once(signed.upload, source, start, length, not_counted)
            if error is None or getattr(error, "status", None) in ENDED:
                return length
            await self.requests.pause(patience, error)

    async def read(self, output: JobOutput) -> bytes:
        content = BytesIO()
        await self._fetch(output, content, not_counted)
        return content.getvalue()

    async def save(self, output: JobOutput, target: Path, counted: Counted) -> None:
        """Downloads a file of a job. It gets its name only when its checksum is right."""

        async def all_of_it(part: Path) -> None:
            with part.open("wb") as file:
                await self._fetch(output, file, counted)

        await _written(target, all_of_it)

    async def save_response(self, path: str, target: Path, counted: Counted) -> None:
        """Saves the whole response of the control plane at that URL. It is created for this request, so it is not
        requested again.
        """

        async def all_of_it(part: Path) -> None:
            try:
                with part.open("wb") as file:
                    await self._download(path, file, counted, is_stored=False)
            except httpx.RequestError as lost:
                raise Unreachable(f"The download was interrupted ({type(lost).__name__}). Try again.") from None

        await _written(target, all_of_it)

    async def _fetch(self, output: JobOutput, target: BinaryIO, counted: Counted) -> None:
        if output.url is None:
            raise UnusableFile(f"{output.name} cannot be fetched: it no longer exists.")
        patience, url, is_fresh = Patience(self.requests.retry_seconds), output.url, False
        while True:
            error: CallsheetError
            try:
                digest = await self._download(url, target, counted)
                break
            except httpx.RequestError as lost:
                error = Unreachable(f"The download was interrupted ({type(lost).__name__}).")
            except CallsheetError as refused:
                error = refused
            if getattr(error, "status", None) == FORBIDDEN and not is_fresh:
                # The URL has expired since the job was read.
                file = await self.requests.ask(File, "GET", f"/api/files/{output.file_id}")
                url, is_fresh = file.url or url, True
                continue
            await self.requests.pause(patience, error)
        if output.sha256 is not None and digest != output.sha256:
            raise UnusableFile(f"The download of {output.name} has a wrong checksum. Try again.")

    async def _download(self, url: str, target: BinaryIO, counted: Counted, *, is_stored: bool = True) -> str:
        """Downloads the file and returns its checksum."""
        transport = self.requests.transport
        http = transport.storage if is_stored else transport.api
        response = await transport.send(http.build_request("GET", url), is_stored=is_stored, stream=True)
        try:
            if not response.is_success:
                await transport.read(response)
                raise refusal_of(response)
            digest, got = hashlib.sha256(), 0
            length = response.headers.get("content-length", "")
            size = int(length) if length.isdigit() else 0
            target.seek(0)
            target.truncate()
            async for piece in transport.pieces(response):
                await transport.work(target.write, piece)
                digest.update(piece)
                got += len(piece)
                counted(got, max(got, size))
        finally:
            await transport.leave(response)
        return digest.hexdigest()


async def _written(target: Path, write: Callable[[Path], Awaitable[None]]) -> None:
    """Writes a file, which gets its name only when it is complete."""
    # The temporary name is not derived from the name, which may have the maximum length.
    part = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        await write(part)
        part.replace(target)
    except OSError as error:
        raise UnusableFile(f"{target} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def media_type(path: Path) -> str:
    guessed = TYPES.get(path.suffix.lower()) or mimetypes.guess_type(path.name)[0]
    if guessed is None or guessed.partition("/")[0] not in ("image", "video", "audio"):
        raise UnusableFile(
            f"{path} does not have the extension of a video, image or audio file, for example .mp4 or .png."
        )
    return guessed


def _digest(source: Path | bytes, start: int, length: int) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(memoryview(source)[start : start + length]).hexdigest()
    digest, left = hashlib.sha256(), length
    try:
        with source.open("rb") as file:
            file.seek(start)
            while piece := file.read(min(PIECE, left)):
                digest.update(piece)
                left -= len(piece)
    except OSError as error:
        raise UnusableFile(f"{source} cannot be read: {error.strerror}.") from None
    return digest.hexdigest()


def _measured(source: Path | bytes) -> tuple[int, str]:
    if isinstance(source, bytes):
        return len(source), hashlib.sha256(source).hexdigest()
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest
    except OSError as error:
        raise UnusableFile(f"{source} cannot be read: {error.strerror}.") from None
