"""A job's payload as the agent reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from callsheet.wire.worker.protocol import WorkerJob
from callsheet.worker.agent.job_inputs import PayloadAsset, _extension, engine_payload


@pytest.mark.parametrize(
    ("name", "url", "extension"),
    [
        ("Clip.MP4", "https://storage.example/a/b", ".mp4"),
        ("clip", "https://storage.example/a/b.webm?signature=x.m3u8", ".webm"),
        ("../../etc/passwd", "https://storage.example/a", ""),
        ("clip.mp4/../../x", "https://storage.example/a", ""),
        ("list.m3u8", "https://storage.example/list.M3U8?x", ""),
        ("list.mpd", "https://storage.example/clip.mp4", ".mp4"),
    ],
)
def test_a_file_keeps_its_extension_unless_it_makes_it_a_list_of_other_files(
    name: str, url: str, extension: str
) -> None:
    assert _extension(name, url) == extension
    assert PayloadAsset("in/../put", "__X__", url, None, extension).file_name(1) == f"1-in-..-put{extension}"


HASH = "a" * 64
SAVING = {"9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x"}}}
PREVIEWING = {"9": {"class_type": "PreviewImage", "inputs": {}}}


def job_with(asset: dict[str, Any], workflow: dict[str, Any]) -> WorkerJob:
    entry = {"key": "logo", "placeholder": "__LOGO__", "download_url": "https://storage.example/a/logo.png", **asset}
    return WorkerJob(
        dispatch_id=1,
        lease_token=uuid4(),
        lease_expires_at=datetime.now(UTC),
        lease_ttl_seconds=60,
        tenant_id=uuid4(),
        job_id=uuid4(),
        effect_id=None,
        kind="engine",
        actor=None,
        provider="self_hosted",
        run_limit_seconds=60,
        input_payload={"workflow": workflow, "assets": [entry], "output_node_id": "9"},
        input_file=None,
        output_file=None,
        input_url=None,
        output_url=None,
        output_headers={},
    )


@pytest.mark.parametrize(
    ("asset", "workflow", "shared_name"),
    [
        ({"asset_id": "1", "content_hash": HASH}, SAVING, f"{HASH}.png"),
        # What a user uploaded is for that job alone.
        ({"file_id": "1", "content_hash": HASH}, SAVING, None),
        ({"asset_id": "1", "content_hash": HASH, "is_primary_input": True}, SAVING, None),
        # Nothing says what is in it.
        ({"asset_id": "1"}, SAVING, None),
        ({"asset_id": "1", "content_hash": "../../x"}, SAVING, None),
        # Of a node that names no file, too: each run has results of its own.
        ({"asset_id": "1", "content_hash": HASH}, PREVIEWING, f"{HASH}.png"),
    ],
)
def test_only_assets_of_the_catalog_are_shared_between_jobs(
    asset: dict[str, Any], workflow: dict[str, Any], shared_name: str | None
) -> None:
    [read] = engine_payload(job_with(asset, workflow)).assets
    assert read.shared_name == shared_name
