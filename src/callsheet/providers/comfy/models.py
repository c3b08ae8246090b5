"""The model files that a graph loads, and the model files of an engine. Pure.

A loader of ComfyUI names its file in an input such as `ckpt_name`, `lora_name` or `clip_name1`. The engine refuses a
value that is not among the choices that its `/object_info` lists for that input. So the value in the graph is compared
with the choices of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from callsheet.toolbox.signing import sha256_hex

_EXTENSIONS = (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf", ".sft", ".onnx")
# Names such as `ckpt_name`, `clip_name1`, `lora_name_2` and `name`. Another input may be a text that no engine checks.
_NAMES_MODEL = re.compile(r"(?:^|_)name_?\d*$", re.IGNORECASE)
# This many characters of a hash distinguish all models of one installation.
SHORT = 16


def is_model_file(value: object) -> bool:
    return isinstance(value, str) and value.lower().endswith(_EXTENSIONS)


def models_of_graph(graph: Mapping[str, Any]) -> list[str]:
    """The files that its loaders name, each once, in the order of the graph."""
    found: dict[str, None] = {}
    for node in graph.values():
        inputs = node.get("inputs") if isinstance(node, Mapping) else None
        for name, value in inputs.items() if isinstance(inputs, Mapping) else ():
            if is_model_file(value) and _NAMES_MODEL.search(str(name)):
                found[value] = None
    return list(found)


def classes_of_graph(graph: Mapping[str, Any]) -> list[str]:
    """The classes of the graph's nodes. ComfyUI refuses a graph with an unknown class, even if no output needs that
    node.
    """
    return list(dict.fromkeys(node["class_type"] for node in graph.values()))


def models_of_object_info(info: Mapping[str, Any]) -> list[str]:
    """Every file among the choices of an engine's loaders, in alphabetical order."""
    return sorted({choice for node in info.values() for choice in _choices(node) if is_model_file(choice)})


def custom_nodes_of_object_info(info: Mapping[str, Any]) -> list[str]:
    """The packages of custom nodes that define a class, in alphabetical order: `custom_nodes.NAME` in ComfyUI."""
    modules = (node.get("python_module") for node in info.values() if isinstance(node, Mapping))
    names = {str(module).split(".")[1] for module in modules if str(module).startswith("custom_nodes.")}
    return sorted(names - {""})


def short_hash(name: str) -> str:
    """The short name of a model in a worker's report of loaded models."""
    return sha256_hex(name.encode("utf-8", "surrogatepass"))[:SHORT]


def _choices(node: object) -> Iterator[Any]:
    given = node.get("input") if isinstance(node, Mapping) else None
    for group in given.values() if isinstance(given, Mapping) else ():
        for form in group.values() if isinstance(group, Mapping) else ():
            yield from _choices_of_input(form)


def _choices_of_input(form: object) -> Iterable[Any]:
    """The choices of an input: `[["a", "b"], {…}]`, or since ComfyUI 0.3.40 also `["COMBO", {"options": ["a",
    "b"]}]`.
    """
    if not isinstance(form, list) or not form:
        return ()
    if isinstance(form[0], list):
        return form[0]
    options = form[1].get("options") if form[0] == "COMBO" and len(form) > 1 and isinstance(form[1], Mapping) else None
    return options if isinstance(options, list) else ()
