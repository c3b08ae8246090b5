"""The preview of an effect in the gallery: a clip of an example, before and after.

Previews are copies in the catalog's own folder, because the job or asset may be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from callsheet.catalog.effects import FOLDER, EffectRow, named
from callsheet.catalog.offers import show_preview
from callsheet.identity.audit_log import record
from callsheet.media.previews.maker import put_previews
from callsheet.media.previews.program import CLIP, NoPreview
from callsheet.media.previews.sandbox import AWAITED, ClipSize, Kind, OutOfTime, Previews, Read, kinds, make_previews
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import Storage
from callsheet.media.storage.port import discard
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.wire.effects import EffectPreview
from callsheet.wire.errors import InvalidRequest, NotFound, Unavailable

SQL = statements("callsheet.catalog")

# A card is larger than a row of a list, and an effect has only one.
FOR_EFFECTS = ClipSize(720, 6.0)
# Files that are younger than this may belong to a request that is still writing.
LEFTOVER_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Example:
    """A file from which a preview is made. `field`: its name in the request."""

    field: str
    mime_type: str
    size: int
    read: Read

    @property
    def kind(self) -> Kind | None:
        main_type = self.mime_type.partition("/")[0]
        return next((kind for kind in get_args(Kind) if kind == main_type), None)


def stored_example(storage: Storage, field: str, path: str, mime_type: str, size: int) -> Example:
    async def read(start: int, length: int) -> bytes:
        return b"".join([piece async for piece in storage.stream(path, start, start + length)])

    return Example(field, mime_type, size, read)


class EffectPreviews:
    def __init__(self, databases: Databases, storage: Storage, urls: PreviewUrls):
        self._databases = databases
        self._storage = storage
        self._urls = urls

    async def set(self, id_or_slug: str, before: Example | None, after: Example, actor: str) -> EffectPreview:
        await self._id(id_or_slug)
        made = {"after": await _render(after)} | ({"before": await _render(before)} if before is not None else {})
        return await self.keep(id_or_slug, made, actor)

    async def keep(self, id_or_slug: str, made: Mapping[str, Previews], actor: str) -> EffectPreview:
        """Stores a preview. `made`: `after`, and `before` if there is one."""
        effect_id = await self._id(id_or_slug)
        # Each preview has a new folder, so that browsers never show a cached file of the last preview.
        folder = f"{FOLDER}/{effect_id}/{uuid7()}"
        for name, previews in made.items():
            await put_previews(self._storage, f"{folder}/{name}", previews)
        await hit(Failpoint.CATALOG_BEFORE_ROW)
        preview = {"folder": folder, **{name: _facts(previews) for name, previews in made.items()}}
        await self._write(effect_id, preview, actor)
        return show_preview(self._urls, preview)

    async def remove(self, id_or_slug: str, actor: str) -> None:
        await self._write(await self._id(id_or_slug), None, actor)

    async def _id(self, id_or_slug: str) -> UUID:
        async with self._databases.central.connection() as connection:
            effect = await SQL["find_effect"].row(connection, EffectRow, **named(id_or_slug))
        if effect is None:
            raise NotFound(f"There is no effect {id_or_slug!r}.")
        return effect.id

    async def _write(self, effect_id: UUID, preview: dict[str, Any] | None, actor: str) -> None:
        async with self._databases.central.transaction() as connection:
            current = await SQL["lock_effect"].row(connection, EffectRow, id=effect_id, slug="")
            if current is None:
                raise NotFound("The effect was deleted.")
            await SQL["set_effect_preview"].run(connection, id=effect_id, preview=preview)
            await record(connection, actor, "effect.preview", "effect", effect_id, is_set=preview is not None)
        replaced = (current.preview or {}).get("folder")
        await discard(self._storage, await self._leftovers(effect_id, preview, replaced))

    async def _leftovers(self, effect_id: UUID, kept: dict[str, Any] | None, replaced: str | None) -> list[str]:
        """Files of the replaced preview, and files of requests that crashed long ago."""
        before = datetime.now(UTC) - LEFTOVER_AGE
        entries = [entry async for entry in self._storage.list(f"{FOLDER}/{effect_id}")]
        return [
            entry.key
            for entry in entries
            if (replaced is not None and entry.key.startswith(f"{replaced}/"))
            or (entry.modified_at < before and not (kept and entry.key.startswith(f"{kept['folder']}/")))
        ]


async def _render(example: Example) -> Previews:
    kind = example.kind
    if kind is None:
        raise InvalidRequest.field(
            example.field,
            f"The file is {example.mime_type}. Previews can be made from images, videos and audio files only.",
        )
    if kind not in kinds():
        reason = f"The control plane cannot read {example.mime_type}. Install the extra `previews` (PyAV)."
        raise InvalidRequest.field(example.field, reason)
    try:
        return await make_previews(kind, example.size, example.read, FOR_EFFECTS, AWAITED)
    except OutOfTime as late:
        # The machine is busy. The file is not at fault.
        raise Unavailable(f"{late} Try again when the control plane has less to do.") from None
    except NoPreview as reason:
        raise InvalidRequest.field(example.field, f"The file cannot be shown: {reason}.") from None


def _facts(made: Previews) -> dict[str, Any]:
    return {**{name: value for name, value in asdict(made).items() if name != "files"}, "has_clip": CLIP in made.files}
