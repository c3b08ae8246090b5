"""Changes to each image by itself: invert, blur, sharpen, turn, grade."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from PIL import Image, ImageFilter

from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.images import IMAGE

POSTPROCESSING = "comfy_extras.nodes_post_processing"
RADIUS = {"default": 1, "min": 1, "max": 31, "step": 1}
# Rec. 709: the weight of each primary color for the eye.
LUMA = (0.2126, 0.7152, 0.0722)


class ImageInvert(Node):
    name = "ImageInvert"
    display_name = "Invert Image"
    module = "nodes"
    inputs: ClassVar = {"image": NodeInput("IMAGE")}
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames) -> Result:
        def invert(frame: Frame) -> Frame:
            return 255 - frame

        return Result((image.map(invert),))


class ImageBlur(Node):
    name = "ImageBlur"
    display_name = "Image Blur"
    category = "image/postprocessing"
    module = POSTPROCESSING
    newer_schema = True
    inputs: ClassVar = {
        "image": NodeInput("IMAGE", {}),
        "blur_radius": NodeInput("INT", RADIUS),
        "sigma": NodeInput("FLOAT", {"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.1}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, blur_radius: int, sigma: float) -> Result:
        # ComfyUI cuts the curve at the radius, so a small radius is a small blur for any sigma.
        softness = ImageFilter.GaussianBlur(min(sigma, blur_radius))
        return Result((image.map(lambda frame: np.asarray(Image.fromarray(frame).filter(softness))),))


class ImageSharpen(Node):
    name = "ImageSharpen"
    category = "image/postprocessing"
    module = POSTPROCESSING
    newer_schema = True
    inputs: ClassVar = {
        "image": NodeInput("IMAGE", {}),
        "sharpen_radius": NodeInput("INT", RADIUS),
        "sigma": NodeInput("FLOAT", {"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.01}),
        "alpha": NodeInput("FLOAT", {"default": 1.0, "min": 0.0, "max": 5.0, "step": 0.01}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, sharpen_radius: int, sigma: float, alpha: float) -> Result:
        # ComfyUI weighs the edges with alpha times ten.
        mask = ImageFilter.UnsharpMask(min(sigma, sharpen_radius), round(alpha * 100), threshold=0)
        return Result((image.map(lambda frame: np.asarray(Image.fromarray(frame).filter(mask))),))


class ImageFlip(Node):
    name = "ImageFlip"
    category = "image/transform"
    module = "comfy_extras.nodes_images"
    newer_schema = True
    inputs: ClassVar = {
        "image": NodeInput("IMAGE", {}),
        "flip_method": NodeInput(
            "COMBO", {"multiselect": False, "options": ["x-axis: vertically", "y-axis: horizontally"]}
        ),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, flip_method: str) -> Result:
        upside_down = flip_method.startswith("x")
        return Result((image.map(lambda frame: frame[::-1] if upside_down else frame[:, ::-1]),))


class ColorGrade(Node):
    name = "LightboxColorGrade"
    display_name = "Color Grade"
    description = "Brightness, contrast, gamma, warmth and saturation; each 1 (warmth 0) leaves the image as it is."
    category = "image/color"
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "brightness": NodeInput("FLOAT", {"default": 1.0, "min": 0.0, "max": 4.0, "step": 0.05}),
        "contrast": NodeInput("FLOAT", {"default": 1.0, "min": 0.0, "max": 4.0, "step": 0.05}),
        "gamma": NodeInput("FLOAT", {"default": 1.0, "min": 0.1, "max": 5.0, "step": 0.05}),
        "saturation": NodeInput("FLOAT", {"default": 1.0, "min": 0.0, "max": 4.0, "step": 0.05}),
        "warmth": NodeInput("FLOAT", {"default": 0.0, "min": -1.0, "max": 1.0, "step": 0.05}),
    }
    outputs = (IMAGE,)

    def run(
        self,
        context: NodeContext,
        *,
        image: Frames,
        brightness: float,
        contrast: float,
        gamma: float,
        saturation: float,
        warmth: float,
    ) -> Result:
        curves = [
            each
            for gain in (1 + warmth / 4, 1.0, 1 - warmth / 4)
            for each in _curve(brightness * gain, contrast, gamma)
        ]
        matrix = _saturation_matrix(saturation)

        def grade(frame: Frame) -> Frame:
            graded = Image.fromarray(frame).point(curves)
            return np.asarray(graded if saturation == 1 else graded.convert("RGB", matrix))

        return Result((image.map(grade),))


def _curve(brightness: float, contrast: float, gamma: float) -> list[int]:
    """A table for one channel: 256 values, which are cheap to apply."""
    values = np.arange(256) / 255 * brightness
    values = np.clip((values - 0.5) * contrast + 0.5, 0, 1) ** (1 / gamma)
    return [round(value) for value in (values * 255).tolist()]


def _saturation_matrix(saturation: float) -> tuple[float, ...]:
    rows = [
        [weight * (1 - saturation) + (saturation if row == column else 0) for column, weight in enumerate(LUMA)]
        for row in range(3)
    ]
    return tuple(value for row in rows for value in (*row, 0.0))


NODES: tuple[type[Node], ...] = (ImageInvert, ImageBlur, ImageSharpen, ImageFlip, ColorGrade)
