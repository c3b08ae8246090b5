"""Writes animated images frame by frame. Pillow would hold all of them until the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from callsheet_lightbox.media.clips import Step
from callsheet_lightbox.media.frames import Frame, Frames

COLOURS = 256
# WebP counts time in milliseconds, GIF in hundredths of a second.
RATE_DENOMINATOR = 1000


@dataclass(frozen=True)
class Style:
    """How a kind of animation is encoded."""

    container: str
    codec: str
    pixels: str
    frame: Callable[[Frame], VideoFrame]
    options: Mapping[str, str]
    container_options: Mapping[str, str]


def _plain(image: Frame) -> VideoFrame:
    return VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")


def _with_palette(image: Frame) -> VideoFrame:
    """A frame with its own palette of 256 colors."""
    reduced = Image.fromarray(image).quantize(COLOURS, Image.Quantize.MEDIANCUT)
    colours = np.array(reduced.getpalette("RGB"), np.uint8).reshape(-1, 3)
    palette = np.zeros((COLOURS, 4), np.uint8)
    palette[:, 0] = 255
    palette[: len(colours), 1:] = colours
    # PyAV accepts the pair; its stubs know only one array.
    return VideoFrame.from_ndarray((np.asarray(reduced), palette), format="pal8")  # type: ignore[arg-type]


def webp(lossless: bool, quality: int, effort: int) -> Style:
    options = {"lossless": str(int(lossless)), "quality": str(quality), "compression_level": str(effort)}
    pixels = "bgra" if lossless else "yuv420p"

    def frame(image: Frame) -> VideoFrame:
        return _plain(image).reformat(format=pixels)

    return Style("webp", "libwebp_anim", pixels, frame, options, {"loop": "0"})


def animated_png(compression: int) -> Style:
    return Style("apng", "apng", "rgb24", _plain, {"compression_level": str(compression)}, {"plays": "0"})


GIF = Style("gif", "gif", "pal8", _with_palette, {}, {"loop": "0"})


def write_animation(path: Path, images: Frames, fps: float, style: Style, step: Step) -> None:
    """Writes an animation. `step` is called for every frame and may raise to stop."""
    rate = Fraction(fps).limit_denominator(RATE_DENOMINATOR)
    with av.open(str(path), "w", format=style.container, options=dict(style.container_options)) as container:
        stream = container.add_stream(style.codec, rate=rate, options=dict(style.options))
        assert isinstance(stream, VideoStream)
        count = 0
        for image in images:
            if count == 0:
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = style.pixels
            step(count, images.expected, image)
            frame = style.frame(image)
            frame.pts, frame.time_base = count, 1 / rate
            container.mux(stream.encode(frame))
            count += 1
        if count == 0:
            raise ValueError("there are no frames to save")
        container.mux(stream.encode(None))
    step(count, count, None)
