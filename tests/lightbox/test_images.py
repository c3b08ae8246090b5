"""Images are as the nodes specify, exact to the pixel if that is defined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import Graph, Step, image_graph, node
from tests.support.comfyui.lightbox import render
from tests.support.media.clips import Pixels, blank_png, farthest, flat, frame_at, make_image


@pytest.fixture(autouse=True)
def input_image(lightbox_engine: RunningLightbox) -> Pixels:
    """The pixels of `in.png` in the folder of inputs."""
    return make_image(lightbox_engine.folders.input / "in.png")


class ImageRuns:
    """Renders graphs on a Lightbox and reads the images they save."""

    def __init__(self, engine: RunningLightbox, client: httpx.AsyncClient) -> None:
        self._engine = engine
        self._client = client

    async def files(self, graph: Graph, **request: Any) -> list[Path]:
        entry = await render(self._client, graph, client_id="studio", **request)
        assert entry["status"]["status_str"] == "success", entry["status"]["messages"][-1][1]["exception_message"]
        shown = [each for output in entry["outputs"].values() for each in output["images"]]
        roots = {"output": self._engine.folders.output, "temp": self._engine.folders.temp}
        return [roots[each["type"]] / each["subfolder"] / each["filename"] for each in shown]

    async def image(self, graph: Graph) -> Pixels:
        (file,) = await self.files(graph)
        with Image.open(file) as opened:
            return np.asarray(opened.convert("RGB"))

    async def changed(self, *steps: Step, **more: dict[str, Any]) -> Pixels:
        return await self.image(image_graph("in.png", *steps, **more))


@pytest.fixture
def image_runs(lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient) -> ImageRuns:
    return ImageRuns(lightbox_engine, lightbox_client)


async def test_invert_is_255_minus_every_value(image_runs: ImageRuns, input_image: Pixels) -> None:
    assert np.array_equal(await image_runs.changed(("ImageInvert", {})), 255 - input_image)


async def test_crop_keeps_pixels_unchanged(image_runs: ImageRuns, input_image: Pixels) -> None:
    cropped = await image_runs.changed(("ImageCrop", {"width": 20, "height": 10, "x": 30, "y": 15}))
    assert np.array_equal(cropped, input_image[15:25, 30:50])
    outside = await image_runs.changed(("ImageCrop", {"width": 9999, "height": 9999, "x": 60, "y": 40}))
    assert outside.shape == (8, 4, 3)


@pytest.mark.few_forms
@pytest.mark.parametrize("method", ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"])
async def test_scale_gives_the_size_asked_for(method: str, image_runs: ImageRuns) -> None:
    scaled = await image_runs.changed(
        ("ImageScale", {"upscale_method": method, "width": 32, "height": 32, "crop": "center"})
    )
    assert scaled.shape == (32, 32, 3)
    kept = await image_runs.changed(
        ("ImageScale", {"upscale_method": method, "width": 32, "height": 0, "crop": "disabled"})
    )
    assert kept.shape == (24, 32, 3)
    doubled = await image_runs.changed(("ImageScaleBy", {"upscale_method": method, "scale_by": 2.0}))
    assert doubled.shape == (96, 128, 3)
    assert tuple(doubled[5, 5]) == tuple(frame_at(0)[2, 2])


async def test_flip_turns_the_image_over(image_runs: ImageRuns, input_image: Pixels) -> None:
    flipped = await image_runs.changed(("ImageFlip", {"flip_method": "x-axis: vertically"}))
    assert np.array_equal(flipped, input_image[::-1])
    mirrored = await image_runs.changed(("ImageFlip", {"flip_method": "y-axis: horizontally"}))
    assert np.array_equal(mirrored, input_image[:, ::-1])


async def test_blur_softens_edges_and_sharpen_hardens_them(image_runs: ImageRuns, input_image: Pixels) -> None:
    def steepest(image: Pixels) -> int:
        return int(np.abs(np.diff(image[10].astype(int), axis=0)).max())

    blurred = await image_runs.changed(("ImageBlur", {"blur_radius": 5, "sigma": 4.0}))
    assert steepest(blurred) < steepest(input_image) / 3
    assert farthest(blurred, input_image) > 1
    sharpened = await image_runs.changed(
        ("ImageBlur", {"blur_radius": 2, "sigma": 1.0}),
        ("ImageSharpen", {"sharpen_radius": 3, "sigma": 2.0, "alpha": 2.0}),
    )
    assert steepest(sharpened) > steepest(await image_runs.changed(("ImageBlur", {"blur_radius": 2, "sigma": 1.0})))


def graded(**values: float) -> Step:
    neutral = {"brightness": 1.0, "contrast": 1.0, "gamma": 1.0, "saturation": 1.0, "warmth": 0.0}
    return ("LightboxColorGrade", {**neutral, **values})


async def test_a_grade_of_one_changes_nothing_and_other_grades_change_the_image(
    image_runs: ImageRuns, input_image: Pixels
) -> None:
    assert np.array_equal(await image_runs.changed(graded()), input_image)
    assert (await image_runs.changed(graded(brightness=0.0))).max() == 0
    grey = await image_runs.changed(graded(saturation=0.0))
    assert np.ptp(grey.astype(int), axis=2).max() <= 1
    halved = await image_runs.changed(graded(brightness=0.5))
    assert np.abs(halved.astype(int) * 2 - input_image).max() <= 1
    warm = await image_runs.changed(graded(warmth=1.0))
    assert warm[..., 0].mean() > input_image[..., 0].mean()
    assert warm[..., 2].mean() < input_image[..., 2].mean()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("normal", lambda below, above: above),
        ("multiply", lambda below, above: below * above / 255),
        ("screen", lambda below, above: 255 - (255 - below) * (255 - above) / 255),
        ("difference", lambda below, above: abs(below - above)),
    ],
)
async def test_blend_mixes_as_its_mode_says(
    mode: str, expected: Any, image_runs: ImageRuns, input_image: Pixels
) -> None:
    above = node("EmptyImage", width=32, height=32, batch_size=1, color=0x4080C0)
    blend = {"image2": ["above", 0], "blend_factor": 0.5, "blend_mode": mode}
    mixed = await image_runs.changed(("ImageBlend", blend), above=above)
    below = input_image.astype(float)
    wanted = (below + expected(below, flat(64, 48, (0x40, 0x80, 0xC0)).astype(float))) / 2
    assert np.abs(mixed - wanted).max() <= 2


async def test_an_overlay_covers_exactly_its_place(
    image_runs: ImageRuns, input_image: Pixels, lightbox_engine: RunningLightbox
) -> None:
    logo = Image.new("RGBA", (16, 16), (255, 0, 0, 255))
    logo.paste((0, 0, 0, 0), (0, 0, 8, 16))
    logo.save(lightbox_engine.folders.input / "logo.png")
    overlay = {"overlay": ["logo", 0], "mask": ["logo", 1], "position": "top-left", "size": 0.25, "opacity": 1.0}
    drawn = await image_runs.changed(("LightboxOverlay", overlay), logo=node("LoadImage", image="logo.png"))
    changed = np.argwhere((drawn != input_image).any(axis=2))
    assert changed[:, 0].max() < 20
    assert changed[:, 1].max() < 20
    # The left half of the logo is transparent.
    assert tuple(drawn[8, 14]) == (255, 0, 0)
    assert tuple(drawn[8, 4]) == tuple(input_image[8, 4])
    faint = {**overlay, "opacity": 0.5}
    half = await image_runs.changed(("LightboxOverlay", faint), logo=node("LoadImage", image="logo.png"))
    assert np.abs(half[8, 14].astype(int) - (input_image[8, 14].astype(int) + np.array((255, 0, 0))) / 2).max() <= 2


async def test_a_masked_composite_keeps_what_the_mask_leaves_out(image_runs: ImageRuns, input_image: Pixels) -> None:
    above = node("EmptyImage", width=16, height=16, batch_size=1, color=0xFF0000)
    drawn = await image_runs.changed(
        ("ImageCompositeMasked", {"source": ["above", 0], "x": 10, "y": 5, "resize_source": False}), above=above
    )
    assert (drawn[5:21, 10:26] == (255, 0, 0)).all()
    assert np.array_equal(drawn[21:], input_image[21:])


@pytest.mark.parametrize("text", ["Hello", "ünïcödé 日本語 🎬", "many words " * 40, "<b>&{{x}}</b>"])
async def test_text_is_written_at_the_bottom(
    text: str, image_runs: ImageRuns, lightbox_engine: RunningLightbox
) -> None:
    large = make_image(lightbox_engine.folders.input / "large.png", 320, 240)
    step = {"text": text, "position": "bottom", "size": 0.08, "color": "#ffff00", "opacity": 1.0}
    drawn = await image_runs.image(image_graph("large.png", ("LightboxTextOverlay", step)))
    changed = np.argwhere((drawn != large).any(axis=2))
    assert len(changed) > 50
    assert changed[:, 0].mean() > 80
    blank = await image_runs.image(image_graph("large.png", ("LightboxTextOverlay", {**step, "text": "  "})))
    assert np.array_equal(blank, large)


def imagined(text: str, seed: int, **values: Any) -> Graph:
    inputs = {"text": text, "seed": seed, "width": 96, "height": 64, "steps": 3, **values}
    return {
        "1": node("LightboxTextToImage", **inputs),
        "2": node("SaveImage", images=["1", 0], filename_prefix=f"imagined{seed}"),
    }


async def test_prompt_and_seed_decide_the_image(image_runs: ImageRuns, lightbox_client: httpx.AsyncClient) -> None:
    first = await image_runs.image(imagined("a red sunset", 1))
    await lightbox_client.post("/free", json={"free_memory": True})
    assert np.array_equal(first, await image_runs.image(imagined("a red sunset", 1)))
    for other in (imagined("a red sunset", 2), imagined("the ocean", 1), imagined("", 1)):
        image = await image_runs.image(other)
        assert image.shape == (64, 96, 3)
        assert not np.array_equal(first, image)
    assert first.std() > 20


async def test_a_batch_of_imagined_images_is_saved_one_by_one(image_runs: ImageRuns) -> None:
    files = await image_runs.files(imagined("night", 7, batch_size=3))
    assert len({file.read_bytes() for file in files}) == 3


async def test_the_graph_is_kept_in_the_image(image_runs: ImageRuns) -> None:
    graph = image_graph("in.png", prefix="kept")
    (file,) = await image_runs.files(graph, extra_data={"extra_pnginfo": {"workflow": {"id": "w"}}})
    with Image.open(file) as opened:
        kept = json.loads(opened.info["prompt"])
        assert {key: {k: v for k, v in each.items() if k != "is_changed"} for key, each in kept.items()} == graph
        assert json.loads(opened.info["workflow"]) == {"id": "w"}


async def test_images_of_every_kind_are_loaded(image_runs: ImageRuns, lightbox_engine: RunningLightbox) -> None:
    made = {
        "grey16.png": Image.fromarray(np.full((8, 8), 32896, np.uint16)),
        "palette.gif": Image.new("P", (8, 8), 3),
        "cmyk.jpg": Image.new("CMYK", (8, 8)),
        "transparent.webp": Image.new("RGBA", (8, 8), (10, 20, 30, 0)),
        "one bit.bmp": Image.new("1", (8, 8), 1),
    }
    for name, image in made.items():
        image.save(lightbox_engine.folders.input / name)
        assert (await image_runs.image(image_graph(name))).shape == (8, 8, 3)
    assert (await image_runs.image(image_graph("grey16.png")))[0, 0, 0] == 128
    turned = Image.new("RGB", (16, 8))
    exif = turned.getexif()
    exif[274] = 6
    turned.save(lightbox_engine.folders.input / "turned.jpg", exif=exif)
    assert (await image_runs.image(image_graph("turned.jpg"))).shape == (16, 8, 3)


async def test_an_animated_image_is_a_batch(image_runs: ImageRuns, lightbox_engine: RunningLightbox) -> None:
    images = [Image.fromarray(frame_at(index * 20)) for index in range(5)]
    images[0].save(lightbox_engine.folders.input / "anim.webp", save_all=True, append_images=images[1:], lossless=True)
    files = await image_runs.files(image_graph("anim.webp", ("ImageInvert", {})))
    assert len(files) == 5
    with Image.open(files[4]) as last:
        assert np.array_equal(np.asarray(last), 255 - frame_at(80))


async def test_masks_become_images(image_runs: ImageRuns, lightbox_engine: RunningLightbox) -> None:
    Image.new("RGBA", (8, 8), (200, 100, 50, 64)).save(lightbox_engine.folders.input / "mask.png")
    for channel, value in (("red", 200), ("blue", 50), ("alpha", 191)):
        graph = {
            "1": node("LoadImageMask", image="mask.png", channel=channel),
            "2": node("MaskToImage", mask=["1", 0]),
            "3": node("SaveImage", images=["2", 0], filename_prefix="mask"),
        }
        assert (await image_runs.image(graph) == value).all()


@pytest.mark.thorough
async def test_an_image_too_large_for_memory_is_an_error_of_the_run(lightbox_client: httpx.AsyncClient) -> None:
    # 400 megapixels of nothing in a few kilobytes: Pillow refuses to unpack it.
    await lightbox_client.post("/upload/image", files={"image": ("bomb.png", blank_png(20_000))})
    entry = await render(lightbox_client, image_graph("bomb.png"))
    last = entry["status"]["messages"][-1]
    assert last[0] == "execution_error"
    assert "DecompressionBomb" in last[1]["exception_type"]
