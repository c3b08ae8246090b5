"""Nodes for images from files, empty images, and their size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image, ImageOps, ImageSequence

from callsheet_lightbox.folders import Folders
from callsheet_lightbox.media.frames import Frame, Frames, check_size, repeated
from callsheet_lightbox.media.untrusted_files import opened_image
from callsheet_lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result

SIZE = {"default": 512, "min": 1, "max": 16384, "step": 1}
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
IMAGE = NodeOutput("IMAGE", "IMAGE")
RESAMPLING = {
    "nearest-exact": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "area": Image.Resampling.BOX,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class LoadFile(Node):
    """The common part of nodes that open a file of the input folder."""

    judged = ("image",)

    @classmethod
    def input_config(cls, name: str, folders: Folders) -> list[Any]:
        config = cls.inputs[name].config
        return [folders.listed(IMAGE_ENDINGS), *config[1:]] if name == "image" else config

    @classmethod
    def refuse(cls, name: str, value: Any, folders: Folders) -> str | None:
        return None if folders.has_named(value) else f"Invalid image file: {value}"

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Folders) -> Any:
        with folders.named_in_graph(values["image"]).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class LoadImage(LoadFile):
    name = "LoadImage"
    display_name = "Load Image"
    module = "nodes"
    inputs: ClassVar = {"image": NodeInput((), {"image_upload": True})}
    outputs = (IMAGE, NodeOutput("MASK", "MASK"))

    def run(self, context: NodeContext, *, image: str) -> Result:
        return Result(load_image(context.folders.named_in_graph(image)))


def load_image(path: Path) -> tuple[Frames, Frames]:
    """The images of a file, and their masks of transparency."""
    with opened_image(path) as image:
        count = getattr(image, "n_frames", 1)
        first = ImageOps.exif_transpose(image)
        colours, mask = _colours(first), _mask(first)
    if count == 1 or path.suffix.lower() in (".mpo", ".jpg", ".jpeg"):
        return repeated(colours), repeated(mask)
    height, width = colours.shape[:2]
    masks = Frames(width, height, count, lambda: (_mask(each) for each in _sequence(path)))
    return Frames(width, height, count, lambda: (_colours(each) for each in _sequence(path))), masks


def _sequence(path: Path) -> Iterator[Image.Image]:
    with opened_image(path) as image:
        yield from ImageSequence.Iterator(image)


def _colours(image: Image.Image) -> Frame:
    if image.mode in ("I", "I;16", "I;16B"):
        image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).clip(0, 255).astype(np.uint8))
    return np.asarray(image.convert("RGB"))


def _mask(image: Image.Image) -> Frame:
    if "A" in image.getbands() or "transparency" in image.info:
        return 255 - np.asarray(image.convert("RGBA").getchannel("A"))
    # ComfyUI's mask of an image without transparency.
    return np.zeros((64, 64), np.uint8)


class EmptyImage(Node):
    name = "EmptyImage"
    module = "nodes"
    inputs: ClassVar = {
        "width": NodeInput("INT", SIZE),
        "height": NodeInput("INT", SIZE),
        "batch_size": NodeInput("INT", {"default": 1, "min": 1, "max": 4096}),
        "color": NodeInput("INT", {"default": 0, "min": 0, "max": 16777215, "step": 1, "display": "color"}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, width: int, height: int, batch_size: int, color: int) -> Result:
        check_size(width, height)
        image = np.empty((height, width, 3), np.uint8)
        image[:] = (color >> 16 & 255, color >> 8 & 255, color & 255)
        return Result((repeated(image, batch_size),))


class ImageScale(Node):
    name = "ImageScale"
    display_name = "Upscale Image"
    category = "image/upscaling"
    module = "nodes"
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "upscale_method": NodeInput(tuple(RESAMPLING)),
        "width": NodeInput("INT", {"default": 512, "min": 0, "max": 16384, "step": 1}),
        "height": NodeInput("INT", {"default": 512, "min": 0, "max": 16384, "step": 1}),
        "crop": NodeInput(("disabled", "center")),
    }
    outputs = (IMAGE,)

    def run(
        self, context: NodeContext, *, image: Frames, upscale_method: str, width: int, height: int, crop: str
    ) -> Result:
        if width == 0 and height == 0:
            return Result((image,))
        # 0 means: keep the proportions.
        width = width or max(1, round(image.width * height / image.height))
        height = height or max(1, round(image.height * width / image.width))
        box = _centre(image.width, image.height, width, height) if crop == "center" else None
        return Result((_resized(image, width, height, RESAMPLING[upscale_method], box),))


class ImageScaleBy(Node):
    name = "ImageScaleBy"
    display_name = "Upscale Image By"
    category = "image/upscaling"
    module = "nodes"
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "upscale_method": NodeInput(tuple(RESAMPLING)),
        "scale_by": NodeInput("FLOAT", {"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, upscale_method: str, scale_by: float) -> Result:
        width, height = max(1, round(image.width * scale_by)), max(1, round(image.height * scale_by))
        return Result((_resized(image, width, height, RESAMPLING[upscale_method], None),))


def _centre(width: int, height: int, wanted_width: int, wanted_height: int) -> tuple[float, float, float, float]:
    scale = min(width / wanted_width, height / wanted_height)
    left, top = (width - wanted_width * scale) / 2, (height - wanted_height * scale) / 2
    return (left, top, width - left, height - top)


def _resized(
    image: Frames,
    width: int,
    height: int,
    resampling: Image.Resampling,
    box: tuple[float, float, float, float] | None,
) -> Frames:
    def resize(frame: Frame) -> Frame:
        return np.asarray(Image.fromarray(frame).resize((width, height), resampling, box))

    return image.map(resize, width, height)


class ImageCrop(Node):
    name = "ImageCrop"
    display_name = "Image Crop"
    category = "image/transform"
    module = "comfy_extras.nodes_images"
    newer_schema = True
    inputs: ClassVar = {
        "image": NodeInput("IMAGE", {}),
        "width": NodeInput("INT", SIZE),
        "height": NodeInput("INT", SIZE),
        "x": NodeInput("INT", {"default": 0, "min": 0, "max": 16384, "step": 1}),
        "y": NodeInput("INT", {"default": 0, "min": 0, "max": 16384, "step": 1}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, width: int, height: int, x: int, y: int) -> Result:
        left, top = min(x, image.width - 1), min(y, image.height - 1)
        right, bottom = min(left + width, image.width), min(top + height, image.height)
        return Result((image.map(lambda frame: frame[top:bottom, left:right], right - left, bottom - top),))


class RepeatImageBatch(Node):
    name = "RepeatImageBatch"
    category = "image/batch"
    module = "comfy_extras.nodes_images"
    newer_schema = True
    inputs: ClassVar = {
        "image": NodeInput("IMAGE", {}),
        "amount": NodeInput("INT", {"default": 1, "min": 1, "max": 4096}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, amount: int) -> Result:
        def again() -> Iterator[Frame]:
            for _ in range(amount):
                yield from image

        return Result((Frames(image.width, image.height, image.expected * amount, again),))


NODES: tuple[type[Node], ...] = (LoadImage, EmptyImage, ImageScale, ImageScaleBy, ImageCrop, RepeatImageBatch)
