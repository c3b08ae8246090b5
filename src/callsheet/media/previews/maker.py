"""The loop that makes previews in the background. A file without a preview is shown without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.media.previews.program import CLIP, LARGE, SMALL, NoPreview
from callsheet.media.previews.sandbox import Kind, OutOfTime, Previews, kinds, make_previews
from callsheet.media.storage import Storage
from callsheet.media.storage.port import discard
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import is_away
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import NotFound, Unavailable
from callsheet.wire.plurals import counted

SQL = statements("callsheet.media.previews")
log = get_logger(__name__)
TENANTS_PER_TURN = 20
# This is longer than making one preview may take. After this time, the first control plane counts as dead, and another
# one may try.
CLAIM_SECONDS = 360
# Number of attempts for a preview whose process dies each time.
MAX_ATTEMPTS = 3
# Delay before the next attempt if storage does not respond.
POSTPONE_SECONDS = 30
# Maximum size of an image for a preview. A larger image is shown without a preview.
MAX_IMAGE_BYTES = 64 * 1024 * 1024
CONTENT_TYPES = {SMALL: "image/webp", LARGE: "image/webp", CLIP: "video/mp4"}
FIRST = UUID(int=0)


def preview_folder(tenant_id: UUID, file_id: UUID) -> str:
    return f"tenants/{tenant_id}/previews/{file_id}"


def preview_keys(tenant_id: UUID, file_id: UUID) -> list[str]:
    """The keys of all possible previews of a file."""
    folder = preview_folder(tenant_id, file_id)
    return [f"{folder}/{name}" for name in CONTENT_TYPES]


async def put_previews(storage: Storage, folder: str, made: Previews) -> None:
    for name, content in made.files.items():
        await storage.put(f"{folder}/{name}", content, content_type=CONTENT_TYPES[name])


async def previews_of_object(storage: Storage, path: str, size: int, kind: Kind, **options: object) -> Previews:
    """Makes the previews of an object. Raises NoPreview; NotFound if there is no object; OutOfTime or Unavailable if
    a later attempt may succeed.
    """
    if kind == "image" and size > MAX_IMAGE_BYTES:
        raise NoPreview(f"the file has {counted(size, 'byte')}")

    async def read(start: int, length: int) -> bytes:
        return b"".join([piece async for piece in storage.stream(path, start, start + length)])

    return await make_previews(kind, size, read, **options)  # type: ignore[arg-type]


class DuePreview(NamedTuple):
    """A file that needs previews. Path, disk and size are None if the file was deleted."""

    tenant_id: UUID
    file_id: UUID
    kind: Kind
    due_at: datetime
    attempts: int
    path: str | None
    disk: str | None
    size: int | None


class PreviewMaker(Loop):
    name = "preview_maker"
    interval_seconds = 2.0

    def __init__(self, pools: Callable[[], Sequence[Database]], storage: Storage, disk: str):
        super().__init__()
        self._pools = pools
        self._storage = storage
        self._disk = disk
        # The tenant that was served last, by pool and kind.
        self._turns: dict[tuple[str, Kind], UUID] = {}
        self._making: asyncio.Future[Previews] | None = None

    async def tick(self, now: datetime) -> bool:
        return any([await self.make_due(pool) for pool in self._pools()])

    async def stop(self) -> None:
        """Cancels the preview that is being made, and leaves it for the next start: it may take longer than an
        operator waits for a stop.
        """
        self._stopping.set()
        if self._making is not None:
            self._making.cancel()
        await super().stop()

    async def make_due(self, pool: Database, at: datetime | None = None) -> bool:
        """Makes previews. Returns True while there may be more to make."""
        return any([await self._make_some(pool, at, kind) for kind in kinds()])

    async def _make_some(self, pool: Database, at: datetime | None, kind: Kind) -> bool:
        after = self._turns.get((pool.name, kind), FIRST)
        async with pool.ordinary() as connection:
            rows = await SQL["due_previews"].rows(
                connection, DuePreview, now=at, kind=kind, after=after, limit=TENANTS_PER_TURN
            )
        # One preview is made at a time: decoding uses a whole processor core, and requests need the others.
        for due in rows:
            if not self._stopping.is_set():
                await self._make(pool, due)
        self._turns[pool.name, kind] = rows[-1].tenant_id if len(rows) == TENANTS_PER_TURN else FIRST
        # Tenants before that one may have due previews, too.
        return bool(rows) or after != FIRST

    async def _make(self, pool: Database, due: DuePreview) -> None:
        names = {"tenant_id": due.tenant_id, "file_id": due.file_id}
        async with pool.connection() as connection:
            claim = {"due_at": due.due_at, "seconds": CLAIM_SECONDS}
            if not await SQL["claim_preview"].run(connection, **names, **claim):
                return
        await hit(Failpoint.PREVIEW_CLAIMED_BEFORE_OBJECTS)
        self._making = asyncio.ensure_future(self._render(due))
        try:
            made = await self._making
            # Every control plane and every attempt uses the same keys, so that objects from before a crash are
            # overwritten.
            await put_previews(self._storage, preview_folder(**names), made)
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            await self._postpone(pool, names, 0)
            return
        except Unavailable:
            # Storage is unreachable or full.
            await self._postpone(pool, names, POSTPONE_SECONDS)
            raise
        except OutOfTime as reason:
            # The preview is tried again after the claim has expired.
            log.warning("media.preview_late", file_id=str(due.file_id), reason=str(reason))
            return
        except NoPreview as reason:
            log.info("media.no_preview", file_id=str(due.file_id), reason=str(reason))
            async with pool.connection() as connection:
                await SQL["give_up_preview"].run(connection, **names)
            return
        await hit(Failpoint.PREVIEW_OBJECTS_BEFORE_ROW)
        async with pool.connection() as connection:
            kept = await SQL["keep_preview"].run(
                connection,
                **names,
                width=made.width,
                height=made.height,
                duration_seconds=made.duration_seconds,
                has_clip=CLIP in made.files,
            )
        if not kept:
            await discard(self._storage, preview_keys(**names))

    @staticmethod
    async def _postpone(pool: Database, names: dict[str, UUID], seconds: int) -> None:
        async with pool.connection() as connection:
            await SQL["postpone_preview"].run(connection, **names, seconds=seconds)

    async def _render(self, due: DuePreview) -> Previews:
        if due.attempts >= MAX_ATTEMPTS:
            raise NoPreview(f"the preview was tried {counted(due.attempts, 'time')}")
        if due.path is None or due.size is None or due.disk != self._disk:
            raise NoPreview("the object is in another storage backend")
        try:
            return await previews_of_object(self._storage, due.path, due.size, due.kind)
        except (NoPreview, OutOfTime, Unavailable):
            raise
        except NotFound:
            raise NoPreview("the object no longer exists") from None
        except Exception as error:
            if is_away(error):
                raise
            # An unexpected error is not tried again, so that it does not block other previews.
            log.exception("media.no_preview", file_id=str(due.file_id))
            raise NoPreview("an unexpected error occurred") from error
