"""Uploads and downloads files: `/upload/image`, `/upload/mask` and `/view`."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import mimetypes
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from callsheet_lightbox.folders import Folders, written
from callsheet_lightbox.media.untrusted_files import opened_image

# Types that a browser would execute if they were served with their own type.
ACTIVE_TYPES = (
    "text/html", "text/html-sandboxed", "application/xhtml+xml", "text/javascript", "application/javascript",
    "text/css", "image/svg+xml", "text/xml", "application/xml",
)  # fmt: skip
Save = Callable[[web.FileField, Path], None]


class FileRoutes:
    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        # Uploads are stored one after the other: two at once could choose the same free name, and one of them would be
        # lost.
        self._writing = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/upload/image", self.upload_image),
            web.post("/upload/mask", self.upload_mask),
            web.get("/view", self.view),
        ]

    async def upload_image(self, request: web.Request) -> web.Response:
        # aiohttp writes the file to disk as it arrives.
        form = await request.post()
        return await self._write(form, copy_file)

    async def upload_mask(self, request: web.Request) -> web.Response:
        form = await request.post()

        def save(file: web.FileField, path: Path) -> None:
            self._save_masked(file, path, json.loads(str(form["original_ref"])))

        return await self._write(form, save)

    async def _write(self, form: Mapping[str, Any], save: Save) -> web.Response:
        async with self._writing:
            return await asyncio.to_thread(self._upload, form, save)

    def _upload(self, form: Mapping[str, Any], save: Save) -> web.Response:
        file = form.get("image")
        kind = form.get("type", "input")
        folder = self._folders.by_type(kind)
        if file is None:
            return web.Response(status=400)
        if not isinstance(file, web.FileField) or folder is None:
            raise TypeError("image must be a file, and type must be input, output or temp")
        name, subfolder = file.filename, str(form.get("subfolder", ""))
        target = folder / os.path.normpath(subfolder)
        path = Path(os.path.abspath(target / name))
        # The folder is checked by itself too: a name that leads back into it would create a folder anywhere.
        if not name or not path.is_relative_to(folder) or not Path(os.path.abspath(target)).is_relative_to(folder):
            return web.Response(status=400)
        target.mkdir(parents=True, exist_ok=True)
        if form.get("overwrite") not in ("true", "1"):
            name, path, there = _free_name(file, name, path, target)
            if there:
                return _uploaded(name, subfolder, kind)
        save(file, path)
        return _uploaded(name, subfolder, kind)

    def _save_masked(self, file: web.FileField, path: Path, original: Mapping[str, Any]) -> None:
        """Writes the original with the alpha of `file`. Without an original, nothing is written, as in ComfyUI."""
        name, folder = self._folders.split_annotation(original["filename"])
        folder = folder or self._folders.by_type(original.get("type", "output"))
        if not name or name.startswith("/") or ".." in name or folder is None:
            return
        source = Path(os.path.abspath(folder / original.get("subfolder", "") / name))
        if not source.is_relative_to(folder) or not source.is_file():
            return
        with opened_image(source) as opened, opened_image(file.file) as mask:
            info = PngInfo()
            for key, text in getattr(opened, "text", {}).items():
                info.add_text(key, text)
            masked = opened.convert("RGBA")
            masked.putalpha(mask.convert("RGBA").getchannel("A"))
            masked.save(path, "PNG", compress_level=4, pnginfo=info)

    async def view(self, request: web.Request) -> web.StreamResponse:
        found = find_file(self._folders, request.query)
        if isinstance(found, int):
            return web.Response(status=found)
        disposition = {"Content-Disposition": f'filename="{found.name}"'}
        preview, channel = request.query.get("preview"), request.query.get("channel", "rgba")
        if preview is not None:
            body, media_type = await asyncio.to_thread(_smaller, found, preview, channel)
            return web.Response(body=body, content_type=media_type, headers=disposition)
        if channel in ("rgb", "a"):
            body = await asyncio.to_thread(_channel, found, channel)
            return web.Response(body=body, content_type="image/png", headers=disposition)
        guessed = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
        safe = "application/octet-stream" if guessed in ACTIVE_TYPES else guessed
        return web.FileResponse(found, headers={**disposition, "Content-Type": safe})


def find_file(folders: Folders, query: Mapping[str, str]) -> Path | int:
    """The file of a `/view`, or the status of a refusal."""
    if "filename" not in query:
        return 404
    name, folder = folders.split_annotation(query["filename"])
    # Any two dots in a row are refused, also harmless ones: `a..b.png` cannot be viewed (comfyui-api.md §4).
    if not name or name.startswith("/") or ".." in name or "\0" in name:
        return 400
    folder = folder or folders.by_type(query.get("type", "output"))
    if folder is None:
        return 400
    if "subfolder" in query:
        inside = Path(os.path.abspath(folder / query["subfolder"].replace("\0", "")))
        if not inside.is_relative_to(folder):
            return 403
        folder = inside
    path = folder / os.path.basename(name)
    return path if path.is_file() else 404


def content_hash(file: web.FileField) -> hashlib._Hash:
    """The hash of the whole file. Afterwards the file is at its start again."""
    digest = hashlib.sha256()
    while piece := file.file.read(1 << 20):
        digest.update(piece)
    file.file.seek(0)
    return digest


def copy_file(file: web.FileField, path: Path) -> None:
    with written(path) as part, part.open("wb") as target:
        shutil.copyfileobj(file.file, target, 1 << 20)


def _free_name(file: web.FileField, name: str, path: Path, folder: Path) -> tuple[str, Path, bool]:
    """A free name, and whether the same bytes already exist under it."""
    stem, ending = os.path.splitext(name)
    digest, counter = None, 1
    while path.exists():
        digest = digest or content_hash(file).digest()
        with path.open("rb") as there:
            if hashlib.file_digest(there, "sha256").digest() == digest:
                return name, path, True
        name = f"{stem} ({counter}){ending}"
        path, counter = folder / name, counter + 1
    return name, path, False


def _uploaded(name: str, subfolder: str, kind: str) -> web.Response:
    return web.json_response({"name": name, "subfolder": subfolder, "type": kind})


def _smaller(path: Path, preview: str, channel: str) -> tuple[bytes, str]:
    kind, _, quality = preview.partition(";")
    kind = kind if kind in ("webp", "jpeg") else "webp"
    encoded = io.BytesIO()
    with opened_image(path) as image:
        converted = image.convert("RGB") if kind == "jpeg" or channel == "rgb" else image
        converted.save(encoded, kind.upper(), quality=int(quality) if quality.isdecimal() else 90)
    return encoded.getvalue(), f"image/{kind}"


def _channel(path: Path, channel: str) -> bytes:
    encoded = io.BytesIO()
    with opened_image(path) as image:
        if channel == "rgb":
            converted = image.convert("RGB")
        else:
            converted = Image.new("RGBA", image.size)
            converted.putalpha(image.convert("RGBA").getchannel("A"))
        converted.save(encoded, "PNG")
    return encoded.getvalue()
