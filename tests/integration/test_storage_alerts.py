"""A storage that fails or is slow raises an alert: local files that refuse writes, and an S3 server that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from callsheet.media.storage import Storage, open_storage
from callsheet.media.storage.calls import StorageMetrics
from callsheet.settings import Settings
from callsheet.wire.errors import Unavailable
from tests.support.jobs.alert_checks import AlertChecks
from tests.support.jobs.core import Core
from tests.support.media.seaweedfs import BUCKET, seaweedfs_process

CODES = ("storage_failing", "slow_storage")
SECRET = b"a secret of at least thirty-two bytes"


async def write(storage: Storage, number: int) -> None:
    await storage.put(f"job/{number}", b"bytes", content_type="text/plain")


async def test_local_storage_that_refuses_writes_is_a_critical_alert_until_it_takes_them_again(
    core: Core, tmp_path: Path
) -> None:
    storage = open_storage(Settings.model_validate({"home": tmp_path}), SECRET, None)
    checks = AlertChecks(core, tmp_path, storage)
    await write(storage, 0)
    blobs, away = tmp_path / "storage" / "blobs", tmp_path / "storage" / "away"
    blobs.rename(away)
    # A file in its place refuses writes of root, too.
    blobs.write_bytes(b"")
    for number in range(3):
        assert await checks.found(*CODES) == []
        with pytest.raises(Unavailable):
            await write(storage, number)
        # What is asked and is not there is no failure.
        assert await storage.head("job/missing") is None
    [alert] = await checks.found(*CODES)
    assert (alert.code, alert.severity, alert.subject) == ("storage_failing", "critical", "write")
    assert alert.process == "studio:1"
    assert f"Writing to the storage at {tmp_path / 'storage'} failed 3 times in 4 calls" in alert.message
    assert "The storage has a link or a file where its own folder must be." in alert.message
    registry = CollectorRegistry()
    registry.register(StorageMetrics(storage.calls))
    labels = {"kind": "write", "outcome": "failed"}
    assert registry.get_sample_value("callsheet_storage_calls_total", labels) == 3
    blobs.unlink()
    away.rename(blobs)
    for number in range(3):
        await write(storage, number)
    # A few failures among calls that work are a warning, until they are five minutes old.
    [alert] = await checks.found(*CODES)
    assert alert.severity == "warning"
    await storage.close()


@pytest.mark.thorough
async def test_an_s3_server_that_is_gone_is_a_critical_alert_for_reads_and_writes(core: Core, tmp_path: Path) -> None:
    with seaweedfs_process(tmp_path) as service:
        service.server.create_bucket(BUCKET)
        s3 = {"backend": "s3", "s3": service.server.settings}
        storage = open_storage(Settings.model_validate({"home": tmp_path, "storage": s3}), SECRET, None)
        checks = AlertChecks(core, tmp_path, storage)
        await storage.put("job/empty", b"", content_type="text/plain")
        for number in range(3):
            await write(storage, number)
            # Each is a response that shows that the service works: also for an empty object, which has no range.
            assert await storage.peek("job/empty", 10) is not None
            assert await storage.head("job/missing") is None
        assert await checks.found(*CODES) == []
        service.kill()
        for number in range(10):
            with pytest.raises(Unavailable):
                await write(storage, number)
        assert [alert.subject for alert in await checks.found(*CODES)] == ["write"]
        for _ in range(10):
            with pytest.raises(Unavailable):
                await storage.head("job/1")
        found = await checks.found(*CODES)
        assert [(alert.code, alert.severity, alert.subject) for alert in found] == [
            ("storage_failing", "critical", "read"),
            ("storage_failing", "critical", "write"),
        ]
        assert "The last error: The object store cannot be used." in found[0].message
        await storage.close()


async def test_storage_that_is_slow_is_an_alert(core: Core, tmp_path: Path) -> None:
    """Every call takes longer than the setting, so no disk has to be slow."""
    settings = Settings.model_validate({"home": tmp_path, "storage": {"slow_seconds": 1e-9}})
    storage = open_storage(settings, SECRET, None)
    checks = AlertChecks(core, tmp_path, storage)
    for _ in range(9):
        await storage.head("job/1")
    assert await checks.found(*CODES) == []
    await storage.head("job/1")
    [alert] = await checks.found(*CODES)
    assert (alert.code, alert.severity, alert.subject) == ("slow_storage", "warning", "read")
    await storage.close()
