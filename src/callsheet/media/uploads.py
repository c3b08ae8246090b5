"""Uploads: creates a URL for the upload, refuses bytes after its end, and checks that the bytes are as declared."""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.media.dimensions import dimensions_of
from callsheet.media.files import SQL, FileRow, Files
from callsheet.media.free_space import FreeSpace
from callsheet.media.names import (
    PLAYLIST_TYPES,
    accepted_key,
    bare_type,
    is_allowed,
    is_in_parts,
    parts_key,
    upload_key,
    upload_of,
)
from callsheet.media.parts import PartUploads, part_bytes_of, resume_key_of
from callsheet.media.sniffing import PROBED_BYTES, contradiction
from callsheet.media.storage import ObjectInfo
from callsheet.media.storage.keys import clean_name
from callsheet.media.storage.port import discard
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import (
    ContentMismatch,
    FieldProblem,
    InvalidRequest,
    NotFound,
    Refusal,
    TooManyPendingUploads,
    WrongState,
)
from callsheet.wire.media import CreatedUpload, CreateUpload, UploadLimits, UploadRequest
from callsheet.wire.plurals import counted

NOT_UPLOADED = "Nothing has been uploaded yet. Send the bytes to `upload.url`, then confirm."
UPLOAD_AGAIN = "Upload the right bytes to the same URL, or create a new upload."
CREATE_AGAIN = "Create a new upload."


