"""Finds the nodes whose output can be the result of a workflow, and the kind of file that each makes. Pure.

Engines declare which node classes are outputs. Without a declaration, the names of classes decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.catalog.graphs import Graph
from callsheet.catalog.properties import MIME_TYPES
from callsheet.providers.comfy.node_forms import NodeForms

# Common outputs with the file extension of what they make, the most likely result first.
_KNOWN: Mapping[str, str] = {
    "VHS_VideoCombine": "mp4",
    "SaveVideo": "mp4",
    "SaveWEBM": "webm",
    "SaveAnimatedWEBP": "webp",
    "SaveAnimatedPNG": "png",
    "SaveImage": "png",
    "SaveAudioMP3": "mp3",
    "SaveAudio": "flac",
    "SaveAudioOpus": "opus",
    "SaveGLB": "glb",
    "PreviewImage": "png",
    "PreviewAudio": "flac",
    "PreviewAny": "txt",
}
_FIRST_PREVIEW = list(_KNOWN).index("PreviewImage")
_SAVES = re.compile(r"save", re.IGNORECASE)
# A class that combines texts or conditionings makes no file.
_COMBINES = re.compile(r"combine", re.IGNORECASE)
_SHOWS = re.compile(r"show|display|preview|view", re.IGNORECASE)
# The name of a class, or of the input that has what the node saves.
_KINDS = (
    (re.compile(r"video|movie", re.IGNORECASE), "mp4"),
    (re.compile(r"gif", re.IGNORECASE), "gif"),
    (re.compile(r"webp", re.IGNORECASE), "webp"),
    (re.compile(r"image|picture|mask|pixels", re.IGNORECASE), "png"),
    (re.compile(r"audio|sound|music", re.IGNORECASE), "flac"),
    (re.compile(r"glb|mesh", re.IGNORECASE), "glb"),
)
_TEXT = re.compile(r"text|string|caption|prompt|any(thing)?(?![a-z])", re.IGNORECASE)
TEXT = "txt"
UNKNOWN = "bin"


@dataclass(frozen=True, slots=True)
class ProposedOutput:
    node_id: str
    class_type: str
    extension: str
    mime_type: str


def outputs_of(graph: Graph, forms: NodeForms) -> list[ProposedOutput]:
    """The nodes whose output may be the result, the most likely first."""
    return sorted((_output(graph, node_id) for node_id in graph if _is_output(graph[node_id], forms)), key=_likelihood)


def named_output(graph: Graph, node_id: str) -> ProposedOutput:
    """The node that the operator chose, whether or not it is known to be an output."""
    return _output(graph, node_id)


def _is_output(node: Mapping[str, Any], forms: NodeForms) -> bool:
    class_type = node["class_type"]
    form = forms.get(class_type)
    if form is not None:
        return form.is_output
    if class_type in _KNOWN:
        return True
    kind = _kind_of(class_type)
    if _SAVES.search(class_type):
        return kind is not None
    return kind == TEXT if _SHOWS.search(class_type) else kind is not None and bool(_COMBINES.search(class_type))


def _output(graph: Graph, node_id: str) -> ProposedOutput:
    node = graph[node_id]
    class_type, inputs = node["class_type"], node["inputs"]
    extension = _chosen_format(inputs) or _KNOWN.get(class_type) or _kind_of(class_type) or _kind_of_inputs(inputs)
    return ProposedOutput(node_id, class_type, extension, MIME_TYPES[extension])


def _kind_of(class_type: str) -> str | None:
    """The kind that the name of a class names. A class that shows a text may name what the text is about."""
    if _TEXT.search(class_type) and (_SHOWS.search(class_type) or _SAVES.search(class_type)):
        others = [extension for pattern, extension in _KINDS if pattern.search(class_type)]
        return TEXT if not others or _SHOWS.search(class_type) else others[0]
    return next((extension for pattern, extension in _KINDS if pattern.search(class_type)), None)


def _kind_of_inputs(inputs: Mapping[str, Any]) -> str:
    names = [name for name, value in inputs.items() if isinstance(value, list)]
    found = (extension for pattern, extension in _KINDS for name in names if pattern.search(name))
    return next(found, TEXT if any(_TEXT.search(name) for name in names) else UNKNOWN)


def _chosen_format(inputs: Mapping[str, Any]) -> str | None:
    """The format that a node names in its inputs, for example `video/h264-mp4`."""
    chosen = inputs.get("format")
    if not isinstance(chosen, str):
        return None
    found: Iterator[str] = (each for each in MIME_TYPES if re.search(rf"\b{each}\b", chosen))
    return next(found, None)


def _likelihood(output: ProposedOutput) -> tuple[int, int, str]:
    known = list(_KNOWN)
    if output.class_type in _KNOWN:
        place = 2 * known.index(output.class_type)
    elif output.extension == TEXT:
        place = 2 * len(known)
    else:
        # Previews come after files of unknown classes.
        place = 2 * _FIRST_PREVIEW + (1 if _SHOWS.search(output.class_type) else -1)
    return place, len(output.node_id), output.node_id
