"""The inputs of a job: its payload, which is parsed here, and its files, which are cached by their content.

An invalid payload is an error of the job, not of the agent.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

from callsheet.providers.comfy.graphs import (
    checked_extra_data,
    checked_graph,
    invalid,
    refuse_shared_files,
)
from callsheet.providers.engine import Graph
from callsheet.toolbox.private_files import make_closed
from callsheet.wire.worker.protocol import HeartbeatResponse, WorkerJob

DEFAULT_PLACEHOLDER = "__INPUT_PATH__"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")
# An engine treats files with these extensions as lists of other files, local or remote, and reads those.
_PLAYLISTS = frozenset({".m3u8", ".m3u", ".mpd", ".sdp", ".ffconcat", ".pls", ".asx", ".xspf", ".smil", ".rtsp"})


@dataclass(frozen=True, slots=True)
class PayloadAsset:
    key: str
    placeholder: str
    url: str
    content_hash: str | None
    extension: str
    # Whether the file is from the catalog, not a user's own file.
    is_shared: bool = False

    def file_name(self, number: int) -> str:
        """A safe name, because users' names may contain anything. It keeps the extension, which engines need."""
        stem = _UNSAFE.sub("-", self.key).strip("-.")[:40] or "asset"
        return f"{number}-{stem}{self.extension}"

    @property
    def shared_name(self) -> str | None:
        """A name made of the content hash, which the agent verifies. None if the file is only for this job."""
        return f"{self.content_hash}{self.extension}" if self.is_shared else None


@dataclass(frozen=True, slots=True)
class EnginePayload:
    graph: Graph
    assets: Sequence[PayloadAsset]
    output_node: str | None
    extra_data: Mapping[str, Any]
    # Whether results keep the metadata that the engine wrote into them, for example the graph.
    keep_metadata: bool = False


def engine_payload(job: WorkerJob) -> EnginePayload:
    payload = job.input_payload
    if "workflow" not in payload:
        raise invalid("The job has no workflow for an engine.")
    graph = checked_graph(payload["workflow"])
    refuse_shared_files(graph)
    node = None if payload.get("output_node_id") is None else str(payload["output_node_id"])
    assets = _assets(job)
    extra_data, keeps = checked_extra_data(payload.get("extra_data")), payload.get("keep_metadata") is True
    return EnginePayload(graph, assets, node, extra_data, keeps)


def refreshed(asset: PayloadAsset, response: HeartbeatResponse) -> str:
    """The asset's new URL, or the old one if the response has none."""
    for each in response.inputs or []:
        if (each.key, each.placeholder) == (asset.key, asset.placeholder) or each.placeholder == asset.placeholder:
            return each.download_url
    return asset.url


def _assets(job: WorkerJob) -> list[PayloadAsset]:
    payload = job.input_payload
    given = payload.get("assets") or []
    assets = [_asset(each, job) for each in given if isinstance(each, dict) and each.get("download_url")]
    if not any(isinstance(each, dict) and each.get("is_primary_input") for each in given) and job.input_url:
        placeholder = str(payload.get("input_path_placeholder") or DEFAULT_PLACEHOLDER)
        content_hash = job.input_file.content_hash if job.input_file else None
        extension = _extension(str(payload.get("input_name") or ""), job.input_url)
        assets.append(PayloadAsset("input", placeholder, job.input_url, content_hash, extension))
    return assets


def _asset(value: Mapping[str, Any], job: WorkerJob) -> PayloadAsset:
    payload = job.input_payload
    primary = bool(value.get("is_primary_input"))
    default = str(payload.get("input_path_placeholder") or DEFAULT_PLACEHOLDER)
    placeholder = str(value.get("placeholder") or (default if primary else ""))
    if not placeholder:
        raise invalid("The workflow has no input for a file of the job.", key=value.get("key"))
    name = str(payload.get("input_name") or "") if primary else str(value.get("name") or "")
    url, given = str(value["download_url"]), value.get("content_hash")
    content_hash = str(given) if given else None
    shared = not primary and bool(value.get("asset_id")) and is_hash(content_hash)
    key = str(value.get("key") or "asset")
    return PayloadAsset(key, placeholder, url, content_hash, _extension(name, url), shared)


def _extension(name: str, url: str) -> str:
    for candidate in (name, unquote(urlsplit(url).path)):
        suffix = PurePosixPath(candidate).suffix
        if _EXTENSION.fullmatch(suffix) and suffix.lower() not in _PLAYLISTS:
            return suffix.lower()
    return ""


Download = Callable[[Path], Awaitable[str]]
_HASH = re.compile(r"[0-9a-f]{64}")


class ChecksumDiffers(Exception):
    """The downloaded file does not have the checksum that the job names."""


class AssetCache:
    """Downloaded files by content hash, up to a number of bytes. The least recently used file is removed first."""

    def __init__(self, directory: Path, max_bytes: int):
        self._directory = directory
        self._max_bytes = max_bytes
        # None until the files of an earlier process are counted.
        self._used: int | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        make_closed(directory)
        for draft in directory.glob("*.draft"):
            draft.unlink(missing_ok=True)

    async def fetch(self, content_hash: str | None, target: Path, download: Download) -> bool:
        """Copies the file to `target`; returns whether it was in the cache. Two jobs that need the same file download
        it once. The file at `target` is a hard link, so clearing the cache does not remove it."""
        if content_hash is None or not is_hash(content_hash) or self._max_bytes == 0:
            _checked(content_hash, await download(target))
            return False
        lock = self._locks.setdefault(content_hash, asyncio.Lock())
        async with lock:
            kept = self._directory / content_hash
            found = kept.exists()
            if not found:
                draft = self._directory / f"{uuid.uuid4().hex}.draft"
                try:
                    _checked(content_hash, await download(draft))
                    draft.replace(kept)
                    if self._used is not None:
                        self._used += kept.stat().st_size
                finally:
                    draft.unlink(missing_ok=True)
            os.utime(kept)
            _link(kept, target)
        # The folder may have thousands of files, so it is read only if something must be removed.
        if self._used is None or self._used > self._max_bytes:
            self._used = await asyncio.to_thread(self._clear)
        return found

    def _clear(self) -> int:
        """Removes files until the others fit. Returns their bytes."""
        files = []
        for path in self._directory.iterdir():
            if is_hash(path.name):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            used -= size
        return used


def is_hash(text: str | None) -> bool:
    return text is not None and _HASH.fullmatch(text) is not None


def _checked(expected: str | None, found: str) -> None:
    if is_hash(expected) and found != expected:
        raise ChecksumDiffers(f"expected {expected}, got {found}")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # The file system has no hard links.
        shutil.copyfile(source, target)