class Uploads:
    def __init__(self, files: Files, parts: PartUploads, usage: StorageUsage, free_space: FreeSpace):
        self._files = files
        self._parts = parts
        self._free_space = free_space
        self._usage = usage
        self._settings = files.settings

    async def create(self, principal: Principal, wanted: CreateUpload) -> CreatedUpload:
        mime_type = bare_type(wanted.mime_type)
        self._check_limits(mime_type, wanted.size)
        in_parts = wanted.resume_key is not None and wanted.size > self._settings.storage.parts_above_bytes
        row = await self._create_row(principal, wanted, mime_type, in_parts=in_parts)
        file = self._files.view(row)
        if in_parts:
            return CreatedUpload(file=file, upload=None, parts=await self._parts.described(principal, row))
        signed = self._files.storage.presign_put(
            row.path, content_type=mime_type, size=wanted.size, sha256=wanted.sha256
        )
        upload = UploadRequest(method="PUT", url=signed.url, headers=dict(signed.headers), expires_at=signed.expires_at)
        return CreatedUpload(file=file, upload=upload)

    async def _create_row(
        self, principal: Principal, wanted: CreateUpload, mime_type: str, *, in_parts: bool
    ) -> FileRow:
        """The row of a new upload, or of the one that has this `resume_key`."""
        file_id = uuid7()
        named = parts_key if in_parts else upload_key
        path = named(principal.tenant_id, file_id, wanted.name, mime_type)
        resume_key = resume_key_of(wanted) if in_parts else None
        keep_seconds = self._settings.storage.url_seconds + self._settings.media.upload_hours * 3600
        pool = await self._files.databases.pool(principal.pool)
        maximum = self._settings.media.pending_uploads_per_user
        limits = await self._usage.quotas.of(principal.tenant_id)
        async with pool.ordinary() as connection, connection.transaction():
            await SQL["lock_wallet"].run(connection, tenant_id=principal.tenant_id, user_id=principal.user_id)
            if resume_key is not None:
                resumed = await SQL["resume_upload"].value(
                    connection,
                    tenant_id=principal.tenant_id,
                    user_id=principal.user_id,
                    resume_key=resume_key,
                    disk=self._files.disk,
                    keep_seconds=keep_seconds,
                )
                if resumed is not None:
                    [found] = await SQL["files_by_ids"].rows(
                        connection, FileRow, tenant_id=principal.tenant_id, file_ids=[resumed]
                    )
                    return found
            self._free_space.require_for(wanted.size)
            row = await SQL["create_upload"].row(
                connection,
                FileRow,
                tenant_id=principal.tenant_id,
                file_id=file_id,
                user_id=principal.user_id,
                disk=self._files.disk,
                path=path,
                name=clean_name(wanted.name),
                mime_type=mime_type,
                size=wanted.size,
                sha256=wanted.sha256,
                keep_seconds=keep_seconds,
                part_bytes=part_bytes_of(wanted.size, self._settings.storage) if in_parts else None,
                resume_key=resume_key,
                max_rows=maximum,
            )
            if row is None:
                raise TooManyPendingUploads(maximum)
            await self._usage.check(connection, principal, limits)
        return row

    def limits(self) -> UploadLimits:
        return UploadLimits(
            accepted_types=list(self._settings.media.allowed_types),
            max_bytes=self._settings.storage.max_upload_bytes,
            max_image_pixels=self._settings.media.max_image_pixels,
            max_pending=self._settings.media.pending_uploads_per_user,
            url_seconds=self._settings.storage.url_seconds,
            parts_above_bytes=self._settings.storage.parts_above_bytes,
        )

    async def confirm(self, principal: Principal, file_id: UUID) -> FileRow:
        """Confirms an upload and returns the file. A repeated confirmation returns the same file."""
        row = await self._files.own(principal, file_id)
        if row.status == "ready":
            return row
        try:
            return await (self._accept_parts if is_in_parts(row.path) else self._accept)(principal, row)
        except Refusal as refusal:
            # Another request may have confirmed the upload meanwhile, and deleted the object that was checked here.
            try:
                confirmed = await self._files.own(principal, file_id)
            except NotFound:
                # An upload in parts ends if its bytes are refused, so the reason is more than that it is gone.
                raise (refusal if is_in_parts(row.path) else NotFound("There is no such file.")) from None
            if confirmed.status != "ready":
                raise
            return confirmed

    async def _accept(self, principal: Principal, row: FileRow) -> FileRow:
        """Checks a copy that no signed URL can write to, so that the checked bytes cannot be replaced later."""
        storage = self._files.storage
        # The upload is checked before the copy, so that wrong bytes are not copied, and after it, because the bytes may
        # have been replaced.
        await self._check(row, row.path)
        path = accepted_key(row.path)
        await storage.copy(row.path, path)
        try:
            sha256 = await self._checksum(row, await self._check(row, path))
        except Refusal:
            await discard(storage, [path])
            raise
        confirmed = await self._confirm_row(principal, row, path, sha256)
        # If there is no row, another request was faster: it confirmed the upload too, or deleted the file.
        await discard(storage, [row.path if confirmed else path])
        return await self._files.own(principal, row.id)

    async def _accept_parts(self, principal: Principal, row: FileRow) -> FileRow:
        """No signed URL can write to a file that was made of its parts, so it needs no copy. Concurrent confirmations
        have the same object, so none of them deletes it."""
        await self._parts.join(principal, row)
        try:
            sha256 = await self._checksum(row, await self._check(row, row.path))
        except (ContentMismatch, InvalidRequest):
            await self._parts.give_up(principal, row)
            raise
        await self._confirm_row(principal, row, row.path, sha256)
        return await self._files.own(principal, row.id)

    async def _confirm_row(self, principal: Principal, row: FileRow, path: str, sha256: str | None) -> bool:
        await hit(Failpoint.CONFIRM_COPIED_BEFORE_ROW)
        pool = await self._files.databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            confirmed = await SQL["confirm_upload"].value(
                connection, tenant_id=principal.tenant_id, file_id=row.id, path=path, sha256=sha256
            )
        await hit(Failpoint.CONFIRM_ROW_BEFORE_DELETE)
        return confirmed is not None

    async def _check(self, row: FileRow, path: str) -> ObjectInfo:
        """Refuses an object that differs from its declaration."""
        storage = self._files.storage
        info = await storage.head(path)
        if info is None:
            raise ContentMismatch(NOT_UPLOADED, errors=[FieldProblem("file_id", NOT_UPLOADED)])
        if info.size != row.size:
            raise _mismatch(
                row, "size", f"the object has {counted(info.size, 'byte')}, but the declared size is {row.size}."
            )
        if bare_type(info.content_type) != row.mime_type:
            reason = f"it was uploaded as {info.content_type}, but the declared mime_type is {row.mime_type}."
            raise _mismatch(row, "mime_type", reason)
        beginning = b"".join([piece async for piece in storage.stream(path, 0, PROBED_BYTES)])
        found = contradiction(row.mime_type, beginning)
        if found is not None:
            reason = f"the declared mime_type is {row.mime_type}, but the bytes look like {found}."
            raise _mismatch(row, "mime_type", reason)
        if row.mime_type.startswith("image/"):
            await self._check_pixels(row, path)
        return info

    async def _check_pixels(self, row: FileRow, path: str) -> None:
        async def read(start: int, length: int) -> bytes:
            if start >= row.size:
                return b""
            end = min(start + length, row.size)
            return b"".join([piece async for piece in self._files.storage.stream(path, start, end)])

        found = await dimensions_of(read)
        maximum = self._settings.media.max_image_pixels
        if found is not None and found.pixels > maximum:
            sentence = (
                f"The image {row.name!r} has {found.width} x {found.height} = {counted(found.pixels, 'pixel')}. "
                f"At most {maximum} are allowed. Upload a smaller image."
            )
            raise InvalidRequest(sentence, errors=[FieldProblem("dimensions", sentence)])

    async def _checksum(self, row: FileRow, info: ObjectInfo) -> str | None:
        """The checksum of the accepted bytes, if the storage knows it or if one was declared. Otherwise None, because
        the whole object would have to be read."""
        declared = row.sha256
        if info.sha256 is None and declared is None:
            return None
        sha256 = info.sha256 or await self._files.storage.sha256_of(info.key)
        if declared is not None and sha256 != declared:
            raise _mismatch(row, "sha256", f"the sha256 of the bytes is {sha256}, but {declared} was declared.")
        return sha256

    def _check_limits(self, mime_type: str, size: int) -> None:
        problems = []
        allowed = self._settings.media.allowed_types
        if mime_type in PLAYLIST_TYPES:
            problems.append(
                FieldProblem("mime_type", "This mime_type is a playlist, which is neither audio nor video.")
            )
        elif not is_allowed(mime_type, allowed):
            problems.append(
                FieldProblem("mime_type", f"The mime_type {mime_type} is not allowed. Allowed: {', '.join(allowed)}.")
            )
        if size > self._settings.storage.max_upload_bytes:
            problems.append(
                FieldProblem(
                    "size", f"The size must be at most {counted(self._settings.storage.max_upload_bytes, 'byte')}."
                )
            )
        if problems:
            raise InvalidRequest.of(problems)


def _mismatch(row: FileRow, field: str, reason: str) -> ContentMismatch:
    sentence = f"The file {row.name!r} is not what was declared: {reason}"
    remedy = CREATE_AGAIN if is_in_parts(row.path) else UPLOAD_AGAIN
    return ContentMismatch(f"{sentence} {remedy}", errors=[FieldProblem(field, sentence)])


ENDED = (
    "The upload of this URL was confirmed or deleted, so the URL accepts no more bytes. Create a new upload to send "
    "another file."
)


class AwaitedUploads:
    """Refuses bytes for uploads that are no longer awaited. Local storage asks before and after it stores an object."""

    def __init__(self, routing: TenantRouting):
        self._routing = routing

    async def require(self, key: str) -> None:
        """Raises WrongState if the key belongs to an upload that was confirmed or deleted."""
        upload = upload_of(key)
        if upload is None:
            return
        pool = await self._routing.pool_of_tenant(upload.tenant_id)
        async with pool.connection() as connection:
            awaited = await SQL["awaits_upload"].value(connection, **upload._asdict())
        if not awaited:
            raise WrongState(ENDED)
