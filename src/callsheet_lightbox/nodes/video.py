"""Nodes that load and save video, and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from callsheet_lightbox.folders import Folders, written
from callsheet_lightbox.media.clips import MP4, Clip, copy_streams, is_plain_mp4, open_clip, webm, write_clip
from callsheet_lightbox.media.frames import Frame, Frames
from callsheet_lightbox.media.sound import Sound
from callsheet_lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result
from callsheet_lightbox.nodes.images import IMAGE
from callsheet_lightbox.nodes.saving import PREFIX, PREFIX_TOOLTIP, SAVES, graph_texts, shown_animation

MODULE = "comfy_extras.nodes_video"
CATEGORY = "image/video"
VIDEO = NodeOutput("VIDEO", "VIDEO")
VIDEO_ENDINGS = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".gif", ".mpg", ".mpeg", ".ts", ".3gp", ".wmv")
# 30000/1001, the rate of television, is exact with this limit.
RATE_DENOMINATOR = 1001


class LoadVideo(Node):
    name = "LoadVideo"
    display_name = "Load Video"
    category = CATEGORY
    module = MODULE
    newer_schema = True
    judged = ("file",)
    inputs: ClassVar = {"file": NodeInput("COMBO", {"multiselect": False, "options": [], "video_upload": True})}
    outputs = (VIDEO,)

    @classmethod
    def input_config(cls, name: str, folders: Folders) -> list[Any]:
        kind, options = cls.inputs[name].config
        return [kind, {**options, "options": folders.listed(VIDEO_ENDINGS)}]

    @classmethod
    def refuse(cls, name: str, value: Any, folders: Folders) -> str | None:
        return None if folders.has_named(value) else f"Invalid video file: {value}"

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Folders) -> Any:
        # Time and size are used, not the bytes: a video is too large to be read for that.
        found = folders.named_in_graph(values["file"]).stat()
        return [found.st_mtime_ns, found.st_size]

    def run(self, context: NodeContext, *, file: str) -> Result:
        return Result((open_clip(context.folders.named_in_graph(file)),))


class GetVideoComponents(Node):
    name = "GetVideoComponents"
    display_name = "Get Video Components"
    description = "Extracts all components from a video: frames, audio, and framerate."
    category = CATEGORY
    module = MODULE
    newer_schema = True
    inputs: ClassVar = {"video": NodeInput("VIDEO", {"tooltip": "The video to extract components from."})}
    outputs = (NodeOutput("IMAGE", "images"), NodeOutput("AUDIO", "audio"), NodeOutput("FLOAT", "fps"))

    def run(self, context: NodeContext, *, video: Clip) -> Result:
        return Result((video.frames, video.sound, float(video.rate)))


class CreateVideo(Node):
    name = "CreateVideo"
    display_name = "Create Video"
    description = "Create a video from images."
    category = CATEGORY
    module = MODULE
    newer_schema = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE", {"tooltip": "The images to create a video from."}),
        "fps": NodeInput("FLOAT", {"default": 30.0, "min": 1.0, "max": 120.0, "step": 1.0}),
        "audio": NodeInput("AUDIO", {"tooltip": "The audio to add to the video."}, optional=True),
    }
    outputs = (VIDEO,)

    def run(self, context: NodeContext, *, images: Frames, fps: float, audio: Sound | None = None) -> Result:
        return Result((Clip(images, _rate(fps), audio),))


def _rate(fps: float) -> Fraction:
    return Fraction(fps).limit_denominator(RATE_DENOMINATOR)


class SaveVideo(Node):
    name = "SaveVideo"
    display_name = "Save Video"
    description = SAVES
    category = CATEGORY
    module = MODULE
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "video": NodeInput("VIDEO", {"tooltip": "The video to save."}),
        "filename_prefix": NodeInput(
            "STRING", {"tooltip": PREFIX_TOOLTIP, "default": "video/ComfyUI", "multiline": False}
        ),
        # ComfyUI's list does not have webm and its codecs; with them a video keeps its sound.
        "format": NodeInput(
            "COMBO",
            {
                "tooltip": "The format to save the video as.",
                "default": "auto",
                "multiselect": False,
                "options": ["auto", "mp4", "webm"],
            },
        ),
        "codec": NodeInput(
            "COMBO",
            {
                "tooltip": "The codec to use for the video.",
                "default": "auto",
                "multiselect": False,
                "options": ["auto", "h264", "vp9", "av1"],
            },
        ),
    }

    def run(self, context: NodeContext, *, video: Clip, filename_prefix: str, format: str, codec: str) -> Result:
        ending = "mp4" if format == "auto" else format
        if codec != "auto" and (codec == "h264") != (ending == "mp4"):
            raise ValueError(f"a {ending} file does not take {codec}")
        place = context.folders.place_for(filename_prefix, "output", video.frames.width, video.frames.height)
        name = place.file_name(ending)
        with written(place.folder / name) as part:
            if ending == "mp4" and video.untouched is not None and is_plain_mp4(video.untouched):
                copy_streams(video.untouched, part, graph_texts(context), context.progress)
            else:
                chosen = MP4 if ending == "mp4" else webm("vp9" if codec == "auto" else codec, 32)
                write_clip(part, video, chosen, graph_texts(context), context.progress)
        return Result(shown=shown_animation(place, name))


class SaveWEBM(Node):
    name = "SaveWEBM"
    category = CATEGORY
    module = MODULE
    newer_schema = True
    experimental = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "images": NodeInput("IMAGE", {}),
        "filename_prefix": NodeInput("STRING", PREFIX),
        "codec": NodeInput("COMBO", {"multiselect": False, "options": ["vp9", "av1"]}),
        "fps": NodeInput("FLOAT", {"default": 24.0, "min": 0.01, "max": 1000.0, "step": 0.01}),
        "crf": NodeInput(
            "FLOAT",
            {
                "tooltip": "Higher crf means lower quality with a smaller file size, lower crf means higher quality "
                "higher filesize.",
                "default": 32.0,
                "min": 0,
                "max": 63.0,
                "step": 1,
            },
        ),
    }

    def run(
        self, context: NodeContext, *, images: Frames, filename_prefix: str, codec: str, fps: float, crf: float
    ) -> Result:
        place = context.folders.place_for(filename_prefix, "output", images.width, images.height)
        name = place.file_name("webm")
        with written(place.folder / name) as part:
            clip = Clip(images, _rate(fps), None)
            write_clip(part, clip, webm(codec, crf), graph_texts(context), context.progress)
        return Result(shown=shown_animation(place, name))


class VideoFirstFrame(Node):
    name = "LightboxFirstFrame"
    display_name = "First Frame"
    description = "The first image of a batch or a video's frames, as a still."
    category = CATEGORY
    inputs: ClassVar = {"images": NodeInput("IMAGE")}
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, images: Frames) -> Result:
        first: Frame = images.first()
        return Result((Frames(images.width, images.height, 1, lambda: iter((first,)), held=True),))


NODES: tuple[type[Node], ...] = (LoadVideo, GetVideoComponents, CreateVideo, SaveVideo, SaveWEBM, VideoFirstFrame)
