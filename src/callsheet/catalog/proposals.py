"""Proposes a workflow for a plain ComfyUI export: the inputs that can be properties, and the node that makes the
result. Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.catalog.graphs import Graph
from callsheet.catalog.properties import DEFAULT_INPUT_PLACEHOLDER
from callsheet.catalog.proposing.outputs import ProposedOutput, outputs_of
from callsheet.providers.comfy.file_inputs import is_link, nodes_that_name_files, takes_file
from callsheet.providers.comfy.node_forms import NodeForms
from callsheet.wire.catalog import LARGEST_NUMBER, LONGEST_TEXT, Limits, Property, PropertyType

_PROMPT_NODE = re.compile(r"TextEncode|Prompt|Text ?Multiline|StringMultiline", re.IGNORECASE)
_PROMPT_INPUT = re.compile(r"text(_[a-z0-9]+)?|((positive|negative)_?)?prompt|clip_[lg]|t5xxl|string|value")
_IMAGE_LOADER = re.compile(r"load_?image", re.IGNORECASE)
_VIDEO_LOADER = re.compile(r"load_?video", re.IGNORECASE)
_AUDIO_LOADER = re.compile(r"(load|record)[ _]?audio", re.IGNORECASE)
_FILE_NAMES = ("image", "video", "audio", "audio_file", "file", "path")
# These loaders read a path, relative to the directory of ComfyUI. All others read a name in its input directory.
_PATH_LOADER = re.compile(r"VHS_Load(Audio|Video(FFmpeg)?Path|ImagePath)")
_INPUT_DIRECTORY = "input/"
_FILE_TYPES = (PropertyType.VIDEO, PropertyType.IMAGE, PropertyType.AUDIO)
_SEEDS = ("seed", "noise_seed")
_WHOLE = (*_SEEDS, "steps")
_NUMBERS = (*_WHOLE, "cfg", "denoise", "guidance", "strength", "strength_model", "strength_clip")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_WRITTEN = re.compile(r"\{\{([a-z][a-z0-9_]{0,62})\}\}")


class ProposedInput(NamedTuple):
    """An input with a value of its own, and the property types that it can have, the most likely first."""

    node_id: str
    name: str
    value: bool | int | float | str
    types: tuple[PropertyType, ...]


@dataclass(slots=True)
class Proposal:
    """A graph that contains placeholders, and one property for each placeholder."""

    graph: dict[str, Any]
    properties: list[Property] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """By key of a property: where its placeholder is, for people."""
    outputs: list[ProposedOutput] = field(default_factory=list)

    def add(self, node_id: str, name: str, wanted: Property, before: str = "") -> None:
        """`before`: text of the input in front of the placeholder."""
        self.graph[node_id]["inputs"][name] = before + wanted.placeholder
        self.note(node_id, name, wanted)

    def note(self, node_id: str, name: str, wanted: Property) -> None:
        self.properties.append(wanted)
        self.places[wanted.key] = f"{self.graph[node_id]['class_type']} {node_id}, {name}"

    def key(self, wanted: str) -> str:
        """The wanted key, with a number appended if the key is taken."""
        taken = {each.key for each in self.properties}
        names = (wanted if number == 1 else f"{wanted}_{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)


def propose(graph: Graph, forms: NodeForms | None = None, *, everything: bool = False) -> Proposal:
    """Proposes properties for a graph that was checked. `everything`: also propose the numbers of samplers. `forms`:
    what engines declare about the classes of the graph, as far as it is known.
    """
    proposal = Proposal(copy.deepcopy(dict(graph)))
    _propose_files(proposal)
    _propose_texts(proposal, _negatives(graph))
    if everything:
        _propose_numbers(proposal)
    proposal.outputs = outputs_of(graph, forms or {})
    return proposal


def inputs_of(graph: Graph) -> Iterator[ProposedInput]:
    """The inputs of a checked graph. Types that `check_properties` would refuse are left out."""
    of_files = nodes_that_name_files(graph)
    for node_id, class_type, name, value in _inputs(graph):
        if isinstance(value, bool):
            yield ProposedInput(node_id, name, value, (PropertyType.BOOLEAN,))
        elif isinstance(value, int | float) and abs(value) <= LARGEST_NUMBER:
            yield ProposedInput(node_id, name, value, (PropertyType.NUMBER, PropertyType.CHOICE))
        elif isinstance(value, str):
            yield ProposedInput(node_id, name, value, _types_of_text(class_type, name, node_id in of_files))


def _types_of_text(class_type: str, name: str, names_file: bool) -> tuple[PropertyType, ...]:
    if takes_file(class_type, name):
        likeliest = _loads(class_type)
        if name not in _FILE_NAMES:
            return (PropertyType.CHOICE,)
        return (*sorted(_FILE_TYPES, key=lambda each: each is not likeliest), PropertyType.CHOICE)
    return (PropertyType.CHOICE,) if names_file else (PropertyType.TEXT, PropertyType.CHOICE)


def _inputs(graph: Graph) -> Iterator[tuple[str, str, str, Any]]:
    """Node id, class, name and value of every input that is not a link. Nodes are in numerical order of their ids."""
    for node_id in sorted(graph, key=lambda each: (len(each), each)):
        node = graph[node_id]
        for name, value in node["inputs"].items():
            if not is_link(value):
                yield node_id, node["class_type"], name, value


def _propose_files(proposal: Proposal) -> None:
    found = [
        (node_id, class_type, name, file_type)
        for node_id, class_type, name, value in _inputs(proposal.graph)
        if isinstance(value, str) and name in _FILE_NAMES and (file_type := _loads(class_type)) is not None
    ]
    # If the graph reads a video, the effect is applied to the video. Sound is mostly added to an image.
    found.sort(key=lambda each: _FILE_TYPES.index(each[3]))
    for number, (node_id, class_type, name, file_type) in enumerate(found):
        key = proposal.key("input" if number == 0 else file_type.value)
        proposal.add(
            node_id,
            name,
            Property(
                key=key,
                type=file_type,
                label=key.replace("_", " ").capitalize(),
                placeholder=DEFAULT_INPUT_PLACEHOLDER if number == 0 else f"__{key.upper()}__",
                required=True,
                user_configurable=True,
                is_primary_input=number == 0,
            ),
            _INPUT_DIRECTORY if _PATH_LOADER.fullmatch(class_type) else "",
        )


def _loads(class_type: str) -> PropertyType | None:
    if _VIDEO_LOADER.search(class_type):
        return PropertyType.VIDEO
    if _AUDIO_LOADER.search(class_type):
        return PropertyType.AUDIO
    return PropertyType.IMAGE if _IMAGE_LOADER.search(class_type) else None


def _negatives(graph: Graph) -> set[str]:
    """The nodes with a negative prompt. A text that a sampler uses for both prompts counts as a positive prompt."""
    return _linked(graph, "negative") - _linked(graph, "positive")


def _linked(graph: Graph, name: str) -> set[str]:
    return {node["inputs"][name][0] for node in graph.values() if is_link(node["inputs"].get(name))}


def _propose_texts(proposal: Proposal, negatives: set[str]) -> None:
    of_files = nodes_that_name_files(proposal.graph)
    texts = [
        (node_id, class_type, name, value)
        for node_id, class_type, name, value in _inputs(proposal.graph)
        if isinstance(value, str) and not takes_file(class_type, name) and node_id not in of_files
    ]
    # Placeholders that a user wrote into the graph come first, because the user chose their names.
    for node_id, _, name, value in texts:
        for key in _WRITTEN.findall(value):
            if key not in proposal.places:
                proposal.note(node_id, name, _text(key, f"{{{{{key}}}}}", None))
    for node_id, class_type, name, value in texts:
        is_prompt = _PROMPT_NODE.search(class_type) and _PROMPT_INPUT.fullmatch(name)
        if is_prompt and not _WRITTEN.search(value) and len(value) <= LONGEST_TEXT and not _CONTROL.search(value):
            key = proposal.key("negative_prompt" if node_id in negatives else "prompt")
            proposal.add(node_id, name, _text(key, f"{{{{{key}}}}}", value))


def _text(key: str, placeholder: str, default: str | None) -> Property:
    return Property(
        key=key,
        type=PropertyType.TEXT,
        label=key.replace("_", " ").capitalize(),
        placeholder=placeholder,
        default=default,
        required=default is None,
        user_configurable=True,
    )


def _propose_numbers(proposal: Proposal) -> None:
    for node_id, _, name, value in list(_inputs(proposal.graph)):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or name not in _NUMBERS or not abs(value) < LARGEST_NUMBER:
            continue
        is_seed = name in _SEEDS
        key = proposal.key(name)
        limits = Limits(integer=name in _WHOLE and float(value).is_integer())
        if is_seed:
            # Some nodes use -1 for "any".
            limits = limits.model_copy(update={"min": min(0, value), "max": LARGEST_NUMBER - 1})
        proposal.add(
            node_id,
            name,
            Property(
                key=key,
                type=PropertyType.NUMBER,
                label=key.replace("_", " ").capitalize(),
                placeholder=f"{{{{{key}}}}}",
                default=value,
                # Every seed costs the same, but a user could request a million steps.
                user_configurable=is_seed,
                limits=limits,
            ),
        )
