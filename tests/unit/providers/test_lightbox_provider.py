"""An engine that the task worker itself talks to: a real Lightbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from PIL import Image

from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Generation, Made, MadeFile, SyncProvider
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.providers.media_providers import HERE, ProgressLog, opened
from tests.support.providers.media_service import HTML, MediaService, endless, media_service, redirected, responding
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def engine_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with lightbox_here(tmp_path_factory.mktemp("engine")) as engine:
        yield engine.url


@pytest.fixture
async def service() -> AsyncIterator[MediaService]:
    async with media_service() as service:
        yield service


async def made(url: str, directory: Path, generation: Generation, networks: Any = HERE, **config: Any) -> Made:
    async with opened(lightbox={"url": url, **config}, networks=networks) as registry:
        provider = cast("SyncProvider", registry.media["lightbox"])
        assert list(provider.problems(generation)) == []
        return await provider.generate(generation, directory, ProgressLog())


def image_in(file: MadeFile) -> Image.Image:
    with Image.open(file.path) as image:
        return image.convert("RGB")


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def graph(seconds: float = 0, class_type: str = "ProbeSleep") -> dict[str, Any]:
    return {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 32, "batch_size": 1, "color": 255}},
        "2": {
            "class_type": class_type,
            "inputs": {"image": ["1", 0], "seconds": seconds, "steps": 10000, "preview": False},
        },
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "mine"}},
    }


async def test_a_prompt_becomes_the_requested_number_of_images_of_the_requested_size(
    engine_url: str, tmp_path: Path
) -> None:
    wanted = {"width": 64, "height": 48, "batch_size": 2, "seed": 9, "steps": 1}
    result = await made(engine_url, tmp_path, Generation("txt2img", "hills", wanted))
    assert [image_in(file).size for file in result.files] == [(64, 48)] * 2
    assert result.details == {"params": wanted}


async def test_an_image_is_changed_by_a_prompt(engine_url: str, service: MediaService, tmp_path: Path) -> None:
    given = Image.new("RGB", (40, 30), "red")
    content = BytesIO()
    given.save(content, "PNG")
    params = {"image_url": service.file("red.png", content.getvalue()), "strength": 0}
    [file] = (await made(engine_url, tmp_path, Generation("img2img", "hills", params))).files
    assert image_in(file).tobytes() == given.tobytes()
    [other] = (await made(engine_url, tmp_path, Generation("img2img", "hills", {**params, "strength": 1}))).files
    assert image_in(other).tobytes() != given.tobytes()


@pytest.mark.parametrize("address", ["inner", "redirect", "page", "endless", "nowhere"])
async def test_an_image_that_must_not_be_fetched_fails_the_task_and_not_the_engine(
    engine_url: str, service: MediaService, tmp_path: Path, address: str
) -> None:
    url = service.file("picture.png", HTML)
    if address == "redirect":
        service.always["file"] = redirected("http://169.254.169.254/latest/meta-data/")
    elif address == "endless":
        service.always["file"] = endless
    elif address == "nowhere":
        url = "http://127.0.0.1:1/"
    networks = () if address == "inner" else HERE
    generation = Generation("img2img", "hills", {"image_url": url})
    with pytest.raises(ProviderError) as failed:
        await made(engine_url, tmp_path, generation, networks, max_input_bytes=100_000)
    assert (failed.value.type, failed.value.retryable) == ("input_unreadable", False)
    assert not isinstance(failed.value, ProviderUnavailable)
    assert names_in(tmp_path) == []


async def test_an_image_in_the_installations_own_storage_is_fetched_also_in_a_private_network(
    engine_url: str, service: MediaService, tmp_path: Path
) -> None:
    content = BytesIO()
    Image.new("RGB", (40, 30), "red").save(content, "PNG")
    url = service.file("red.png", content.getvalue())
    generation = Generation("img2img", "hills", {"image_url": url}, own_url=url)
    [file] = (await made(engine_url, tmp_path, generation, networks=())).files
    assert image_in(file).size == (40, 30)
    file.path.unlink()
    service.always["file"] = redirected(service.file("other.png", content.getvalue()))
    with pytest.raises(ProviderError) as failed:
        await made(engine_url, tmp_path, generation, networks=())
    assert (failed.value.type, failed.value.retryable) == ("input_unreadable", False)
    # A storage that is unavailable for a moment does not mean that the image is bad.
    service.always["file"] = responding(503)
    with pytest.raises(ProviderError) as passing:
        await made(engine_url, tmp_path, generation, networks=())
    assert (passing.value.type, passing.value.retryable) == ("input_unreadable", True)
    assert not isinstance(passing.value, ProviderUnavailable)


async def test_a_users_own_graph_runs_if_the_settings_allow_it(engine_url: str, tmp_path: Path) -> None:
    generation = Generation("graph", "", {"graph": graph(), "output_node": "3"})
    [file] = (await made(engine_url, tmp_path, generation, allow_graphs=True)).files
    assert image_in(file).size == (64, 32)
    async with opened(lightbox={"url": engine_url}) as registry:
        assert registry.media["lightbox"].actions == {"txt2img", "img2img"}


@pytest.mark.parametrize(
    ("params", "field", "reason"),
    [
        ({}, "params.graph", "This field is required."),
        ({"graph": {}}, "params.graph", "The workflow has no nodes."),
        ({"graph": {"1": {"class_type": "X"}}}, "params.graph", "Node 1 of the workflow has no inputs."),
        (
            {"graph": {"1": {"class_type": "LoadImage", "inputs": {"image": "/etc/passwd"}}}},
            "params.graph",
            "Node 1 names a file outside the engine's folders.",
        ),
        ({"graph": graph(), "output_node": "9"}, "params.output_node", "The graph has no such node."),
        ({"graph": graph(), "output_node": 3}, "params.output_node", "The value must be a text."),
        (
            {"graph": graph(), "seed": 3},
            "params.seed",
            "The action graph has no such parameter. Available: graph, output_node.",
        ),
    ],
)
async def test_a_graph_that_no_engine_should_get_is_refused_by_field(
    params: dict[str, Any], field: str, reason: str
) -> None:
    async with opened(lightbox={"url": "http://127.0.0.1:1", "allow_graphs": True}) as registry:
        problems = registry.media["lightbox"].problems(Generation("graph", "", params))
        assert [(each.field, each.reason) for each in problems] == [(field, reason)]


async def test_a_run_that_is_stopped_or_takes_too_long_is_stopped_at_the_engine(
    engine_url: str, tmp_path: Path
) -> None:
    slow = Generation("graph", "", {"graph": graph(seconds=600)})
    async with httpx.AsyncClient(base_url=engine_url, trust_env=False, timeout=60) as client:

        async def running() -> bool:
            return bool((await client.get("/queue")).json()["queue_running"])

        run = asyncio.create_task(made(engine_url, tmp_path, slow, allow_graphs=True))
        await until(running)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not await running()
        with pytest.raises(ProviderError) as failed:
            await made(engine_url, tmp_path, slow, allow_graphs=True, limit_seconds=1)
        assert (failed.value.type, failed.value.retryable) == ("run_limit", False)
        assert not await running()


async def test_a_graph_that_the_engine_refuses_is_not_retried(engine_url: str, tmp_path: Path) -> None:
    unknown = Generation("graph", "", {"graph": graph(class_type="NoSuchNode")})
    with pytest.raises(ProviderError) as failed:
        await made(engine_url, tmp_path, unknown, allow_graphs=True)
    assert not failed.value.retryable
    assert not isinstance(failed.value, ProviderUnavailable)
