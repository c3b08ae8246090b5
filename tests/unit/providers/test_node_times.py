"""Which nodes ran and when, from the messages that real engines sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from callsheet.providers.comfy.run_messages import Following, SocketImages
from callsheet.providers.comfy.socket import EngineSocket
from callsheet.providers.engine import EngineRun
from tests.support.comfyui.engine_setups import RecordingWatcher
from tests.support.comfyui.replaying_engine import SAMPLES, sample

RUN = "r"


def receive(messages: Iterable[tuple[str, dict[str, Any]]], prompt_id: str = RUN) -> RecordingWatcher:
    seen = RecordingWatcher()
    following = Following(EngineRun(prompt_id, {}), seen, SocketImages())
    socket = EngineSocket("ws://engine")
    with socket.following(following):
        for name, data in messages:
            socket._heard(json.dumps({"type": name, "data": data}))
    return seen


def recorded(name: str) -> RecordingWatcher:
    found = sample(name)
    messages = [each["msg"] for each in found["messages"] if "type" in each["msg"]]
    prompt_id = found.get("prompt_id") or next(
        each["data"]["prompt_id"] for each in messages if each["type"] == "execution_start"
    )
    return receive(((each["type"], each["data"]) for each in messages), prompt_id)


def states(seen: RecordingWatcher) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node_id, state in seen.nodes:
        found.setdefault(node_id, []).append(state)
    return found


def of_run(**data: Any) -> dict[str, Any]:
    return {"prompt_id": RUN, **data}


@pytest.mark.parametrize(
    "name", ["ws_success_uncached", "ws_ksampler_default_no_preview", "ws_progress_with_preview_flags"]
)
def test_every_node_of_a_recorded_run_starts_and_ends_once(name: str) -> None:
    found = states(recorded(name))
    assert len(found) >= 2
    assert {tuple(each) for each in found.values()} <= {("started", "finished"), ("cached",)}
    assert ("started", "finished") in {tuple(each) for each in found.values()}


def test_nodes_that_the_engine_had_are_marked_as_cached() -> None:
    found = states(recorded("ws_success_fully_cached"))
    assert found
    assert {tuple(each) for each in found.values()} == {("cached",)}


@pytest.mark.parametrize("name", ["ws_error", "ws_interrupted"])
def test_a_node_that_fails_or_is_interrupted_ends_with_the_run(name: str) -> None:
    found = states(recorded(name))
    assert all(each[-1] in ("finished", "cached") for each in found.values())


def test_prompts_of_others_are_ignored() -> None:
    other = {"prompt_id": "another", "node": "7"}
    seen = receive(
        [("executing", other), ("progress", {**other, "value": 1, "max": 2}), ("executing", of_run(node="1"))]
    )
    assert seen.nodes == [("1", "started")]


def test_an_old_engine_ends_a_node_with_the_start_of_the_next() -> None:
    seen = receive(
        [
            ("execution_start", of_run()),
            ("executing", of_run(node="1")),
            ("executing", of_run(node="2")),
            ("executed", of_run(node="2", output={})),
            ("executing", of_run(node=None)),
        ]
    )
    assert seen.nodes == [("1", "started"), ("1", "finished"), ("2", "started"), ("2", "finished")]


def test_nodes_may_run_beside_each_other_and_again() -> None:
    both = {"1": {"state": "running"}, "2": {"state": "running"}}
    one = {"1": {"state": "finished"}, "2": {"state": "running"}}
    seen = receive(
        [
            ("progress_state", of_run(nodes=both)),
            ("progress_state", of_run(nodes=one)),
            # It comes late, and opens nothing again.
            ("progress", of_run(node="1", value=2, max=2)),
            ("executing", of_run(node="1")),
            ("execution_success", of_run()),
        ]
    )
    assert states(seen) == {"1": ["started", "finished", "started", "finished"], "2": ["started", "finished"]}


def test_unusual_messages_have_no_effect_on_node_times() -> None:
    odd = [
        ("execution_cached", of_run(nodes="1")),
        ("progress", of_run(node=None, value=1, max=2)),
        ("progress_state", of_run(nodes=[1, 2])),
        ("executed", of_run(node=None)),
        ("execution_success", of_run()),
    ]
    assert receive(odd).nodes == []


@pytest.mark.parametrize(
    ("name", "frees"), [("ws_success_uncached", 1), ("ws_success_fully_cached", 1), ("ws_error", 0)]
)
def test_the_place_of_a_run_is_free_when_its_engine_says_that_it_succeeded(name: str, frees: int) -> None:
    # A failed run may be sent once more, without what the engine refused.
    assert recorded(name).frees == frees


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("ws_*.json")))
def test_the_messages_of_a_run_have_all_outputs_that_its_history_has(name: str) -> None:
    found = sample(name)
    if not isinstance(found, dict) or not found.get("client_id") or not found.get("history"):
        return
    following = Following(EngineRun(found["prompt_id"], {}), RecordingWatcher(), SocketImages())
    for each in found["messages"]:
        if "type" in each["msg"] and each["msg"]["data"].get("prompt_id") == found["prompt_id"]:
            following.receive(each["msg"]["type"], each["msg"]["data"])
    entry = found["history"][found["prompt_id"]]
    if any(each["msg"].get("type") == "execution_start" for each in found["messages"]):
        assert following.outputs == entry["outputs"]
        assert following.is_complete == (entry["status"]["completed"] and bool(entry["outputs"]))
