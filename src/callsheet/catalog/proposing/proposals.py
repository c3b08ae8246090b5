"""Proposes a workflow for a plain ComfyUI export: the inputs that can be properties, and the node that makes the
result. Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from callsheet.catalog.graphs import Graph
from callsheet.catalog.proposing.chosen import ChosenProperty
from callsheet.catalog.proposing.draft import Proposal
from callsheet.catalog.proposing.inputs import (
    MAX_LABEL_LENGTH,
    NodeInput,
    declared_type,
    key_of,
    limits_of,
    own_title,
    property_of,
    takes_value,
    words,
)
from callsheet.catalog.proposing.outputs import outputs_of
from callsheet.catalog.proposing.values import WRITTEN, propose_values, propose_written, use_titles
from callsheet.providers.comfy.file_inputs import is_link, nodes_that_name_files, takes_file
from callsheet.providers.comfy.node_forms import NodeForms
from callsheet.wire.catalog import (
    FILES,
    Limits,
    PropertyType,
)

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


class ProposedInput(NamedTuple):
    """An input with a value of its own, and the property types that it can have, the most likely first."""

    node_id: str
    name: str
    value: bool | int | float | str
    types: tuple[PropertyType, ...]
    # The parent has a property of the first type.
    label: str
    limits: Limits


def propose(
    graph: Graph,
    forms: NodeForms | None = None,
    *,
    everything: bool = False,
    chosen: Mapping[tuple[str, str], ChosenProperty] | None = None,
) -> Proposal:
    """Proposes properties for a graph that was checked. `everything`: also propose numbers, choices and booleans.
    `chosen`: properties that are made in any case. Raises Unusable if one of them cannot be made.
    """
    proposal = Proposal(copy.deepcopy(dict(graph)), forms or {}, chosen or {})
    _propose_files(proposal)
    propose_written(proposal)
    _propose_texts(proposal, _negatives(graph))
    propose_values(proposal, types_of, everything=everything)
    use_titles(proposal)
    proposal.refuse_unknown_keys()
    proposal.outputs = outputs_of(graph, forms or {})
    return proposal


def inputs_of(graph: Graph, forms: NodeForms | None = None) -> Iterator[ProposedInput]:
    """The inputs of a checked graph. Types that `check_properties` would refuse are left out."""
    proposal = Proposal(dict(graph), forms or {})
    of_files = nodes_that_name_files(graph)
    for source in proposal.sources():
        types = types_of(source, source.node_id in of_files)
        if types:
            title = own_title(graph[source.node_id], proposal.forms.get(source.class_type))
            label = words(key_of(source.name))
            if title:
                label = title if types[0] in FILES else f"{title}: {label}"[:MAX_LABEL_LENGTH]
            limits = limits_of(types[0], source)
            yield ProposedInput(source.node_id, source.name, source.value, types, label, limits)


def types_of(source: NodeInput, names_file: bool) -> tuple[PropertyType, ...]:
    """The types that a property of the input can have, the most likely first. `names_file`: the node is linked to an
    input that names a file.
    """
    declared = declared_type(source.form)
    if not isinstance(source.value, str):
        usual = (PropertyType.BOOLEAN, PropertyType.NUMBER, PropertyType.CHOICE)
        return tuple(each for each in usual if takes_value(each, source.value))
    types = _types_of_text(source.class_type, source.name, names_file)
    if declared in FILES:
        others = (each for each in types if each in FILES and each is not declared)
        return (declared, *others, PropertyType.CHOICE)
    if declared is PropertyType.CHOICE:
        # An engine refuses any other text.
        return (declared, *(each for each in types if each in FILES))
    return types


def _types_of_text(class_type: str, name: str, names_file: bool) -> tuple[PropertyType, ...]:
    if takes_file(class_type, name):
        likeliest = _loads(class_type)
        if name not in _FILE_NAMES:
            return (PropertyType.CHOICE,)
        return (*sorted(_FILE_TYPES, key=lambda each: each is not likeliest), PropertyType.CHOICE)
    return (PropertyType.CHOICE,) if names_file else (PropertyType.TEXT, PropertyType.CHOICE)


def _propose_files(proposal: Proposal) -> None:
    found = [
        (source, file_type) for source in proposal.sources() if (file_type := _file_type(proposal, source)) is not None
    ]
    # If the graph reads a video, the effect is applied to the video. Sound is mostly added to an image.
    found.sort(key=lambda each: _FILE_TYPES.index(each[1]))
    for number, (source, file_type) in enumerate(found):
        key = proposal.chosen_key(source, "input" if number == 0 else file_type.value)
        before = _INPUT_DIRECTORY if _PATH_LOADER.fullmatch(source.class_type) else ""
        proposal.add(source, property_of(source, file_type, key, is_primary=number == 0), before)


def _file_type(proposal: Proposal, source: NodeInput) -> PropertyType | None:
    if not isinstance(source.value, str):
        return None
    declared = declared_type(source.form)
    likely = declared if declared in FILES else _loads(source.class_type) if source.name in _FILE_NAMES else None
    chosen = proposal.choice(source)
    if chosen is not None:
        likely = None if chosen.is_fixed else chosen.type or likely
    return likely if likely in FILES else None


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
    for source in proposal.sources():
        value = source.value
        if not _is_prompt(source) or takes_file(source.class_type, source.name) or source.node_id in of_files:
            continue
        if WRITTEN.search(value) or not takes_value(PropertyType.TEXT, value) or proposal.choice(source):
            continue
        wanted = "negative_prompt" if source.node_id in negatives else "prompt"
        key = proposal.key(wanted if _PROMPT_NODE.search(source.class_type) else key_of(source.name))
        proposal.add(source, property_of(source, PropertyType.TEXT, key))


def _is_prompt(source: NodeInput) -> bool:
    if not isinstance(source.value, str) or (source.form is not None and source.form.kind != "text"):
        return False
    if source.form is not None and source.form.is_multiline:
        return True
    return bool(_PROMPT_NODE.search(source.class_type) and _PROMPT_INPUT.fullmatch(source.name))
