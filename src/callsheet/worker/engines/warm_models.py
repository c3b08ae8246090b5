"""Estimates which models the engines have loaded, from the graphs that ran. Pure.

An engine keeps its models loaded until it needs the memory, and does not report them. So the models of the latest runs
count as loaded: only a few, because more do not fit in memory together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.providers.comfy.models import models_of_graph, short_hash

MAX_MODELS = 16


class WarmModels:
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
