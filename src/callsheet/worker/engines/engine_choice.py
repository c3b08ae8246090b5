"""Chooses the engine of a job. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.providers.comfy.models import classes_of_graph, models_of_graph


@dataclass(frozen=True, slots=True)
class EngineState:
    """State of an engine. `places` is 0 while it takes no job; `loaded` contains the models of its last job."""

    name: str
    places: int
    busy: int
    loaded: frozenset[str] = frozenset()
    last_used: float = 0.0


def choose_engine(engines: Sequence[EngineState], wanted: frozenset[str]) -> EngineState | None:
    """Chooses the least busy engine; among equals the one with the fewest models to load, then one with nothing loaded,
    then the least recently used. So the other engines keep their models for jobs that need them. Returns None if every
    place is taken."""
    free = [each for each in engines if each.busy < each.places]
    return min(
        free,
        key=lambda each: (each.busy, len(wanted - each.loaded), bool(each.loaded), each.last_used, each.name),
        default=None,
    )


def loaded_by(graph: Mapping[str, Any]) -> frozenset[str]:
    """What an engine has loaded after a run of this graph: the graph's models, or its node classes if it names none."""
    return frozenset(models_of_graph(graph) or classes_of_graph(graph))
