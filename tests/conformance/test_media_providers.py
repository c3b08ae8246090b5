"""What every provider of media must do that is run to its end: described services, an engine, and a package's own.

Real servers are behind them; the package is the wheel that docs/how-to/add-a-provider.md speaks of.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from callsheet.providers.actor import Done
from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import Finish, Generation, Made, SyncProvider
from callsheet.providers.registry import ActorRegistry, lacking_of_provider
from callsheet.toolbox.media_types import media_type_of
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.providers.media_providers import ProgressLog, media_task, opened, service_table
from tests.support.providers.media_service import SECRET, MediaService, media_service
from tests.support.providers.plugin_wheel import NAME, unpacked_plugin
from tests.support.run.ports import free_port

HOSTILE = 'a "lighthouse", {"seed": 1} {params.width} \\ in a {storm}'


@dataclass
class ProviderSetup:
    """A provider that is connected to a server that really makes images."""

    registry: ActorRegistry
    name: str
    directory: Path
    progress: ProgressLog = field(default_factory=ProgressLog)

    @property
    def provider(self) -> SyncProvider:
        return cast("SyncProvider", self.registry.media[self.name])

    async def make(self, prompt: str = HOSTILE) -> Made:
        return await self.provider.generate(Generation("txt2img", prompt), self.directory, self.progress)


@pytest.fixture(scope="module")
async def running_service() -> AsyncIterator[MediaService]:
    async with media_service() as service:
        yield service


@pytest.fixture(scope="module")
async def engine_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with lightbox_here(tmp_path_factory.mktemp("engine")) as engine:
        yield engine.url


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(unpacked_plugin(tmp_path)))
    yield
    sys.modules.pop(NAME, None)


@pytest.fixture
async def provider_setups(
    running_service: MediaService, engine_url: str, tmp_path: Path, tiny: None
) -> AsyncIterator[dict[str, ProviderSetup]]:
    """One of every kind, all in one registry, as an installation has them."""
    directory = tmp_path / "made"
    directory.mkdir()
    names = ("leonardo", "midjourney")
    async with AsyncExitStack() as stack:
        config = {
            "http": {name: service_table(name, running_service) for name in names},
            "lightbox": {"url": engine_url},
        }
        registry = await stack.enter_async_context(opened(**config))
        yield {name: ProviderSetup(registry, name, directory) for name in (*names, "lightbox", "tiny")}


@pytest.fixture(params=["leonardo", "midjourney", "lightbox", "tiny"])
def provider_setup(request: pytest.FixtureRequest, provider_setups: dict[str, ProviderSetup]) -> ProviderSetup:
    return provider_setups[request.param]


async def test_files_are_in_the_given_directory_and_have_the_type_of_their_name(provider_setup: ProviderSetup) -> None:
    made = await provider_setup.make()
    assert made.files
    for file in made.files:
        assert file.path.parent == provider_setup.directory
        assert media_type_of(file.path.read_bytes()[:64]) == file.mime_type == "image/png"
        assert file.name.endswith(".png")
        assert "/" not in file.name
        assert b"class_type" not in file.path.read_bytes(), "it carries the graph that made it"
    # Nothing else is left there.
    assert {file.path for file in made.files} == set(provider_setup.directory.iterdir())


async def test_progress_is_reported_in_percent(provider_setup: ProviderSetup) -> None:
    await provider_setup.make()
    percents = [percent for percent in provider_setup.progress.percents if percent is not None]
    assert percents
    assert all(0 <= percent <= 100 for percent in percents)
    assert percents == sorted(percents)


async def test_the_actor_runs_the_provider_and_the_result_can_be_stored(provider_setup: ProviderSetup) -> None:
    media = provider_setup.registry.actors["media"]
    payload = {"provider": provider_setup.name, "prompt": HOSTILE}
    plan = media.plan({**payload, "action_type": "txt2img"})
    assert (plan.provider, plan.finish) == (provider_setup.name, Finish.SYNC)
    done = await media.run(media_task(provider_setup.directory, **payload))
    assert isinstance(done, Done)
    assert len(done.files) == 1
    assert (done.result["provider"], done.result["action"]) == (provider_setup.name, "txt2img")
    assert json.loads(json.dumps(done.result)) == done.result
    assert done.provider_job_id


async def test_a_submission_is_validated_without_a_call_to_the_service(
    provider_setup: ProviderSetup, running_service: MediaService
) -> None:
    before = len(running_service.requests)
    provider, generation = provider_setup.provider, Generation("txt2img", HOSTILE)
    assert lacking_of_provider(provider) == []
    assert list(provider.problems(generation)) == []
    assert [each.field for each in provider.problems(Generation("txt2img", ""))] == ["prompt"]
    limit = provider.concurrency(generation)
    assert limit is not None
    assert (limit.identifier, limit.limit >= 1) == (f"media:{provider_setup.name}", True)
    assert limit == provider.concurrency(generation)
    assert provider.run_limit_seconds > 0
    json.dumps(dict(provider.preview_info(generation)))
    assert len(running_service.requests) == before


async def test_two_concurrent_runs_do_not_disturb_each_other(provider_setup: ProviderSetup, tmp_path: Path) -> None:
    other = ProviderSetup(provider_setup.registry, provider_setup.name, tmp_path / "other")
    other.directory.mkdir()
    for made in await asyncio.gather(provider_setup.make("one and the same"), other.make("one and the same")):
        assert len(made.files) == 1
    assert len(list(provider_setup.directory.iterdir())) == len(list(other.directory.iterdir())) == 1


async def test_logs_and_details_contain_no_secret(provider_setup: ProviderSetup, logged: io.StringIO) -> None:
    made = await provider_setup.make()
    assert SECRET not in f"{logged.getvalue()} {made.details} {provider_setup.progress}"


@pytest.mark.parametrize("name", ["leonardo", "midjourney", "lightbox"])
async def test_a_service_at_an_unused_port_is_unavailable(
    name: str, running_service: MediaService, tmp_path: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    table = {**service_table("leonardo" if name == "lightbox" else name, running_service), "base_url": nowhere}
    config = {"lightbox": {"url": nowhere}} if name == "lightbox" else {"http": {name: table}}
    async with opened(**config) as registry:
        with pytest.raises(ProviderUnavailable) as failed:
            await ProviderSetup(registry, name, tmp_path).make()
    assert (failed.value.type, failed.value.details["provider"]) == ("provider_unavailable", name)
    assert names_in(tmp_path) == []


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]
