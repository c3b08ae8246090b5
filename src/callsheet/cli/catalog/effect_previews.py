"""`callsheet effects update --preview`: sets the preview of an effect in the gallery."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from callsheet.cli.shared.rooms import with_rooms
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.media_types import SNIFFED_BYTES, media_type_of

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms
    from callsheet.catalog.effect_previews import Example


def set_preview(effect: str, preview: str, before: Path | None) -> None:
    """Sets the preview. `preview`: the id of a completed job, or a file."""
    job_id = _as_id(preview)
    if job_id is not None and before is not None:
        raise OperatorError("A job already has its original. Leave --before out.")

    async def work(rooms: Rooms) -> None:
        from callsheet.identity.audit_log import OPERATOR

        if job_id is not None:
            chosen = await rooms.effects.examples.of_any(job_id)
        else:
            chosen = (None if before is None else _example("--before", before), _example("--preview", Path(preview)))
        await rooms.catalog.effect_previews.set(effect, *chosen, OPERATOR)

    with_rooms(work)


def remove_preview(effect: str) -> None:
    async def work(rooms: Rooms) -> None:
        from callsheet.identity.audit_log import OPERATOR

        await rooms.catalog.effect_previews.remove(effect, OPERATOR)

    with_rooms(work)


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _example(option: str, file: Path) -> Example:
    from callsheet.catalog.effect_previews import Example

    try:
        with file.open("rb") as opened:
            beginning = opened.read(SNIFFED_BYTES)
        size = file.stat().st_size
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    mime_type = media_type_of(beginning)
    if mime_type is None:
        raise OperatorError(
            f"{file} is not an image, a video or an audio file. {option} takes a file, or the id of a job."
        )

    async def read(start: int, length: int) -> bytes:
        def part() -> bytes:
            with file.open("rb") as opened:
                opened.seek(start)
                return opened.read(length)

        return await asyncio.to_thread(part)

    return Example(option, mime_type, size, read)
