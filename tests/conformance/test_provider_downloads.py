"""The output of a provider arrives completely in every storage backend, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from uuid import uuid4

import pytest

from callsheet.media.storage import Storage
from callsheet.toolbox.http.client import GuardedClient
from callsheet.webhooks.downloads import MAX_OUTPUTS, JobKey, OutputDownloads, TryLater, Unusable
from tests.support.providers.provider_services import HASTE_SECONDS, LOCAL, MAX_BYTES, PATIENCE_SECONDS
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import ReplicateServer


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_networks=[LOCAL], timeout_seconds=PATIENCE_SECONDS, max_bytes=MAX_BYTES) as client:
        yield client


@pytest.fixture
def downloads(client: GuardedClient, storage: Storage) -> OutputDownloads:
    return OutputDownloads(client, storage, "local")


@pytest.fixture
def job_key() -> JobKey:
    return JobKey(uuid4(), uuid4())


async def left(storage: Storage, job_key: JobKey) -> set[str]:
    return {entry.key async for entry in storage.list(f"tenants/{job_key.tenant_id}")}


async def test_files_are_stored_as_they_are_under_the_jobs_own_key(
    downloads: OutputDownloads, storage: Storage, job_key: JobKey, replicate: ReplicateServer
) -> None:
    names = ("picture.png", "film.mp4", "sound.wav")
    outputs = await downloads.fetch(job_key, [replicate.file(name) for name in names])
    assert [output.name for output in outputs] == ["output-1.png", "output-2.mp4", "output-3.wav"]
    for name, output in zip(names, outputs, strict=True):
        content = content_of(name)
        assert output.path.startswith(f"tenants/{job_key.tenant_id}/ai-jobs/{job_key.job_id}/output-")
        assert (output.size, output.sha256) == (len(content), sha256(content).hexdigest())
        assert await storage.read(output.path, len(content)) == content
        info = await storage.head(output.path)
        assert info is not None
        assert info.content_type == output.mime_type
    await downloads.discard(outputs)
    assert await left(storage, job_key) == set()


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("page.png", Unusable),
        ("empty.png", Unusable),
        ("missing.png", Unusable),
        ("huge.png", Unusable),
        ("endless.png", Unusable),
        ("slow.png", TryLater),
        ("broken.png", TryLater),
        ("flaky.png", TryLater),
    ],
)
async def test_a_failed_download_leaves_no_file_of_its_job(
    client: GuardedClient,
    downloads: OutputDownloads,
    storage: Storage,
    job_key: JobKey,
    replicate: ReplicateServer,
    name: str,
    refusal: type[Exception],
) -> None:
    if name == "slow.png":
        client._timeout_seconds = HASTE_SECONDS
    with pytest.raises(refusal):
        await downloads.fetch(job_key, [replicate.file("picture.png"), replicate.file(name)])
    assert await left(storage, job_key) == set()


async def test_files_above_the_limit_are_not_requested(
    downloads: OutputDownloads, job_key: JobKey, replicate: ReplicateServer
) -> None:
    with pytest.raises(Unusable):
        await downloads.fetch(job_key, [replicate.file("picture.png")] * (MAX_OUTPUTS + 1))
    assert replicate.downloads == {}
