"""Which models an agent takes for loaded."""

from __future__ import annotations

from callsheet.providers.comfy.models import short_hash
from callsheet.worker.engines.engine_choice import WarmModels


def graph(*models: str) -> dict[str, object]:
    return {str(number): {"class_type": "L", "inputs": {"ckpt_name": name}} for number, name in enumerate(models)}


def test_the_latest_models_are_listed_first_up_to_a_limit() -> None:
    warm = WarmModels(max_models=2)
    warm.ran(graph("a.pt"))
    warm.ran(graph("b.pt"))
    warm.ran(graph("a.pt", "c.pt"))
    assert warm.hashes() == [short_hash("c.pt"), short_hash("a.pt")]


def test_a_graph_without_models_keeps_the_list_and_a_restart_clears_it() -> None:
    warm = WarmModels()
    warm.ran(graph("a.pt"))
    warm.ran({"1": {"class_type": "L", "inputs": {"text": "a"}}})
    assert warm.hashes() == [short_hash("a.pt")]
    warm.forget()
    assert warm.hashes() == []
