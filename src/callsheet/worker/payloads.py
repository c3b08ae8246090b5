"""A job's payload as the agent needs it. Pure; what is missing or odd is an error of the job, not of the agent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from callsheet.providers.engine import Graph
from callsheet.providers.graphs import checked_extra_data, checked_graph, invalid
from callsheet.wire.worker import HeartbeatAnswer, WorkerJob

DEFAULT_PLACEHOLDER = "__INPUT_PATH__"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")
# By these an engine takes a file for a list of others, of its own machine or elsewhere, and reads them.
_PLAYLISTS = frozenset({".m3u8", ".m3u", ".mpd", ".sdp", ".ffconcat", ".pls", ".asx", ".xspf", ".smil", ".rtsp"})


@dataclass(frozen=True, slots=True)
class Asset:
    key: str
    placeholder: str
    url: str
    content_hash: str | None
    extension: str

    def file_name(self, number: int) -> str:
        """Ours, because users' names hold anything; with their extension, by which engines choose how to read it."""
        stem = _UNSAFE.sub("-", self.key).strip("-.")[:40] or "asset"
        return f"{number}-{stem}{self.extension}"


@dataclass(frozen=True, slots=True)
class EnginePayload:
    graph: Graph
    assets: Sequence[Asset]
    output_node: str | None
    extra_data: Mapping[str, Any]


def engine_payload(job: WorkerJob) -> EnginePayload:
    payload = job.input_payload
    if "workflow" not in payload:
        raise invalid("The job has no workflow for an engine.")
    node = payload.get("output_node_id")
    return EnginePayload(
        checked_graph(payload["workflow"]),
        _assets(job),
        None if node is None else str(node),
        checked_extra_data(payload.get("extra_data")),
    )


def refreshed(asset: Asset, answer: HeartbeatAnswer) -> str:
    """The asset's new address; the old one where none came."""
    for each in answer.inputs or []:
        if (each.key, each.placeholder) == (asset.key, asset.placeholder) or each.placeholder == asset.placeholder:
            return each.download_url
    return asset.url


def _assets(job: WorkerJob) -> list[Asset]:
    payload = job.input_payload
    given = payload.get("assets") or []
    assets = [_asset(each, job) for each in given if isinstance(each, dict) and each.get("download_url")]
    if not any(isinstance(each, dict) and each.get("is_primary_input") for each in given) and job.input_url:
        placeholder = str(payload.get("input_path_placeholder") or DEFAULT_PLACEHOLDER)
        content_hash = job.input_file.content_hash if job.input_file else None
        extension = _extension(str(payload.get("input_name") or ""), job.input_url)
        assets.append(Asset("input", placeholder, job.input_url, content_hash, extension))
    return assets


def _asset(value: Mapping[str, Any], job: WorkerJob) -> Asset:
    payload = job.input_payload
    primary = bool(value.get("is_primary_input"))
    default = str(payload.get("input_path_placeholder") or DEFAULT_PLACEHOLDER)
    placeholder = str(value.get("placeholder") or (default if primary else ""))
    if not placeholder:
        raise invalid("A file of the job has no place in its workflow.", key=value.get("key"))
    name = str(payload.get("input_name") or "") if primary else str(value.get("name") or "")
    url, content_hash = str(value["download_url"]), value.get("content_hash")
    extension = _extension(name, url)
    return Asset(
        str(value.get("key") or "asset"), placeholder, url, str(content_hash) if content_hash else None, extension
    )


def _extension(name: str, url: str) -> str:
    for candidate in (name, unquote(urlsplit(url).path)):
        suffix = PurePosixPath(candidate).suffix
        if _EXTENSION.fullmatch(suffix) and suffix.lower() not in _PLAYLISTS:
            return suffix.lower()
    return ""
