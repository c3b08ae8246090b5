"""Uploads in parts: signed URLs for each part, what has arrived, and the whole file made of its parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.media.deletion import MarkedFile
from callsheet.media.files import SQL, FileRow, Files
from callsheet.media.storage.port import StoredPart, discard, discard_parts
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import StorageSettings
from callsheet.toolbox.disk_space import MEBIBYTE
from callsheet.wire.errors import ContentMismatch, FieldProblem, InvalidRequest, NotFound, Refusal, WrongState
from callsheet.wire.media import (
    ArrivedPart,
    CreateUpload,
    PartToSign,
    SignedPart,
    SignedParts,
    UploadParts,
    UploadRequest,
)
from callsheet.wire.plurals import counted

# As many as S3 lists in one page.
MAX_PARTS = 1000
# Numbers of parts that a sentence names.
MAX_NAMED = 10


class PartsRow(NamedTuple):
    part_bytes: int
    # None until the first URL of a part is signed.
    parts_id: str | None
    # The declared parts, in order.
    numbers: Sequence[int]
    checksums: Sequence[str]


def part_bytes_of(size: int, settings: StorageSettings) -> int:
    """The settings' size of a part, or more if the file had too many parts: then a whole number of MiB."""
    least = -(-size // MAX_PARTS)
    return max(settings.part_bytes, -(-least // MEBIBYTE) * MEBIBYTE)


def part_size(size: int, part_bytes: int, number: int) -> int:
    """0 or less if the file has no such part."""
    return min(part_bytes, size - (number - 1) * part_bytes)


def resume_key_of(wanted: CreateUpload) -> str:
    """The same for the same request only: the bytes of another file never continue an upload."""
    declared = [wanted.resume_key, wanted.name, wanted.mime_type, wanted.size, wanted.sha256]
    return hashlib.sha256(json.dumps(declared).encode()).hexdigest()


class PartUploads:
    def __init__(self, files: Files):
        self._files = files

    async def state(self, principal: Principal, file_id: UUID) -> UploadParts:
        row = await self._pending(principal, file_id)
        return await self.described(principal, row)

    async def described(self, principal: Principal, row: FileRow) -> UploadParts:
        """How a pending file is uploaded, and what has arrived."""
        declared = await self._declared(principal, row)
        arrived = await self._arrived(row, declared)
        if not arrived and declared.parts_id is not None:
            if await self._files.storage.head(row.path) is not None:
                # They were joined, and the confirmation did not end.
                arrived = set(declared.numbers)
            elif arrived is None:
                await self._start_again(principal, row, declared.parts_id)
        parts = zip(declared.numbers, declared.checksums, strict=True)
        return UploadParts(
            part_bytes=declared.part_bytes,
            count=-(-row.size // declared.part_bytes),
            arrived=[
                ArrivedPart(number=number, sha256=sha256) for number, sha256 in parts if number in (arrived or ())
            ],
        )

    async def sign(self, principal: Principal, file_id: UUID, wanted: Sequence[PartToSign]) -> SignedParts:
        """Signs URLs for these parts. The checksum of a part is kept before its URL exists, and never changes."""
        row = await self._pending(principal, file_id)
        declared = await self._declared(principal, row)
        numbers, checksums = [part.number for part in wanted], [part.sha256 for part in wanted]
        sizes = [part_size(row.size, declared.part_bytes, number) for number in numbers]
        self._check(row, declared, numbers, sizes)
        of_file = {"tenant_id": row.tenant_id, "file_id": row.id}
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection, connection.transaction():
            await SQL["declare_parts"].run(connection, **of_file, numbers=numbers, checksums=checksums)
            other = await SQL["parts_declared_otherwise"].column(
                connection, **of_file, numbers=numbers, checksums=checksums
            )
            if other:
                # Nothing of the request is kept.
                raise _other_bytes(other)
        upload_id = declared.parts_id or await self._start(principal, row)
        storage = self._files.storage.parts
        signed = []
        for number, size, sha256 in zip(numbers, sizes, checksums, strict=True):
            request = storage.presign(row.path, upload_id, number, size=size, sha256=sha256)
            upload = UploadRequest(
                method="PUT", url=request.url, headers=dict(request.headers), expires_at=request.expires_at
            )
            signed.append(SignedPart(number=number, size=size, upload=upload))
        return SignedParts(parts=signed)

    @staticmethod
    def _check(row: FileRow, declared: PartsRow, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        if len(set(numbers)) < len(numbers):
            raise InvalidRequest.field("parts", "Each part must be there once.")
        if min(sizes) <= 0:
            count = -(-row.size // declared.part_bytes)
            raise InvalidRequest.field(
                "parts", f"The file has {counted(count, 'part')}, so {max(numbers)} is too high."
            )

    async def _start(self, principal: Principal, row: FileRow) -> str:
        """The id of the upload at the storage. If two requests start it, the first one counts; what the other one
        started is aborted when the upload ends."""
        started = await self._files.storage.parts.start(row.path, content_type=row.mime_type)
        await hit(Failpoint.PARTS_STARTED_BEFORE_ROW)
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            kept = await SQL["start_parts"].value(connection, tenant_id=row.tenant_id, file_id=row.id, parts_id=started)
        if kept is None:
            await discard_parts(self._files.storage, [row.path])
            raise NotFound("There is no such file.")
        return str(kept)

    async def _start_again(self, principal: Principal, row: FileRow, lost: str) -> None:
        """The service has removed the upload, for example by a rule of the bucket. The next URL starts another one."""
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            await SQL["forget_start"].run(connection, tenant_id=row.tenant_id, file_id=row.id, parts_id=lost)

    async def join(self, principal: Principal, row: FileRow) -> None:
        """Makes the file of its parts, unless that was done. Raises ContentMismatch if some are missing."""
        storage = self._files.storage
        if await storage.head(row.path) is None:
            declared = await self._declared(principal, row)
            arrived = await self._arrived(row, declared) or set()
            missing = [n for n in range(1, -(-row.size // declared.part_bytes) + 1) if n not in arrived]
            try:
                if missing or declared.parts_id is None:
                    raise _missing(row, missing)
                await storage.parts.join(row.path, declared.parts_id, declared.checksums, content_type=row.mime_type)
            except (NotFound, ContentMismatch) as refusal:
                # Another request may have joined them.
                if await storage.head(row.path) is None:
                    raise (refusal if isinstance(refusal, ContentMismatch) else _missing(row, [])) from None
        await storage.parts.abort(row.path)

    async def give_up(self, principal: Principal, row: FileRow) -> None:
        """Deletes an upload whose bytes were refused: its parts are gone, so it cannot be corrected."""
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            marked = await SQL["give_up_upload"].row(connection, MarkedFile, tenant_id=row.tenant_id, file_id=row.id)
        if marked is not None:
            await discard(self._files.storage, [marked.path])

    async def _pending(self, principal: Principal, file_id: UUID) -> FileRow:
        row = await self._files.own(principal, file_id)
        if row.status == "ready":
            raise WrongState("The upload was confirmed, so it has no parts.")
        return row

    async def _declared(self, principal: Principal, row: FileRow) -> PartsRow:
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            found = await SQL["find_parts"].row(connection, PartsRow, tenant_id=row.tenant_id, file_id=row.id)
        if found is None:
            raise WrongState("This file is uploaded by one request, not in parts.")
        return found

    async def _arrived(self, row: FileRow, declared: PartsRow) -> set[int] | None:
        """None if the storage does not have the upload any more."""
        if declared.parts_id is None:
            return set()
        stored = await self._files.storage.parts.arrived(row.path, declared.parts_id)
        if stored is None:
            return None
        known = set(declared.numbers)

        def is_whole(part: StoredPart) -> bool:
            return part.number in known and part.size == part_size(row.size, declared.part_bytes, part.number)

        return {part.number for part in stored if is_whole(part)}


def _named(numbers: Sequence[int]) -> str:
    more = len(numbers) - MAX_NAMED
    return ", ".join(map(str, numbers[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def _missing(row: FileRow, numbers: Sequence[int]) -> Refusal:
    which = f"These parts are missing: {_named(numbers)}." if numbers else "Parts are missing."
    sentence = f"The file {row.name!r} is not complete. {which} Upload them, then confirm again."
    return ContentMismatch(sentence, errors=[FieldProblem("parts", sentence)])


def _other_bytes(numbers: Sequence[int]) -> Refusal:
    sentence = (
        f"The upload has other bytes in these parts: {_named(numbers)}. It is of another "
        "file. Delete it, or create an upload with another resume_key."
    )
    return ContentMismatch(sentence, errors=[FieldProblem("parts", sentence)])
