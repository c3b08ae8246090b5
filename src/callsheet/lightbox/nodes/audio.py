"""Nodes for sound."""

from __future__ import annotations

import random
import string
from typing import Any, ClassVar

import av
from av.audio.stream import AudioStream

from callsheet.lightbox.folders import written
from callsheet.lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result
from callsheet.lightbox.nodes.saving import graph_texts, shown_file
from callsheet.lightbox.sound import Sound, silence

MODULE = "comfy_extras.nodes_audio"
AUDIO = NodeOutput("AUDIO", "AUDIO")
CODECS = {"flac": "flac", "mp3": "libmp3lame"}


class EmptyAudio(Node):
    name = "EmptyAudio"
    display_name = "Empty Audio"
    category = "audio"
    module = MODULE
    newer_schema = True
    inputs: ClassVar = {
        "duration": NodeInput("FLOAT", {"default": 60.0, "min": 0.0, "max": 86_400.0, "step": 0.01}),
        "sample_rate": NodeInput("INT", {"default": 44100, "min": 1, "max": 192000}),
        "channels": NodeInput("INT", {"default": 2, "min": 1, "max": 2}),
    }
    outputs = (AUDIO,)

    def run(self, context: NodeContext, *, duration: float, sample_rate: int, channels: int) -> Result:
        return Result((silence(duration, sample_rate, channels),))


def _save(context: NodeContext, audio: Sound, prefix: str, kind: str, ending: str) -> Result:
    place = context.folders.place_for(prefix, kind)
    name = place.file_name(ending)
    with written(place.folder / name) as part, av.open(str(part), "w", format=ending) as container:
        container.metadata.update(graph_texts(context))
        stream = container.add_stream(CODECS[ending], rate=audio.rate, layout=audio.layout)
        assert isinstance(stream, AudioStream)
        for frame in audio:
            context.check()
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return Result(shown={"audio": [shown_file(place, name, kind)]})


class SaveAudio(Node):
    name = "SaveAudio"
    display_name = "Save Audio (FLAC)"
    category = "audio"
    module = MODULE
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        "audio": NodeInput("AUDIO", {}),
        "filename_prefix": NodeInput("STRING", {"default": "audio/ComfyUI", "multiline": False}),
    }

    def run(self, context: NodeContext, *, audio: Sound, filename_prefix: str) -> Result:
        return _save(context, audio, filename_prefix, "output", "flac")


class SaveAudioMP3(Node):
    name = "SaveAudioMP3"
    display_name = "Save Audio (MP3)"
    category = "audio"
    module = MODULE
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        **SaveAudio.inputs,
        "quality": NodeInput("COMBO", {"default": "V0", "multiselect": False, "options": ["V0", "128k", "320k"]}),
    }

    def run(self, context: NodeContext, *, audio: Sound, filename_prefix: str, quality: str) -> Result:
        return _save(context, audio, filename_prefix, "output", "mp3")


class PreviewAudio(Node):
    name = "PreviewAudio"
    display_name = "Preview Audio"
    category = "audio"
    module = MODULE
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {"audio": NodeInput("AUDIO", {})}

    def run(self, context: NodeContext, **values: Any) -> Result:
        # This is not a secret: it separates the previews of several runs.
        mark = "".join(random.choices(string.ascii_lowercase, k=5))  # noqa: S311
        return _save(context, values["audio"], f"ComfyUI_temp_{mark}", "temp", "flac")


NODES: tuple[type[Node], ...] = (EmptyAudio, SaveAudio, SaveAudioMP3, PreviewAudio)
