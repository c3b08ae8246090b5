"""Nodes that make images from text alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from PIL import Image, ImageFilter

from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.media.landscapes import Landscape
from callsheet_lightbox.node import NUMBER_LIMIT, Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.images import IMAGE

# The blur of an unfinished image, as a share of its shorter side.
FIRST_BLUR = 0.12


class TextToImage(Node):
    name = "LightboxTextToImage"
    display_name = "Text to Image"
    description = "A landscape that the words and the seed decide; the same two always give the same image."
    category = "generate"
    inputs: ClassVar = {
        "text": NodeInput("STRING", {"default": "", "multiline": True, "dynamicPrompts": True}),
        "seed": NodeInput("INT", {"default": 0, "min": 0, "max": NUMBER_LIMIT, "control_after_generate": True}),
        "width": NodeInput("INT", {"default": 768, "min": 16, "max": 4096, "step": 8}),
        "height": NodeInput("INT", {"default": 512, "min": 16, "max": 4096, "step": 8}),
        "steps": NodeInput("INT", {"default": 8, "min": 1, "max": 1000}),
        "batch_size": NodeInput("INT", {"default": 1, "min": 1, "max": 64}, optional=True),
    }
    outputs = (IMAGE,)

    def run(
        self, context: NodeContext, *, text: str, seed: int, width: int, height: int, steps: int, batch_size: int = 1
    ) -> Result:
        image = Landscape.imagined(text, seed).paint(width, height)
        for step in range(1, steps + 1):
            context.progress(step, steps, _unfinished(image, step / steps) if context.previews else None)

        def batch() -> Iterator[Frame]:
            yield image
            for further in range(1, batch_size):
                yield Landscape.imagined(text, seed + further).paint(width, height)

        return Result((Frames(width, height, batch_size, batch, held=batch_size == 1),))


def _unfinished(frame: Frame, share: float) -> Frame:
    image = Image.fromarray(frame)
    blur = min(image.size) * FIRST_BLUR * (1 - share)
    return np.asarray(image.filter(ImageFilter.GaussianBlur(blur)))


NODES: tuple[type[Node], ...] = (TextToImage,)
