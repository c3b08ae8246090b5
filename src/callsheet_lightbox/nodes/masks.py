"""Nodes for masks: one channel, white for the selected area."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from callsheet_lightbox.media.frames import Frame, Frames, repeated
from callsheet_lightbox.media.untrusted_files import opened_image
from callsheet_lightbox.node import Node, NodeContext, NodeInput, NodeOutput, Result
from callsheet_lightbox.nodes.images import IMAGE, LoadFile

MASK = NodeOutput("MASK", "MASK")
CHANNELS = ("alpha", "red", "green", "blue")


class LoadImageMask(LoadFile):
    name = "LoadImageMask"
    display_name = "Load Image (as Mask)"
    category = "mask"
    module = "nodes"
    inputs: ClassVar = {"image": NodeInput((), {"image_upload": True}), "channel": NodeInput(CHANNELS, {})}
    outputs = (MASK,)

    def run(self, context: NodeContext, *, image: str, channel: str) -> Result:
        with opened_image(context.folders.named_in_graph(image)) as opened:
            plane = np.asarray(opened.convert("RGBA").getchannel(channel[0].upper()))
        return Result((repeated(255 - plane if channel == "alpha" else plane),))


class MaskToImage(Node):
    name = "MaskToImage"
    display_name = "Convert Mask to Image"
    category = "mask"
    module = "comfy_extras.nodes_mask"
    inputs: ClassVar = {"mask": NodeInput("MASK")}
    outputs = (IMAGE,)

    def run(self, context: NodeContext, *, mask: Frames) -> Result:
        return Result((mask.map(lambda plane: np.repeat(plane[..., None], 3, axis=2)),))


class InvertMask(Node):
    name = "InvertMask"
    category = "mask"
    module = "comfy_extras.nodes_mask"
    inputs: ClassVar = {"mask": NodeInput("MASK")}
    outputs = (MASK,)

    def run(self, context: NodeContext, *, mask: Frames) -> Result:
        def invert(plane: Frame) -> Frame:
            return 255 - plane

        return Result((mask.map(invert),))


NODES: tuple[type[Node], ...] = (LoadImageMask, MaskToImage, InvertMask)
