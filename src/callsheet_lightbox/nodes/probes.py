"""Nodes that sleep, ignore interruptions, fail, return a blocker or return unusual data, for tests of a client.

They have the names and inputs of the nodes that were installed in a real ComfyUI when its responses were recorded. The
server has these nodes only if the setting `lightbox.probes` is true.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy

from callsheet_lightbox.folders import Folders
from callsheet_lightbox.media.frames import Frames
from callsheet_lightbox.node import Blocker, Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes.images import IMAGE

CATEGORY = "probe"
FAULTS: dict[str, type[BaseException]] = {
    "RuntimeError": RuntimeError,
    "ValueError": ValueError,
    "OOM": MemoryError,
    # These two end the executor's thread: the server still responds, but runs no prompt any more.
    "SystemExit": SystemExit,
    "BaseException": BaseException,
}
SHOWN: dict[str, dict[str, list[Any]]] = {
    "text": {"text": ["hello", "wörld"]},
    "nan": {"value": [float("nan"), float("inf")]},
    # Not convertible to JSON. If the client of the prompt is connected by WebSocket, the server process ends.
    "numpy": {"value": [numpy.float32(0.5)]},
    "gifs_vhs": {
        "gifs": [
            {
                "filename": "x_00001.mp4",
                "subfolder": "",
                "type": "output",
                "format": "video/h264-mp4",
                "frame_rate": 8.0,
                "workflow": "x_00001.png",
                "fullpath": "/opt/data/output/x_00001.mp4",
            }
        ]
    },
}


class ProbeSleep(Node):
    name = "ProbeSleep"
    category = CATEGORY
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "seconds": NodeInput("FLOAT", {"default": 1.0, "min": 0.0, "max": 3600.0}),
        "steps": NodeInput("INT", {"default": 10, "min": 1, "max": 10000}),
        "preview": NodeInput("BOOLEAN", {"default": False}),
        "salt": NodeInput("STRING", {"default": ""}, optional=True),
    }
    outputs = (IMAGE,)

    def run(
        self, context: NodeContext, *, image: Frames, seconds: float, steps: int, preview: bool, salt: str = ""
    ) -> Result:
        context.previews = preview
        for step in range(1, steps + 1):
            time.sleep(seconds / steps)
            context.progress(step, steps, image.first() if preview else None)
        return Result((image,))


class ProbeHang(Node):
    name = "ProbeHang"
    category = CATEGORY
    description = "Runs without progress messages and cannot be interrupted."
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "seconds": NodeInput("FLOAT", {"default": 5.0, "min": 0.0, "max": 86400.0}),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, seconds: float) -> Result:
        time.sleep(seconds)
        return Result((image,))


class ProbeFail(Node):
    name = "ProbeFail"
    category = CATEGORY
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "message": NodeInput("STRING", {"default": "boom"}),
        "kind": NodeInput(tuple(FAULTS)),
    }
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, message: str, kind: str) -> Result:
        raise FAULTS[kind](message)


class ProbeBlock(Node):
    name = "ProbeBlock"
    category = CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE"), "message": NodeInput("STRING", {"default": ""})}
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, image: Frames, message: str) -> Result:
        return Result((Blocker(message or None),))


class ProbeModel(Node):
    """A loader like ComfyUI's: its choices are the files of a folder, which may be deleted while the engine runs."""

    name = "ProbeModel"
    category = CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE"), "model_name": NodeInput(())}
    outputs = (IMAGE,)

    @classmethod
    def input_config(cls, name: str, folders: Folders) -> list[Any]:
        choices = cls.choices_of(name, folders)
        return super().input_config(name, folders) if choices is None else [list(choices)]

    @classmethod
    def choices_of(cls, name: str, folders: Folders) -> tuple[str, ...] | None:
        if name != "model_name":
            return super().choices_of(name, folders)
        return tuple(sorted(path.name for path in folders.models.glob("*.safetensors")))

    def run(self, context: NodeContext, *, image: Frames, model_name: str) -> Result:
        return Result((image,))


class ProbeUI(Node):
    name = "ProbeUI"
    category = CATEGORY
    is_output = True
    inputs: ClassVar = {"image": NodeInput("IMAGE"), "mode": NodeInput(tuple(SHOWN))}

    def run(self, context: NodeContext, *, image: Frames, mode: str) -> Result:
        return Result(shown=SHOWN[mode])


NODES: tuple[type[Node], ...] = (ProbeSleep, ProbeHang, ProbeFail, ProbeBlock, ProbeModel, ProbeUI)
