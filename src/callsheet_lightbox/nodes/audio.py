"""Nodes for sound."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import av
from av.audio.stream import AudioStream

from callsheet_lightbox.folders import Folders, written
from callsheet_lightbox.media.sound import Sound, silence, sound_of
from callsheet_lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result
from callsheet_lightbox.nodes.saving import graph_texts, shown_file
from callsheet_lightbox.nodes.video import VIDEO_ENDINGS

MODULE = "comfy_extras.nodes_audio"
AUDIO = NodeOutput("AUDIO", "AUDIO")
AUDIO_ENDINGS = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".wma")
CODECS = {"flac": "flac", "mp3": "libmp3lame", "opus": "libopus"}
# The sampling rates of these codecs. A sound with another rate, or with more than two channels, is converted.
RATES = {"mp3": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000), "opus": (48000,)}
USUAL_RATE = 48_000
ONE_CHANNEL = "mono"


class LoadAudio(Node):
    name = "LoadAudio"
    display_name = "Load Audio"
    category = "audio"
    module = MODULE
    newer_schema = True
    judged = ("audio",)
    inputs: ClassVar = {"audio": NodeInput("COMBO", {"multiselect": False, "options": [], "audio_upload": True})}
    outputs = (AUDIO,)

    @classmethod
    def input_config(cls, name: str, folders: Folders) -> list[Any]:
        kind, options = cls.inputs[name].config
        return [kind, {**options, "options": folders.listed((*AUDIO_ENDINGS, *VIDEO_ENDINGS))}]

    @classmethod
    def refuse(cls, name: str, value: Any, folders: Folders) -> str | None:
        return None if folders.has_named(value) else f"Invalid audio file: {value}"

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Folders) -> Any:
        found = folders.named_in_graph(values["audio"]).stat()
        return [found.st_mtime_ns, found.st_size]

    def run(self, context: NodeContext, *, audio: str) -> Result:
        path = context.folders.named_in_graph(audio)
        sound = sound_of(path)
        if sound is None:
            raise ValueError(f"No audio stream found in {path.name}")
        # A file starts with its sound. Only in a video, sound may start after the first image.
        return Result((replace(sound, delay=0.0),))


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
        rate = audio.rate if audio.rate in RATES.get(ending, (audio.rate,)) else USUAL_RATE
        layout = audio.layout if ending == "flac" or audio.layout == ONE_CHANNEL else "stereo"
        stream = container.add_stream(CODECS[ending], rate=rate, layout=layout)
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


class SaveAudioOpus(Node):
    name = "SaveAudioOpus"
    display_name = "Save Audio (Opus)"
    category = "audio"
    module = MODULE
    newer_schema = True
    is_output = True
    writes_metadata = True
    inputs: ClassVar = {
        **SaveAudio.inputs,
        "quality": NodeInput(
            "COMBO",
            {"default": "128k", "multiselect": False, "options": ["64k", "96k", "128k", "192k", "320k"]},
        ),
    }

    def run(self, context: NodeContext, *, audio: Sound, filename_prefix: str, quality: str) -> Result:
        return _save(context, audio, filename_prefix, "output", "opus")


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


NODES: tuple[type[Node], ...] = (LoadAudio, EmptyAudio, SaveAudio, SaveAudioMP3, SaveAudioOpus, PreviewAudio)
