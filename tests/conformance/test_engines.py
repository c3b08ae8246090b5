"""Requirements for the provider of every engine: a successful run, and its results."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tracemalloc
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from PIL import Image

from callsheet.providers.comfy.outputs import mime_type_of, public_names
from callsheet.providers.engine import Output
from tests.support.comfyui.engine_setups import EngineSetup, LightboxServer, graph_of, held_graph, new_run
from tests.support.comfyui.graphs import node
from tests.support.comfyui.replaying_engine import PNG
from tests.support.waiting import until

# The colour of the images in the recorded graphs.
COLOUR = (0x29, 0x97, 0xFB)
MEGABYTE = 1_048_576


async def fetched(engine_setup: EngineSetup, output: Output, folder: Path) -> bytes:
    target = folder / "fetched"
    got = await engine_setup.engine.fetch(output, target)
    content = await asyncio.to_thread(target.read_bytes)
    assert (got.size, got.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    return content


def colour_of(content: bytes) -> tuple[int, ...]:
    with Image.open(io.BytesIO(content)) as image:
        return tuple(np.asarray(image.convert("RGB")).reshape(-1, 3).mean(axis=0).round().astype(int).tolist())


def streams_of(content: bytes) -> dict[str, int]:
    """How many frames a decoder finds in each kind of stream."""
    with av.open(io.BytesIO(content)) as container:
        return {stream.type: sum(1 for _ in _opened(content).decode(stream)) for stream in container.streams}


def _opened(content: bytes) -> Any:
    return av.open(io.BytesIO(content))


async def test_an_image_comes_back_as_it_was_made(engine_setup: EngineSetup, tmp_path: Path) -> None:
    [first, *_] = await engine_setup.run("SaveImage_batch3")
    content = await fetched(engine_setup, first, tmp_path)
    if engine_setup.is_recorded:
        assert content == PNG
    else:
        assert colour_of(content) == COLOUR


async def test_a_run_reports_one_start_progress_and_images(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin()
    await until(lambda: engine_setup.seen.previews)
    engine_setup.engine_server.release()
    await running
    assert engine_setup.seen.starts == 1
    assert engine_setup.seen.messages[-1] == "SaveImage"
    percents = [percent or 0 for percent in engine_setup.seen.percents]
    assert percents == sorted(percents)
    assert 0 <= percents[0] < percents[-1] < 100
    assert {kind for kind, _ in engine_setup.seen.previews} == {"image/jpeg"}


async def test_several_outputs_come_in_order(engine_setup: EngineSetup) -> None:
    outputs = await engine_setup.run("SaveImage_batch3")
    assert [output.name for output in outputs] == [f"multi_0000{number}_.png" for number in (1, 2, 3)]


@pytest.mark.parametrize("recorded_engine_setup", ["self_hosted"], indirect=True)
async def test_a_run_whose_messages_all_came_needs_no_look_at_the_history(
    recorded_engine_setup: EngineSetup,
) -> None:
    recorded = recorded_engine_setup.recorded
    await recorded_engine_setup.run("SaveImage_batch3")
    assert [path for method, path, _ in recorded.calls if method == "GET" and "/history/" in path] == []
    # A connection that was lost may have lost messages.
    running = recorded_engine_setup.begin()
    await until(lambda: recorded_engine_setup.seen.previews)
    recorded_engine_setup.line.drop()
    await until(lambda: recorded.sockets)
    recorded_engine_setup.engine_server.release()
    assert len(await running) == 3
    assert [path for method, path, _ in recorded.calls if method == "GET" and "/history/" in path] != []


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("shape", "name", "kind", "streams"),
    [
        ("CreateVideo_SaveVideo", "3", "video/mp4", {"video": 12}),
        ("SaveWEBM", "2", "video/webm", {"video": 6}),
        ("SaveAnimatedWEBP", "2", "image/webp", None),
        ("EmptyAudio_SaveAudio_flac", "2", "audio/flac", None),
        ("SaveAudioMP3", "2", "audio/mpeg", None),
        ("PreviewImage_temp", "2", "image/png", {"video": 1}),
    ],
)
async def test_every_kind_of_output_is_found_whatever_its_node_calls_it(
    engine_setup: EngineSetup, tmp_path: Path, shape: str, name: str, kind: str, streams: dict[str, int] | None
) -> None:
    [output] = await engine_setup.run(shape, output_node=name)
    assert mime_type_of(output.name) == kind
    content = await fetched(engine_setup, output, tmp_path)
    if engine_setup.is_recorded:
        assert content == PNG
    elif streams is not None:
        assert streams_of(content) == streams
    elif kind == "image/webp":
        assert colour_of(content) == COLOUR
    else:
        assert streams_of(content)["audio"] > 1


async def test_a_text_becomes_a_file(engine_setup: EngineSetup, tmp_path: Path) -> None:
    [output] = await engine_setup.run("ProbeUI_text")
    assert (await fetched(engine_setup, output, tmp_path)).decode() == "hello\nwörld"
    assert mime_type_of(output.name) == "text/plain"


async def test_saved_files_are_preferred_to_temporary_files_if_no_output_node_is_named(
    engine_setup: EngineSetup,
) -> None:
    outputs = await engine_setup.run("only_preview_and_save", output_node=None)
    assert [output.name for output in outputs] == ["final_00001_.png"]


async def test_images_sent_only_over_the_socket_are_outputs(engine_setup: EngineSetup, tmp_path: Path) -> None:
    outputs = await engine_setup.run("websocket")
    assert [output.name for output in outputs] == ["picture-2-00001.png", "picture-2-00002.png"]
    for output in reversed(outputs):
        content = await fetched(engine_setup, output, tmp_path)
        if engine_setup.is_recorded:
            assert content == PNG
        else:
            assert colour_of(content) == (0x29, 0x98, 0x1B)


async def test_a_run_whose_images_were_lost_with_the_socket_may_be_retried(
    engine_setup: EngineSetup,
) -> None:
    graph = held_graph() | {"2": node("SaveImageWebsocket", images=["3", 0])}
    running = engine_setup.begin(new_run(graph))
    await until(lambda: engine_setup.seen.previews)
    engine_setup.line.drop()
    engine_setup.engine_server.release()
    [error] = await asyncio.gather(running, return_exceptions=True)
    assert (error.type, error.retryable) == ("output_lost", True)
    assert "SaveImage" in error.message


@pytest.mark.thorough
async def test_a_huge_output_is_written_in_chunks(engine_setup: EngineSetup, tmp_path: Path) -> None:
    if engine_setup.is_recorded:
        engine_setup.recorded.content = bytes(range(256)) * 65_536
        [output, *_] = await engine_setup.run("SaveImage_batch3")
        min_size = 16 * MEGABYTE
    else:
        # Noise, which no encoder makes smaller.
        image = tmp_path / "noise.png"
        noise = np.random.default_rng(1).integers(0, 256, (1200, 1600, 3), np.uint8)
        await asyncio.to_thread(Image.fromarray(noise).save, image, compress_level=0)
        reference = await engine_setup.engine.upload(image, "noise.png", "run-1")
        graph = {"1": node("LoadImage", image=reference), "2": node("SaveImage", images=["1", 0], filename_prefix="x")}
        [output] = await engine_setup.engine.run(new_run(graph), engine_setup.seen)
        min_size = 5 * MEGABYTE
    tracemalloc.start()
    try:
        got = await engine_setup.engine.fetch(output, tmp_path / "huge")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert got.size >= min_size
    assert (tmp_path / "huge").stat().st_size == got.size
    assert peak < 4 * MEGABYTE


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "prefix", ["日本 語 ü", "../../../etc/passwd", "a..b", 'q"; rm -rf /', "C:\\x\\y", "%batch_num%"]
)
async def test_an_output_of_any_name_is_delivered_from_the_runs_own_folder(
    engine_setup: EngineSetup, tmp_path: Path, prefix: str
) -> None:
    save = node("SaveImage", images=["1", 0], filename_prefix=prefix)
    run = new_run(graph_of("SaveImage_batch3") | {"2": save})
    [output, *_] = await engine_setup.engine.run(run, engine_setup.seen)
    assert output.folder == f"callsheet/{run.id}"
    assert len(await fetched(engine_setup, output, tmp_path)) > 100
    [public] = public_names([output])
    assert "/" not in public
    assert ".." not in public


async def test_recorded_unicode_names_come_back_as_they_are(recorded_engine_setup: EngineSetup, tmp_path: Path) -> None:
    [output] = await recorded_engine_setup.run("SaveImage_unicode_space")
    assert output.name == "日本 語 ü_00001_.png"
    assert await fetched(recorded_engine_setup, output, tmp_path) == PNG
    assert public_names([output]) == ["日本 語 ü_00001_.png"]


@pytest.mark.parametrize(
    ("shape", "kind"), [("ProbeUI_gifs_like_VHS", "video/mp4"), ("SaveLatent", "application/octet-stream")]
)
async def test_outputs_of_custom_nodes_are_found_too(
    recorded_engine_setup: EngineSetup, tmp_path: Path, shape: str, kind: str
) -> None:
    [output] = await recorded_engine_setup.run(shape)
    assert mime_type_of(output.name) == kind
    assert await fetched(recorded_engine_setup, output, tmp_path) == PNG


@pytest.mark.few_forms
@pytest.mark.parametrize("name", ["clip.png", "日本 語.png", 'a"b;c\r\n.png', "x" * 120 + ".png"])
async def test_any_file_name_can_be_uploaded_and_rendered(engine_setup: EngineSetup, tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    await asyncio.to_thread(Image.new("RGB", (8, 8), (1, 200, 3)).save, path, "PNG")
    reference = await engine_setup.engine.upload(path, name, "run-1")
    assert reference.startswith("callsheet/run-1/") is not engine_setup.as_cloud
    if engine_setup.is_recorded:
        assert path.read_bytes() in engine_setup.recorded.files.values()
        return
    graph = {"1": node("LoadImage", image=reference), "2": node("SaveImage", images=["1", 0], filename_prefix="x")}
    [output] = await engine_setup.engine.run(new_run(graph), engine_setup.seen)
    assert colour_of(await fetched(engine_setup, output, tmp_path)) == (1, 200, 3)


async def test_the_engines_own_id_of_a_run_can_be_looked_up(engine_setup: EngineSetup) -> None:
    run = new_run()
    await engine_setup.engine.run(run, engine_setup.seen)
    name = engine_setup.engine.id_of(run.id)
    assert (name == run.id) is not engine_setup.as_cloud
    if isinstance(engine_setup.engine_server, LightboxServer):
        path = f"/api/jobs/{name}"
        async with httpx.AsyncClient(
            base_url=engine_setup.engine_server.url, headers={"X-API-Key": engine_setup.key}, timeout=60
        ) as client:
            assert (await client.get(path)).json()["status"] == "completed"
    else:
        assert name in engine_setup.recorded.history


async def test_a_finished_run_is_forgotten_without_an_error_also_if_the_engine_is_gone(
    engine_setup: EngineSetup,
) -> None:
    await engine_setup.run("SaveImage_batch3")
    await engine_setup.kill()
    await engine_setup.engine.forget("run-1")
    await engine_setup.engine.cancel("run-1")
    await engine_setup.start()
