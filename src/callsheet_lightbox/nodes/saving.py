"""Nodes that save images: one file each, or an animation."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from callsheet_lightbox.folders import SavePlace, written
from callsheet_lightbox.media.animation_metadata import add_to_png, add_to_webp
from callsheet_lightbox.media.animations import GIF, Style, animated_png, webp, write_animation
from callsheet_lightbox.media.frames import Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result

PREFIX_TOOLTIP = (
    "The prefix for the file to save. This may include formatting information such as %date:yyyy-MM-dd% or "
    "%Empty Latent Image.width% to include values from nodes."
)
SAVES = "Saves the input images to your ComfyUI output directory."
FPS = {"default": 6.0, "min": 0.01, "max": 1000.0, "step": 0.01}
PREFIX = {"default": "ComfyUI", "multiline": False}


def shown_file(place: SavePlace, name: str, kind: str) -> dict[str, str]:
    return {"filename": name, "subfolder": place.subfolder, "type": kind}


def shown_animation(place: SavePlace, name: str) -> Mapping[str, list[Any]]:
    return {"images": [shown_file(place, name, "output")], "animated": [True]}


def graph_texts(context: NodeContext) -> dict[str, str]:
    """The metadata of every saved file: the graph, and the extra data of the prompt."""
    # This must be an object: a string fails the run here, as in ComfyUI.
    extra = {key: context.extra_pnginfo[key] for key in context.extra_pnginfo or ()}
    return {key: json.dumps(value) for key, value in {"prompt": context.prompt, **extra}.items()}


def _metadata(context: NodeContext) -> PngInfo:
    info = PngInfo()
    for key, text in graph_texts(context).items():
        info.add_text(key, text)
    return info


def _save_images(context: NodeContext, images: Frames, prefix: str, kind: str, compress_level: int) -> Result:
    # A constant instead of images fails here, with ComfyUI's text.
    _, height, width = images.shape
    place = context.folders.place_for(prefix, kind, width, height)
    info = _metadata(context)
    shown = []
    for position, image in enumerate(images):
        if not images.held:
            # ComfyUI cannot be interrupted here, because its images exist already. Here they may be a long video.
            context.progress(position, images.expected)
        name = place.file_name("png", position)
        with written(place.folder / name) as part:
            Image.fromarray(image).save(part, "PNG", pnginfo=info, compress_level=compress_level)
        shown.append(shown_file(place, name, kind))
    return Result(shown={"images": shown})


class SaveImage(Node):
    name = "SaveImage"
    display_name = "Save Image"
    description = SAVES
    module = "nodes"
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE", {"tooltip": "The images to save."}),
        "filename_prefix": NodeInput("STRING", {"default": "ComfyUI", "tooltip": PREFIX_TOOLTIP}),
    }

    def run(self, context: NodeContext, *, images: Frames, filename_prefix: str) -> Result:
        return _save_images(context, images, filename_prefix, "output", compress_level=4)


class PreviewImage(Node):
    name = "PreviewImage"
    display_name = "Preview Image"
    description = SAVES
    module = "nodes"
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {"images": NodeInput("IMAGE")}

    def run(self, context: NodeContext, *, images: Frames) -> Result:
        # This is not a secret: it separates the previews of several runs.
        mark = "".join(random.choices(string.ascii_lowercase, k=5))  # noqa: S311
        return _save_images(context, images, f"ComfyUI_temp_{mark}", "temp", compress_level=1)


class SaveImageWebsocket(Node):
    name = "SaveImageWebsocket"
    category = "api/image"
    module = "custom_nodes.websocket_image_save"
    is_output = True
    inputs: ClassVar = {"images": NodeInput("IMAGE")}

    def run(self, context: NodeContext, *, images: Frames) -> Result:
        for position, image in enumerate(images):
            context.progress(position, images.expected, image, always=True)
        return Result()

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Any) -> Any:
        raise ValueError("sends its images again each time")


AddTexts = Callable[[Path, Mapping[str, str]], None]


def _save_animation(
    context: NodeContext,
    images: Frames,
    prefix: str,
    ending: str,
    fps: float,
    style: Style,
    add_texts: AddTexts | None = None,
) -> Result:
    place = context.folders.place_for(prefix, "output", images.width, images.height)
    name = place.file_name(ending)
    with written(place.folder / name) as part:
        write_animation(part, images, fps, style, context.progress)
        if add_texts is not None:
            add_texts(part, graph_texts(context))
    return Result(shown=shown_animation(place, name))


class SaveAnimatedWEBP(Node):
    name = "SaveAnimatedWEBP"
    category = "image/animation"
    module = "comfy_extras.nodes_images"
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE", {}),
        "filename_prefix": NodeInput("STRING", PREFIX),
        "fps": NodeInput("FLOAT", FPS),
        "lossless": NodeInput("BOOLEAN", {"default": True}),
        "quality": NodeInput("INT", {"default": 80, "min": 0, "max": 100}),
        "method": NodeInput("COMBO", {"multiselect": False, "options": ["default", "fastest", "slowest"]}),
    }

    def run(
        self,
        context: NodeContext,
        *,
        images: Frames,
        filename_prefix: str,
        fps: float,
        lossless: bool,
        quality: int,
        method: str,
    ) -> Result:
        effort = {"default": 4, "fastest": 0, "slowest": 6}[method]
        style = webp(lossless, quality, effort)
        return _save_animation(context, images, filename_prefix, "webp", fps, style, add_to_webp)


class SaveAnimatedPNG(Node):
    name = "SaveAnimatedPNG"
    category = "image/animation"
    module = "comfy_extras.nodes_images"
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE", {}),
        "filename_prefix": NodeInput("STRING", PREFIX),
        "fps": NodeInput("FLOAT", FPS),
        "compress_level": NodeInput("INT", {"default": 4, "min": 0, "max": 9}),
    }

    def run(
        self, context: NodeContext, *, images: Frames, filename_prefix: str, fps: float, compress_level: int
    ) -> Result:
        style = animated_png(compress_level)
        return _save_animation(context, images, filename_prefix, "png", fps, style, add_to_png)


class SaveAnimatedGIF(Node):
    name = "LightboxSaveGIF"
    display_name = "Save GIF"
    category = "image/animation"
    is_output = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE"),
        "filename_prefix": NodeInput("STRING", PREFIX),
        # A GIF counts hundredths of a second; players slow down anything below two of them.
        "fps": NodeInput("FLOAT", {"default": 12.0, "min": 0.1, "max": 50.0, "step": 0.1}),
    }

    def run(self, context: NodeContext, *, images: Frames, filename_prefix: str, fps: float) -> Result:
        return _save_animation(context, images, filename_prefix, "gif", fps, GIF)


NODES: tuple[type[Node], ...] = (
    SaveImage,
    PreviewImage,
    SaveImageWebsocket,
    SaveAnimatedWEBP,
    SaveAnimatedPNG,
    SaveAnimatedGIF,
)
