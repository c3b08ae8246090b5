"""Nodes that join two images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
from PIL import Image, ImageChops

from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.images import IMAGE

Blend = Callable[[Image.Image, Image.Image], Image.Image]
MODES: dict[str, Blend] = {
    "normal": lambda _, above: above,
    "multiply": ImageChops.multiply,
    "screen": ImageChops.screen,
    "overlay": ImageChops.overlay,
    "soft_light": ImageChops.soft_light,
    "difference": ImageChops.difference,
}


def paired(first: Frames, second: Frames, join: Callable[[Frame, Frame], Frame]) -> Frames:
    """Joins image by image; a single second image is used for each of the first."""
    if second.expected == 1:
        other = second.first()
        return first.map(lambda image: join(image, other))

    def pairs() -> Iterator[Frame]:
        return (join(mine, theirs) for mine, theirs in first.beside(second))

    return Frames(first.width, first.height, first.expected, pairs)


def covering(frame: Frame, width: int, height: int) -> Image.Image:
    """The image scaled to fill the size, cut around the middle."""
    image = Image.fromarray(frame)
    if image.size == (width, height):
        return image
    scale = min(image.width / width, image.height / height)
    left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
    box = (left, top, image.width - left, image.height - top)
    return image.resize((width, height), Image.Resampling.BICUBIC, box)


class ImageBlend(Node):
    name = "ImageBlend"
    display_name = "Image Blend"
    category = "image/postprocessing"
    module = "comfy_extras.nodes_post_processing"
    newer_schema = True
    inputs: ClassVar = {
        "image1": NodeInput("IMAGE", {}),
        "image2": NodeInput("IMAGE", {}),
        "blend_factor": NodeInput("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
        "blend_mode": NodeInput("COMBO", {"multiselect": False, "options": list(MODES)}),
    }
    outputs = (IMAGE,)

    def run(
        self, context: NodeContext, *, image1: Frames, image2: Frames, blend_factor: float, blend_mode: str
    ) -> Result:
        mode, width, height = MODES[blend_mode], image1.width, image1.height
        if image2.expected == 1:
            # The image is scaled once, not for every frame.
            fitted = np.asarray(covering(image2.first(), width, height))
            image2 = Frames(width, height, 1, lambda: iter((fitted,)), held=True)

        def blend(below: Frame, above: Frame) -> Frame:
            under = Image.fromarray(below)
            return np.asarray(Image.blend(under, mode(under, covering(above, width, height)), blend_factor))

        return Result((paired(image1, image2, blend),))


class ImageCompositeMasked(Node):
    name = "ImageCompositeMasked"
    category = "image"
    module = "comfy_extras.nodes_mask"
    inputs: ClassVar = {
        "destination": NodeInput("IMAGE"),
        "source": NodeInput("IMAGE"),
        "x": NodeInput("INT", {"default": 0, "min": 0, "max": 16384, "step": 1}),
        "y": NodeInput("INT", {"default": 0, "min": 0, "max": 16384, "step": 1}),
        "resize_source": NodeInput("BOOLEAN", {"default": False}),
        "mask": NodeInput("MASK", optional=True),
    }
    outputs = (IMAGE,)

    def run(
        self,
        context: NodeContext,
        *,
        destination: Frames,
        source: Frames,
        x: int,
        y: int,
        resize_source: bool,
        mask: Frames | None = None,
    ) -> Result:
        stencil = None if mask is None else Image.fromarray(mask.first())

        def paste(below: Frame, above: Frame) -> Frame:
            under, over = Image.fromarray(below), Image.fromarray(above)
            over = over.resize(under.size, Image.Resampling.BILINEAR) if resize_source else over
            fitted = stencil if stencil is None or stencil.size == over.size else stencil.resize(over.size)
            under.paste(over, (x, y), fitted)
            return np.asarray(under)

        return Result((paired(destination, source, paste),))


NODES: tuple[type[Node], ...] = (ImageBlend, ImageCompositeMasked)
