"""Videos keep their frames, their length and their sound."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import psutil
import pytest
from PIL import Image, ImageSequence

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import Graph, Step, node, video_graph
from tests.support.comfyui.lightbox import finished, lightbox_process, render
from tests.support.media.clips import TONE, Pixels, Seen, decode, farthest, frame_at, make_clip, make_image
from tests.support.waiting import until

# What the codecs may do to large areas of one colour.
TOLERANCE = 4


@pytest.fixture(autouse=True, scope="module")
def source_clip(lightbox_engine: RunningLightbox) -> Path:
    path = lightbox_engine.folders.input / "in.mp4"
    make_clip(path)
    make_clip(lightbox_engine.folders.input / "brief.mp4", frames=6)
    make_image(lightbox_engine.folders.input / "in.png")
    return path


def shown(position: int) -> Pixels:
    """The frame of the clip at that place."""
    return frame_at(position, 160, 120)


class VideoRuns:
    """Renders graphs on a Lightbox and decodes the video they save."""

    def __init__(self, engine: RunningLightbox, client: httpx.AsyncClient) -> None:
        self.engine = engine
        self.client = client

    async def file(self, graph: Graph) -> Path:
        entry = await render(self.client, graph, client_id="cinema")
        assert entry["status"]["status_str"] == "success", entry["status"]["messages"][-1][1]["exception_message"]
        (found,) = [each for output in entry["outputs"].values() for each in output["images"]]
        return self.engine.folders.output / str(found["subfolder"]) / str(found["filename"])

    async def seen(self, graph: Graph) -> Seen:
        return await asyncio.to_thread(decode, await self.file(graph))


@pytest.fixture
async def video_runs(lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient) -> AsyncIterator[VideoRuns]:
    """Renders videos; no run leaves an unfinished file."""
    yield VideoRuns(lightbox_engine, lightbox_client)
    assert list(lightbox_engine.folders.output.rglob("*.part")) == []


async def test_an_inverted_video_has_every_frame_the_length_and_the_sound(
    video_runs: VideoRuns, source_clip: Path
) -> None:
    before, after = decode(source_clip), await video_runs.seen(video_graph("in.mp4", ("ImageInvert", {})))
    assert len(after.frames) == len(before.frames) == 24
    assert after.rate == before.rate == 12
    for mine, theirs in zip(after.frames, before.frames, strict=True):
        assert farthest(mine, 255 - theirs) < TOLERANCE
    assert (after.video_codec, after.sound_codec) == ("h264", "aac")
    assert after.sound_seconds == pytest.approx(before.seconds, abs=0.1)
    assert after.pitch == pytest.approx(TONE, abs=3)
    assert after.loudness == pytest.approx(before.loudness, rel=0.2)


@pytest.mark.parametrize(("format", "codecs"), [("mp4", ("h264", "aac")), ("webm", ("vp9", "opus"))])
async def test_a_video_is_saved_in_each_format_with_its_sound(
    format: str, codecs: tuple[str, str], video_runs: VideoRuns
) -> None:
    after = await video_runs.seen(video_graph("in.mp4", ("ImageInvert", {}), format=format))
    assert (after.video_codec, after.sound_codec) == codecs
    assert len(after.frames) == 24
    assert after.pitch == pytest.approx(TONE, abs=3)
    assert farthest(after.frames[5], 255 - shown(5)) < TOLERANCE * 2


# One that slows down and one that speeds up; `make test-all` tries more.
SPEEDS = [
    (0.5, 48),
    (3.0, 8),
    pytest.param(0.3, 80, marks=pytest.mark.thorough),
    pytest.param(2.0, 12, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("speed", "frames"), SPEEDS)
async def test_speed_changes_the_length_and_keeps_rate_and_pitch(
    speed: float, frames: int, video_runs: VideoRuns
) -> None:
    graph = {
        "1": node("LoadVideo", file="in.mp4"),
        "2": node("LightboxVideoSpeed", video=["1", 0], speed=speed),
        "3": node("SaveVideo", video=["2", 0], filename_prefix="speed", format="mp4", codec="h264"),
    }
    after = await video_runs.seen(graph)
    assert len(after.frames) == frames
    assert after.rate == 12
    assert after.sound_seconds == pytest.approx(2 / speed, abs=0.15)
    assert after.pitch == pytest.approx(TONE, rel=0.03)
    assert farthest(after.frames[0], shown(0)) < TOLERANCE
    graph["2"]["inputs"]["keep_audio"] = False
    assert (await video_runs.seen(graph)).sound_codec is None


async def test_every_effect_works_on_frames_as_on_images(video_runs: VideoRuns) -> None:
    steps = (
        ("ImageScale", {"upscale_method": "bicubic", "width": 128, "height": 96, "crop": "disabled"}),
        ("ImageCrop", {"width": 101, "height": 75, "x": 4, "y": 4}),
        ("ImageBlur", {"blur_radius": 2, "sigma": 1.0}),
        ("ImageSharpen", {"sharpen_radius": 1, "sigma": 1.0, "alpha": 0.5}),
        ("LightboxColorGrade", {"brightness": 1.1, "contrast": 1.1, "gamma": 1.0, "saturation": 0.5, "warmth": 0.2}),
        ("ImageBlend", {"image2": ["other", 0], "blend_factor": 0.2, "blend_mode": "soft_light"}),
        ("LightboxOverlay", {"overlay": ["other", 0], "position": "bottom-right", "size": 0.3, "opacity": 0.8}),
        ("LightboxTextOverlay", {"text": "Ü", "position": "top", "size": 0.2, "color": "white", "opacity": 1.0}),
    )
    after = await video_runs.seen(video_graph("in.mp4", *steps, other=node("LoadImage", image="in.png")))
    # An odd size is made even: nothing is cut off.
    assert after.frames[0].shape == (76, 102, 3)
    assert len(after.frames) == 24


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "step",
    [
        ("ImageScale", {"upscale_method": "lanczos", "width": 80, "height": 60, "crop": "center"}),
        ("ImageCrop", {"width": 80, "height": 60, "x": 8, "y": 8}),
        ("ImageFlip", {"flip_method": "x-axis: vertically"}),
        ("ImageBlur", {"blur_radius": 3, "sigma": 2.0}),
        ("RepeatImageBatch", {"amount": 1}),
        ("LightboxFirstFrame", {}),
    ],
    ids=lambda step: step[0],
)
async def test_an_effect_may_be_the_last_before_the_file(step: Step, video_runs: VideoRuns) -> None:
    for format in ("mp4", "webm"):
        after = await video_runs.seen(video_graph("brief.mp4", step, format=format))
        assert len(after.frames) == (1 if step[0] == "LightboxFirstFrame" else 6)


async def test_two_videos_are_blended_frame_by_frame(video_runs: VideoRuns, lightbox_engine: RunningLightbox) -> None:
    make_clip(lightbox_engine.folders.input / "short.mp4", frames=6, sound=False)
    more = {"load2": node("LoadVideo", file="short.mp4"), "parts2": node("GetVideoComponents", video=["load2", 0])}
    blend = {"image2": ["parts2", 0], "blend_factor": 1.0, "blend_mode": "normal"}
    after = await video_runs.seen(video_graph("in.mp4", ("ImageBlend", blend), **more))
    assert len(after.frames) == 24
    assert farthest(after.frames[3], shown(3)) < TOLERANCE
    assert farthest(after.frames[20], shown(5)) < TOLERANCE


async def test_an_untouched_video_is_copied_without_a_loss(video_runs: VideoRuns, source_clip: Path) -> None:
    graph = {
        "1": node("LoadVideo", file="in.mp4"),
        "2": node("SaveVideo", video=["1", 0], filename_prefix="copy", format="auto", codec="auto"),
    }
    after, before = await video_runs.seen(graph), decode(source_clip)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(after.frames, before.frames, strict=True))
    assert after.sound_seconds == pytest.approx(before.sound_seconds, abs=0.05)


async def test_sound_after_a_gap_stays_in_sync(video_runs: VideoRuns, lightbox_engine: RunningLightbox) -> None:
    make_clip(lightbox_engine.folders.input / "hole.mkv", hole=(0.5, 1.5))
    after = await video_runs.seen(video_graph("hole.mkv", ("ImageInvert", {})))
    assert len(after.frames) == 24
    assert after.sound_seconds == pytest.approx(2.0, abs=0.1)


async def test_a_video_without_sound_stays_without(video_runs: VideoRuns, lightbox_engine: RunningLightbox) -> None:
    make_clip(lightbox_engine.folders.input / "mute.mp4", sound=False)
    after = await video_runs.seen(video_graph("mute.mp4", ("ImageInvert", {})))
    assert (len(after.frames), after.sound_codec) == (24, None)


def saved_as(name: str, **inputs: Any) -> Graph:
    return {
        "1": node("LoadVideo", file="in.mp4"),
        "2": node("GetVideoComponents", video=["1", 0]),
        "3": node(name, images=["2", 0], filename_prefix="anim", **inputs),
    }


@pytest.mark.parametrize(
    ("name", "inputs", "tolerance"),
    [
        ("SaveAnimatedWEBP", {"fps": 12.0, "lossless": True, "quality": 80, "method": "fastest"}, 0),
        ("SaveAnimatedWEBP", {"fps": 12.0, "lossless": False, "quality": 90, "method": "default"}, 12),
        ("SaveAnimatedPNG", {"fps": 12.0, "compress_level": 4}, 0),
        ("LightboxSaveGIF", {"fps": 12.5}, 4),
    ],
)
async def test_an_animation_shows_every_frame(
    name: str, inputs: dict[str, Any], tolerance: float, video_runs: VideoRuns
) -> None:
    reference = await video_runs.file(
        saved_as("SaveAnimatedWEBP", fps=12.0, lossless=True, quality=80, method="fastest")
    )
    file = await video_runs.file(saved_as(name, **inputs))
    with Image.open(file) as animation, Image.open(reference) as exact:
        images = [np.asarray(each.convert("RGB")) for each in ImageSequence.Iterator(animation)]
        wanted = [np.asarray(each.convert("RGB")) for each in ImageSequence.Iterator(exact)]
        assert animation.info.get("loop") == 0
        seconds = sum(length(each) for each in ImageSequence.Iterator(animation)) / 1000
    assert seconds == pytest.approx(24 / inputs["fps"], abs=0.1)
    # An encoder that may lose something joins frames that look alike.
    assert len(images) == 24 or inputs.get("lossless") is False
    for mine, theirs in ((images[0], wanted[0]), (images[-1], wanted[-1])):
        assert farthest(mine, theirs) <= tolerance
        assert tolerance > 0 or np.array_equal(mine, theirs)


def length(image: Image.Image) -> float:
    # Pillow knows the duration of a WebP image only after it was decoded.
    image.load()
    return float(image.info["duration"])


@pytest.mark.parametrize("codec", ["vp9", "av1"])
async def test_images_become_a_webm_without_output_of_the_encoder(
    codec: str, video_runs: VideoRuns, capfd: pytest.CaptureFixture[str]
) -> None:
    after = await video_runs.seen(saved_as("SaveWEBM", codec=codec, fps=24.0, crf=30.0))
    assert "Svt" not in capfd.readouterr().err
    assert len(after.frames) == 24
    assert after.rate == 24
    assert farthest(after.frames[3], shown(3)) < TOLERANCE * 2


async def test_a_video_held_upright_stays_upright(video_runs: VideoRuns, lightbox_engine: RunningLightbox) -> None:
    path = lightbox_engine.folders.input / "upright.mp4"
    make_clip(path, frames=4)
    content = bytearray(path.read_bytes())
    # The turn of a telephone is a matrix in the track's header, 40 bytes behind its name.
    matrix = content.index(b"tkhd") + 4 + 40
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    path.write_bytes(bytes(content))
    after = await video_runs.seen(video_graph("upright.mp4", ("ImageInvert", {})))
    assert after.frames[0].shape == (160, 120, 3)
    # A quarter turn with the clock: what was at the top left is at the top right.
    assert farthest(after.frames[0], 255 - np.rot90(shown(0), -1)) < TOLERANCE


async def test_a_video_of_changing_rate_stays_with_its_sound(
    video_runs: VideoRuns, lightbox_engine: RunningLightbox
) -> None:
    path = lightbox_engine.folders.input / "changing.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        # Half a second at 30 frames, then a second and a half at 10.
        for position, time in enumerate([*(n / 30 for n in range(15)), *(0.5 + n / 10 for n in range(15))]):
            frame = av.VideoFrame.from_ndarray(shown(position), format="rgb24")
            frame.pts, frame.time_base = round(time * 30), Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    after = await video_runs.seen(video_graph("changing.mp4", ("ImageInvert", {})))
    assert after.seconds == pytest.approx(2.0, abs=0.15)


async def test_hd_colours_come_back_as_they_were(video_runs: VideoRuns, lightbox_engine: RunningLightbox) -> None:
    make_clip(lightbox_engine.folders.input / "hd.mp4", frames=2, width=1280, height=720, sound=False)
    file = await video_runs.file(video_graph("hd.mp4", ("ImageInvert", {}), ("ImageInvert", {})))
    with av.open(str(file)) as container:
        frame = next(container.decode(video=0))
        assert int(frame.colorspace) == 1


async def test_a_bad_file_is_an_error_of_the_node_that_opens_it(lightbox_client: httpx.AsyncClient) -> None:
    for name, content in (("bad.mp4", b"nothing of a video" * 30), ("empty.mp4", b""), ("in.txt", b"text")):
        await lightbox_client.post("/upload/image", files={"image": (name, content)}, data={"overwrite": "1"})
        entry = await render(lightbox_client, video_graph(name))
        event, failure = entry["status"]["messages"][-1]
        assert (event, failure["node_id"], failure["node_type"]) == ("execution_error", "load", "LoadVideo")


async def test_a_video_cut_off_in_the_middle_does_not_end_the_engine(
    lightbox_client: httpx.AsyncClient, source_clip: Path
) -> None:
    whole = await asyncio.to_thread(source_clip.read_bytes)
    for length in (len(whole) // 2, len(whole) - 100):
        await lightbox_client.post(
            "/upload/image", files={"image": ("cut.mp4", whole[:length])}, data={"overwrite": "1"}
        )
        entry = await render(lightbox_client, video_graph("cut.mp4", ("ImageInvert", {})))
        assert entry["status"]["status_str"] in ("success", "error")
    assert (await render(lightbox_client, video_graph("in.mp4")))["status"]["status_str"] == "success"


async def test_an_interrupted_save_stops_at_once_and_leaves_nothing(
    video_runs: VideoRuns, lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    graph = {
        "1": node("EmptyImage", width=1280, height=720, batch_size=4096, color=7),
        "2": node("CreateVideo", images=["1", 0], fps=24.0),
        "3": node("SaveVideo", video=["2", 0], filename_prefix="long", format="mp4", codec="auto"),
    }
    prompt_id = (await lightbox_client.post("/prompt", json={"prompt": graph})).json()["prompt_id"]
    await until(lambda: list(lightbox_engine.folders.output.glob(".*.part")))
    await lightbox_client.post("/interrupt", json={"prompt_id": prompt_id})
    entry = await finished(lightbox_client, prompt_id)
    assert entry["status"]["messages"][-1][0] == "execution_interrupted"
    assert list(lightbox_engine.folders.output.glob("*long*")) == []


@pytest.mark.thorough
async def test_a_long_video_does_not_fill_the_memory(tmp_path: Path) -> None:
    # 200 frames of 720p are 553 MB as images.
    graph = {
        "1": node("EmptyImage", width=1280, height=720, batch_size=200, color=7),
        "2": node("CreateVideo", images=["1", 0], fps=24.0),
        "3": node("SaveVideo", video=["2", 0], filename_prefix="source", format="mp4", codec="auto"),
    }
    async with (
        lightbox_process(tmp_path / "engine") as process,
        httpx.AsyncClient(base_url=process.url, timeout=60) as client,
    ):
        resident = psutil.Process(process.pid)
        await render(client, graph)
        (process.directory / "output" / "source_00001_.mp4").rename(process.directory / "input" / "source.mp4")
        before = resident.memory_info().rss
        peak = before

        async def is_done() -> bool:
            nonlocal peak
            peak = max(peak, resident.memory_info().rss)
            return bool((await client.get("/history/long")).json())

        await client.post(
            "/prompt", json={"prompt": video_graph("source.mp4", ("ImageInvert", {})), "prompt_id": "long"}
        )
        await until(is_done)
        assert (await client.get("/history/long")).json()["long"]["status"]["status_str"] == "success"
    assert peak - before < 200 * 1024 * 1024
