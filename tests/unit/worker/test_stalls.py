"""What can be read out of an engine's queue and memory about whether it still works."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.providers.comfy.responses import QueuePlace, RunSigns, is_idle, memory_in, place_in
from tests.support.comfyui.replaying_engine import sample

MINE, OTHER = [0, "mine", {}, {}, []], [1, "other", {}, {}, []]


@pytest.mark.parametrize(
    ("running", "pending", "expected"),
    [
        ([MINE], [OTHER], QueuePlace(True, ("mine",))),
        ([OTHER], [MINE], QueuePlace(False, ("other",))),
        ([], [MINE], QueuePlace(False, ())),
        ([OTHER], [], None),
        (None, "nonsense", None),
    ],
)
def test_the_place_of_a_run_in_the_queue_is_found(running: Any, pending: Any, expected: QueuePlace | None) -> None:
    assert place_in({"queue_running": running, "queue_pending": pending}, "mine") == expected


def test_runs_behind_a_run_are_not_a_sign_of_progress() -> None:
    alone = place_in({"queue_running": [OTHER], "queue_pending": [MINE]}, "mine")
    assert alone == place_in({"queue_running": [OTHER], "queue_pending": [MINE, [2, "third", {}, {}, []]]}, "mine")


@pytest.mark.parametrize(
    ("place", "is_at_node", "expected"),
    [
        (QueuePlace(True, ("mine",)), False, True),
        (QueuePlace(True, ("mine",)), True, False),
        (QueuePlace(False, ("other",)), False, False),
        (QueuePlace(False, ()), False, True),
    ],
)
def test_an_engine_is_idle_if_no_run_or_no_node_is_active(place: QueuePlace, is_at_node: bool, expected: bool) -> None:
    assert is_idle(place, is_at_node) is expected


def test_memory_of_a_gpu_counts_and_that_of_the_machine_does_not() -> None:
    # Recorded on the CPU, where the figures are those of everything that runs.
    assert memory_in(sample("system_stats")) == ()
    assert memory_in({"devices": [{"type": "cuda", "index": 0, "torch_vram_total": 2, "torch_vram_free": 1}]}) == (
        (0, 2, 1),
    )
    assert memory_in({"devices": "nonsense"}) == ()


def test_memory_is_a_sign_of_progress_from_the_second_check_on() -> None:
    signs = RunSigns()
    assert [signs.has_changed(memory) for memory in [(1,), (1,), (2,), (2,), ()]] == [False, False, True, False, True]
