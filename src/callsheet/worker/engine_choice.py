"""Which of several engines a job goes to. Pure: states in, a choice out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.providers.comfy.models import classes_of_graph, models_of_graph


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


def loaded_by(graph: Mapping[str, Any]) -> frozenset[str]:
    """What an engine has loaded after a run of this graph: its models. A graph that names none is known by its node
    classes."""
    return frozenset(models_of_graph(graph) or classes_of_graph(graph))
