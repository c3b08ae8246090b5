"""Which models an agent takes for loaded."""

from __future__ import annotations

from callsheet.providers.comfy.models import short_hash
from callsheet.worker.warm_models import WarmModels


def graph(*models: str) -> dict[str, object]:
    return {str(number): {"class_type": "L", "inputs": {"ckpt_name": name}} for number, name in enumerate(models)}


def test_the_latest_are_named_first_and_only_so_many() -> None:
    warm = WarmModels(most=2)
    warm.ran(graph("a.pt"))
    warm.ran(graph("b.pt"))
    warm.ran(graph("a.pt", "c.pt"))
    assert warm.hashes() == [short_hash("c.pt"), short_hash("a.pt")]


def test_a_graph_without_models_changes_nothing_and_a_restart_everything() -> None:
    warm = WarmModels()
    warm.ran(graph("a.pt"))
    warm.ran({"1": {"class_type": "L", "inputs": {"text": "a"}}})
    assert warm.hashes() == [short_hash("a.pt")]
    warm.forget()
    assert warm.hashes() == []
