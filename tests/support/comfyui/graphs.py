"""Graphs as a user of ComfyUI would build them."""

from __future__ import annotations

from typing import Any

Graph = dict[str, Any]
# A node as its class and its inputs. Its image input is linked to the node before.
Step = tuple[str, dict[str, Any]]
# The name of the image input where it is not `image`.
PICTURE_INPUT = {"ImageBlend": "image1", "ImageCompositeMasked": "destination", "LightboxFirstFrame": "images"}


def node(name: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": name, "inputs": inputs}


def _chained(graph: Graph, source: list[Any], steps: tuple[Step, ...]) -> list[Any]:
    for position, (name, inputs) in enumerate(steps):
        graph[f"step{position}"] = node(name, **{PICTURE_INPUT.get(name, "image"): source, **inputs})
        source = [f"step{position}", 0]
    return source


def image_graph(file: str, *steps: Step, prefix: str = "picture", **more: dict[str, Any]) -> Graph:
    """Loads an image, applies the steps to it and saves it."""
    graph: Graph = {"load": node("LoadImage", image=file), **more}
    last = _chained(graph, ["load", 0], steps)
    graph["save"] = node("SaveImage", images=last, filename_prefix=prefix)
    return graph


def video_graph(file: str, *steps: Step, prefix: str = "video", format: str = "mp4", **more: dict[str, Any]) -> Graph:
    """Loads a video, applies the steps to its frames, adds its sound again and saves it."""
    graph: Graph = {
        "load": node("LoadVideo", file=file),
        "parts": node("GetVideoComponents", video=["load", 0]),
        **more,
    }
    last = _chained(graph, ["parts", 0], steps)
    graph["join"] = node("CreateVideo", images=last, fps=["parts", 2], audio=["parts", 1])
    graph["save"] = node("SaveVideo", video=["join", 0], filename_prefix=prefix, format=format, codec="auto")
    return graph
