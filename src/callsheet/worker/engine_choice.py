"""Which of several engines a job goes to. Pure: states in, a choice out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MODEL_FILE = re.compile(r".+\.(safetensors|sft|ckpt|pt|pth|bin|gguf|onnx)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine as the choice sees it. `places` is 0 while it takes no job; `loaded` are the models of its last job."""

    name: str
    places: int
    busy: int
    loaded: frozenset[str] = frozenset()
    last_used: float = 0.0


def choose_engine(engines: Sequence[EngineState], wanted: frozenset[str]) -> EngineState | None:
    """The least busy engine; among equals the one with the fewest models to load, then one that has nothing loaded yet,
    then the one that was used longest ago: what the others have loaded stays loaded for the jobs that want it. None:
    every place is taken."""
    free = [each for each in engines if each.busy < each.places]
    return min(
        free,
        key=lambda each: (each.busy, len(wanted - each.loaded), bool(each.loaded), each.last_used, each.name),
        default=None,
    )


def models_in(graph: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The names of model files that a graph loads. A graph without any is known by its node classes."""
    constants = [value for node in graph.values() for value in _inputs(node).values() if isinstance(value, str)]
    models = frozenset(value for value in constants if _MODEL_FILE.fullmatch(value))
    return models or frozenset(str(node.get("class_type")) for node in graph.values())


def _inputs(node: Mapping[str, Any]) -> Mapping[str, Any]:
    inputs = node.get("inputs")
    return inputs if isinstance(inputs, dict) else {}
