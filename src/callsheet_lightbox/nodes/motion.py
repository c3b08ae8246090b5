"""Nodes that change the speed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

import numpy as np
from PIL import Image

from callsheet_lightbox.media.clips import Clip
from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.video import CATEGORY, VIDEO

SPEED_DENOMINATOR = 1000


class VideoSpeed(Node):
    name = "LightboxVideoSpeed"
    display_name = "Video Speed"
    description = "Slows a video down (below 1) or speeds it up, at the same frame rate and with the pitch kept."
    category = CATEGORY
    inputs: ClassVar = {
        "video": NodeInput("VIDEO"),
        "speed": NodeInput("FLOAT", {"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.05}),
        "keep_audio": NodeInput("BOOLEAN", {"default": True}, optional=True),
    }
    outputs = (VIDEO,)

    def run(self, context: NodeContext, *, video: Clip, speed: float, keep_audio: bool = True) -> Result:
        if speed == 1 and keep_audio:
            return Result((video,))
        exact = Fraction(speed).limit_denominator(SPEED_DENOMINATOR)
        sound = video.sound.at_speed(float(exact)) if video.sound is not None and keep_audio else None
        frames = video.frames
        paced = Frames(frames.width, frames.height, math.ceil(frames.expected / exact), lambda: _paced(frames, exact))
        return Result((Clip(paced, video.rate, sound),))


def _paced(frames: Frames, speed: Fraction) -> Iterator[Frame]:
    """Takes an image at every multiple of `speed`; between two images, a mixture of them."""
    made, count = 0, 0
    before: Frame | None = None
    for count, image in enumerate(frames, 1):
        while (place := made * speed) <= count - 1:
            share = place - (count - 2)
            yield image if before is None or share == 1 else _mixed(before, image, float(share))
            made += 1
        before = image
    while before is not None and made * speed < count:
        yield before
        made += 1


def _mixed(before: Frame, after: Frame, share: float) -> Frame:
    return np.asarray(Image.blend(Image.fromarray(before), Image.fromarray(after), share))


NODES: tuple[type[Node], ...] = (VideoSpeed,)
