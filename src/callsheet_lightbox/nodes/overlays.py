"""Nodes that put a logo or text on every image."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.images import IMAGE

POSITIONS = (
    "bottom",
    "top",
    "center",
    "top-left",
    "top-right",
    "bottom-left",
    "bottom-right",
)
# Free space at the edge, as a share of the shorter side.
MARGIN = 0.04
# Pillow's own font has only Latin letters; this one is on most machines and has many more.
WIDE_FONT = "DejaVuSans-Bold.ttf"
MAX_TEXT = 2000
OPACITY = {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.05}
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def place_at(position: str, width: int, height: int, patch: Image.Image) -> tuple[int, int]:
    margin = round(min(width, height) * MARGIN)
    left, right = margin, width - patch.width - margin
    top, bottom = margin, height - patch.height - margin
    x = left if position.endswith("left") else right if position.endswith("right") else (width - patch.width) // 2
    y = top if position.startswith("top") else bottom if position.startswith("bottom") else (height - patch.height) // 2
    return x, y


def stamp(patch: Image.Image, position: str, width: int, height: int) -> Callable[[Frame], Frame]:
    """Draws an RGBA patch at its place. The rest of the image does not change."""
    x, y = place_at(position, width, height, patch)
    left, top = max(0, x), max(0, y)
    right, bottom = min(width, x + patch.width), min(height, y + patch.height)
    pixels = np.asarray(patch)[top - y : bottom - y, left - x : right - x].astype(np.uint16)
    alpha = pixels[..., 3:]
    weighted, rest = pixels[..., :3] * alpha, 255 - alpha

    def draw(image: Frame) -> Frame:
        drawn = image.copy()
        region = drawn[top:bottom, left:right]
        region[:] = (weighted + region * rest + 127) // 255
        return drawn

    return draw


class Overlay(Node):
    name = "LightboxOverlay"
    display_name = "Overlay Image"
    description = "Puts an image, with its transparency, on every frame."
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "overlay": NodeInput("IMAGE"),
        "position": NodeInput(POSITIONS, {"default": "bottom-right"}),
        "size": NodeInput(
            "FLOAT",
            {
                "default": 0.25,
                "min": 0.01,
                "max": 1.0,
                "step": 0.01,
                "tooltip": "Width as a share of the image's width.",
            },
        ),
        "opacity": NodeInput("FLOAT", OPACITY),
        "mask": NodeInput("MASK", {"tooltip": "What is transparent, as Load Image gives it."}, optional=True),
    }
    outputs = (IMAGE,)

    def run(
        self,
        context: NodeContext,
        *,
        image: Frames,
        overlay: Frames,
        position: str,
        size: float,
        opacity: float,
        mask: Frames | None = None,
    ) -> Result:
        patch = Image.fromarray(overlay.first()).convert("RGBA")
        if mask is not None and (mask.width, mask.height) == patch.size:
            patch.putalpha(Image.fromarray(255 - mask.first()))
        # The patch is never higher than the image: a thin strip would be scaled to many gigabytes.
        scale = min(image.width * size / patch.width, image.height / patch.height)
        fitted = (max(1, round(patch.width * scale)), max(1, round(patch.height * scale)))
        patch = patch.resize(fitted, Image.Resampling.LANCZOS)
        patch.putalpha(patch.getchannel("A").point(lambda value: round(value * opacity)))
        return Result((image.map(stamp(patch, position, image.width, image.height)),))


class TextOverlay(Node):
    name = "LightboxTextOverlay"
    display_name = "Text Overlay"
    description = "Writes text on every frame; long lines are broken."
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "text": NodeInput("STRING", {"default": "", "multiline": True}),
        "position": NodeInput(POSITIONS, {"default": "bottom"}),
        "size": NodeInput(
            "FLOAT",
            {
                "default": 0.08,
                "min": 0.01,
                "max": 0.5,
                "step": 0.01,
                "tooltip": "Height as a share of the image's height.",
            },
        ),
        "color": NodeInput("STRING", {"default": "#ffffff"}),
        "opacity": NodeInput("FLOAT", OPACITY),
    }
    outputs = (IMAGE,)

    def run(
        self, context: NodeContext, *, image: Frames, text: str, position: str, size: float, color: str, opacity: float
    ) -> Result:
        if not text.strip():
            return Result((image,))
        height = max(6, round(image.height * size))
        font = _font(height)
        colour = ImageColor.getrgb(color)[:3]
        lines = _broken(text.strip()[:MAX_TEXT], font, image.width * (1 - 2 * MARGIN))
        # Text outside the image is not drawn.
        seen = "\n".join(lines[: image.height // height + 1])
        patch = _written(seen, font, colour, opacity)
        return Result((image.map(stamp(patch, position, image.width, image.height)),))


def _font(size: int) -> Font:
    try:
        return ImageFont.truetype(WIDE_FONT, size)
    except OSError:
        return ImageFont.load_default(size)


def _broken(text: str, font: Font, width: float) -> list[str]:
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}" if line else word
            if line and font.getlength(longer) > width:
                lines.append(line)
                longer = word
            *full, line = _cut(longer, font, width)
            lines += full
        lines.append(line)
    return lines


def _cut(word: str, font: Font, width: float) -> list[str]:
    """Splits a word that does not fit. Some languages have no spaces."""
    pieces, start = [], 0
    while start < len(word):
        # At least one letter, even if the image is narrow.
        length = bisect_right(range(start + 2, len(word) + 1), width, key=lambda end: font.getlength(word[start:end]))
        pieces.append(word[start : start + 1 + length])
        start += 1 + length
    return pieces or [""]


def _written(text: str, font: Font, colour: tuple[int, ...], opacity: float) -> Image.Image:
    """The text on a transparent background, with a dark edge so that it can be read on anything."""
    edge = max(1, round(getattr(font, "size", 12) / 14))
    measure = ImageDraw.Draw(Image.new("L", (1, 1)))
    left, top, right, bottom = measure.multiline_textbbox((0, 0), text, font=font, stroke_width=edge, align="center")
    patch = Image.new("RGBA", (max(1, round(right - left)), max(1, round(bottom - top))))
    alpha = round(255 * opacity)
    ImageDraw.Draw(patch).multiline_text(
        (-left, -top),
        text,
        font=font,
        fill=(*colour, alpha),
        stroke_width=edge,
        stroke_fill=(0, 0, 0, alpha),
        align="center",
    )
    return patch


NODES: tuple[type[Node], ...] = (Overlay, TextOverlay)
