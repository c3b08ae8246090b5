"""Uploads of accepted outputs are deleted in batches."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.fleet.protocol import outputs
from callsheet.fleet.protocol.outputs import AcceptedUploads
from callsheet.media.storage.local import LocalStorage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(
        tmp_path, public_url="http://localhost", secret=b"secret", url_seconds=60, max_upload_bytes=1 << 20
    )


async def stored(storage: LocalStorage) -> set[str]:
    return {entry.key async for entry in storage.list()}


async def test_a_tick_deletes_a_batch_and_says_whether_more_wait(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MAX_AT_ONCE", 2)
    keys = [f"jobs/{number}/upload" for number in range(3)]
    for key in (*keys, "jobs/0/accepted"):
        await storage.put(key, b"bytes", content_type="text/plain")
    uploads = AcceptedUploads(storage)
    uploads.add(keys)
    assert await uploads.tick(NOW)
    assert await stored(storage) == {keys[2], "jobs/0/accepted"}
    assert not await uploads.tick(NOW)
    assert await stored(storage) == {"jobs/0/accepted"}


async def test_a_stop_deletes_what_waits(storage: LocalStorage) -> None:
    await storage.put("upload", b"bytes", content_type="text/plain")
    uploads = AcceptedUploads(storage)
    uploads.start()
    uploads.add(["upload"])
    await uploads.stop()
    assert await stored(storage) == set()
    await storage.close()


async def test_waiting_uploads_are_limited(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_WAITING", 1)
    for key in ("first", "second"):
        await storage.put(key, b"bytes", content_type="text/plain")
    uploads = AcceptedUploads(storage)
    uploads.add(["first"])
    uploads.add(["second"])
    assert not await uploads.tick(NOW)
    assert await stored(storage) == {"second"}, "left to the sweep"
