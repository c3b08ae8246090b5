"""Chooses the engine of a job, by the models that the engines have loaded as far as the agent knows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.providers.comfy.models import classes_of_graph, models_of_graph, short_hash


@dataclass(frozen=True, slots=True)
class EngineState:
    """State of an engine. `slots` is 0 while it takes no job; `loaded` contains the models of its last job."""

    name: str
    slots: int
    busy: int
    loaded: frozenset[str] = frozenset()
    last_used: float = 0.0


def choose_engine(engines: Sequence[EngineState], wanted: frozenset[str]) -> EngineState | None:
    """Chooses the least busy engine; among equals the one with the fewest models to load, then one with nothing loaded,
    then the least recently used. So the other engines keep their models for jobs that need them. Returns None if every
    slot is taken."""
    free = [each for each in engines if each.busy < each.slots]
    return min(
        free,
        key=lambda each: (each.busy, len(wanted - each.loaded), bool(each.loaded), each.last_used, each.name),
        default=None,
    )


def loaded_by(graph: Mapping[str, Any]) -> frozenset[str]:
    """The models that an engine has loaded after a run of this graph: the graph's models, or if it names none, its node
    classes.
    """
    return frozenset(models_of_graph(graph) or classes_of_graph(graph))


MAX_MODELS = 16


class WarmModels:
    """Estimates which models the engines have loaded, from the graphs that ran.

    An engine keeps its models loaded until it needs the memory, and does not report them. So the models of the latest
    runs count as loaded: only a few, because more do not fit in memory together.
    """

    def __init__(self, max_models: int = MAX_MODELS):
        self._max_models = max_models
        # The least recently used first.
        self._names: dict[str, None] = {}

    def ran(self, graph: Mapping[str, Any]) -> None:
        """Call when an engine gets this graph."""
        for name in models_of_graph(graph):
            self._names.pop(name, None)
            self._names[name] = None
        for name in list(self._names)[: -self._max_models]:
            del self._names[name]

    def forget(self) -> None:
        """Call when an engine was restarted, or may have been."""
        self._names.clear()

    def hashes(self) -> list[str]:
        """The hashes for a poll, the most recently used model first."""
        return [short_hash(name) for name in reversed(self._names)]
