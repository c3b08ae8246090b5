"""Runs, their outputs, history, queue and jobs have the shapes ComfyUI was recorded with."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import finished, idle, lightbox_here, lightbox_process, render
from tests.support.comfyui.lightbox_recordings import differences, only_entry, sample
from tests.support.media.clips import make_clip
from tests.support.waiting import until

OUTPUTS = sample("output_shapes")
STATES = sample("history_states")
CACHE = sample("cache_and_ids")
MARKED = sample("output_marker_and_refusals")
Graph = dict[str, Any]


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncIterator[RunningLightbox]:
    """An engine that has rendered nothing yet."""
    async with lightbox_here(tmp_path / "engine") as running:
        yield running


@pytest.fixture
async def fresh_client(fresh: RunningLightbox) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=fresh.url, timeout=60, trust_env=False) as opened:
        yield opened


async def test_every_output_has_the_recorded_shape_and_name(
    fresh: RunningLightbox, fresh_client: httpx.AsyncClient
) -> None:
    make_clip(fresh.folders.input / "in1.mp4", frames=12)
    for name in ("corrupt.png", "corrupt.mp4"):
        (fresh.folders.input / name).write_bytes(b"not what it says" * 20)
    for name, case in OUTPUTS.items():
        # There are no latents without a model.
        if name == "SaveLatent" or "prompt" not in case:
            continue
        entry = await render(fresh_client, case["prompt"], client_id="c")
        assert entry["status"]["status_str"] == case["status_str"], name
        assert differences(case["outputs"], entry["outputs"]) == [], name
        assert differences(case["meta"], entry["meta"]) == [], name
        assert file_names(entry["outputs"]) == file_names(case["outputs"]), name
        if "exception_message" in case:
            printed = entry["status"]["messages"][-1][1]["exception_message"]
            assert printed.splitlines()[0] == case["exception_message"][0].splitlines()[0].replace(
                "/opt/data/input", str(fresh.folders.input)
            )


def file_names(outputs: dict[str, Any]) -> list[str]:
    items = [item for shown in outputs.values() for each in shown.values() for item in each if isinstance(item, dict)]
    return [re.sub(r"temp_[a-z]+_", "temp_", item["filename"]) for item in items]


async def test_a_missing_video_is_refused_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    case = OUTPUTS["LoadVideo_missing"]
    response = await fresh_client.post("/prompt", json={"prompt": case["request"]})
    assert response.status_code == case["response"]["http_status"]
    assert response.json() == case["response"]["body"]


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "name",
    [
        "history_success_no_client_id",
        "history_runtime_error",
        "history_runtime_error_builtin",
        "history_oom_error",
        "history_error_with_partial_outputs",
    ],
)
async def test_the_history_of_a_run_is_as_recorded(name: str, fresh_client: httpx.AsyncClient) -> None:
    recorded = only_entry(sample(name))
    cached = recorded["status"]["messages"][1][1]["nodes"]
    graph = recorded["prompt"][2]
    if cached:
        # The recording found these done: they are done here first.
        await render(fresh_client, done_before(graph, cached))
    entry = await render(fresh_client, graph, **request_of(recorded))
    assert differences(recorded, entry) == []
    assert events(entry) == events(recorded)
    ended, expected = entry["status"]["messages"][-1][1], recorded["status"]["messages"][-1][1]
    for key in ("node_id", "node_type", "exception_message", "exception_type"):
        assert ended.get(key) == expected.get(key)
    assert set(ended.get("executed", ())) == set(expected.get("executed", ()))
    assert file_names(entry["outputs"]) == file_names(recorded["outputs"])


def done_before(graph: Graph, cached: list[str]) -> Graph:
    shown = {f"p{key}": {"class_type": "PreviewImage", "inputs": {"images": [key, 0]}} for key in cached}
    return {key: graph[key] for key in cached} | shown


def request_of(recorded: dict[str, Any]) -> dict[str, Any]:
    extra_data = {key: value for key, value in recorded["prompt"][3].items() if key != "create_time"}
    return {"extra_data": extra_data}


def events(entry: dict[str, Any]) -> list[str]:
    return [event for event, _ in entry["status"]["messages"]]


async def test_a_cached_run_without_a_client_shows_nothing_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    recorded = only_entry(sample("history_cached_no_client_id"))
    await render(fresh_client, recorded["prompt"][2])
    again = await render(fresh_client, recorded["prompt"][2])
    assert differences(recorded, again) == []
    assert again["outputs"] == recorded["outputs"] == {}


async def test_an_interrupted_run_ends_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    recorded = only_entry(sample("history_interrupted"))
    request = {"prompt": recorded["prompt"][2], **request_of(recorded)}
    prompt_id = (await fresh_client.post("/prompt", json=request)).json()["prompt_id"]
    await until_running(fresh_client, prompt_id)
    await fresh_client.post("/interrupt", json={"prompt_id": "another"})
    assert (await fresh_client.get(f"/history/{prompt_id}")).json() == {}
    response = await fresh_client.post("/interrupt", json={"prompt_id": prompt_id})
    assert (response.status_code, response.text) == (200, STATES["interrupt_resp"]["body"])
    entry = await finished(fresh_client, prompt_id)
    assert differences({**recorded, "status": None}, {**entry, "status": None}) == []
    assert events(entry)[-1] == "execution_interrupted"
    job = (await fresh_client.get(f"/api/jobs/{prompt_id}")).json()
    assert job.keys() == STATES["jobs_interrupted"]["body"].keys()
    assert job["status"] == STATES["jobs_interrupted"]["body"]["status"]


async def test_a_node_that_does_not_listen_is_stopped_before_the_next(fresh_client: httpx.AsyncClient) -> None:
    status, recorded = sample("inputs_cache_interrupt")["interrupt_noninterruptible_then_other_node"]
    graph = sleeping(30)
    graph["4"] = {"class_type": "ProbeHang", "inputs": {"image": ["1", 0], "seconds": 2.0}}
    graph["3"]["inputs"]["image"] = ["4", 0]
    prompt_id = (await fresh_client.post("/prompt", json={"prompt": graph})).json()["prompt_id"]
    await until_running(fresh_client, prompt_id)
    await fresh_client.post("/interrupt")
    entry = await finished(fresh_client, prompt_id)
    assert entry["status"]["status_str"] == status
    assert events(entry) == recorded


async def test_an_interrupt_reaches_what_runs_and_nothing_else(fresh_client: httpx.AsyncClient) -> None:
    await fresh_client.post("/interrupt")
    assert (await render(fresh_client, still(1, "idle")))["status"]["status_str"] == "success"
    ends = set()
    for color in range(20):
        response = await fresh_client.post("/prompt", json={"prompt": sleeping(30, color)})
        prompt_id = response.json()["prompt_id"]
        following = (await fresh_client.post("/prompt", json={"prompt": still(color, "next")})).json()["prompt_id"]
        await until_running(fresh_client, prompt_id)
        await fresh_client.post("/interrupt", json={"prompt_id": prompt_id})
        await fresh_client.post("/interrupt", json={"prompt_id": prompt_id})
        ends.add(events(await finished(fresh_client, prompt_id))[-1])
        assert (await finished(fresh_client, following))["status"]["status_str"] == "success"
    assert ends == set(sample("inputs_cache_interrupt")["interrupt_immediately_after_post_20x"])


async def until_running(client: httpx.AsyncClient, prompt_id: str) -> None:
    async def is_running() -> bool:
        running = (await client.get("/queue")).json()["queue_running"]
        return any(item[1] == prompt_id for item in running)

    await until(is_running)


def sleeping(seconds: float, color: int = 1) -> Graph:
    image = {"width": 64, "height": 64, "batch_size": 1, "color": color}
    sleep = {"image": ["1", 0], "seconds": seconds, "steps": max(1, round(seconds * 20)), "preview": False}
    return {
        "1": {"class_type": "EmptyImage", "inputs": image},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "sleep"}},
        "3": {"class_type": "ProbeSleep", "inputs": sleep},
    }


async def test_queue_history_and_jobs_distinguish_states_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    async def post(graph: Graph) -> str:
        return str((await fresh_client.post("/prompt", json={"prompt": graph})).json()["prompt_id"])

    running, pending = await post(sleeping(30)), await post(sleeping(0.1, 2))
    await until_running(fresh_client, running)
    assert (await fresh_client.get(f"/history/{running}")).json() == STATES["history_while_running"]["body"]
    assert (await fresh_client.get(f"/history/{pending}")).json() == STATES["history_while_queued"]["body"]
    assert (await fresh_client.get("/history/unknown")).json() == STATES["history_unknown"]["body"]
    assert differences(STATES["get_prompt"]["body"], (await fresh_client.get("/prompt")).json()) == []
    for name, job_id in (("jobs_running", running), ("jobs_pending", pending), ("jobs_404", "unknown")):
        response = await fresh_client.get(f"/api/jobs/{job_id}")
        assert response.status_code == STATES[name]["http_status"]
        assert differences(STATES[name]["body"], response.json()) == []
        assert response.json().get("status") == STATES[name]["body"].get("status")
    listed = (await fresh_client.get("/api/jobs", params={"status": "pending,in_progress"})).json()
    assert differences(STATES["jobs_list_active"]["body"], listed) == []
    queue = (await fresh_client.get("/queue")).json()
    recorded = sample("queue_running_and_pending")
    for key in recorded:
        number, prompt_id, graph, extra_data, outputs = queue[key][0]
        assert differences(recorded[key][0][:2], [number, prompt_id]) == []
        assert extra_data.keys() == recorded[key][0][3].keys()
        assert outputs == recorded[key][0][4]
        assert graph.keys() == recorded[key][0][2].keys()
    await fresh_client.post("/queue", json={"delete": [pending, "unknown"]})
    assert (await fresh_client.get(f"/api/jobs/{pending}")).status_code == 404
    await fresh_client.post("/interrupt")
    await idle(fresh_client)


async def test_ended_jobs_are_listed_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    for color in range(4):
        await render(fresh_client, sleeping(0, color))
    recorded = sample("jobs_list")
    listed = (await fresh_client.get("/api/jobs", params={"limit": 3})).json()
    assert differences(recorded, listed) == []
    assert listed["pagination"] == {"offset": 0, "limit": 3, "total": 4, "has_more": True}
    failed = sample("jobs_error")
    entry = await render(fresh_client, failed["body"]["workflow"]["prompt"], client_id="c9")
    job = await fresh_client.get(f"/api/jobs/{entry['prompt'][1]}")
    assert job.status_code == failed["http_status"]
    assert differences(failed["body"], job.json()) == []
    assert (await fresh_client.get("/jobs")).status_code == 404


def still(color: int, prefix: str) -> Graph:
    image = {"width": 64, "height": 64, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": image},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": prefix}},
    }


def cached(entry: dict[str, Any]) -> list[str]:
    return list(entry["status"]["messages"][1][1]["nodes"])


async def test_results_are_reused_and_forgotten_as_recorded(
    fresh: RunningLightbox, fresh_client: httpx.AsyncClient
) -> None:
    one, other = still(1, "cache"), still(2, "cache")
    first = await render(fresh_client, one)
    assert first["outputs"] == CACHE["same_prompt_twice_no_client_id"]["first"]
    assert (await render(fresh_client, one))["outputs"] == CACHE["same_prompt_twice_no_client_id"]["second"]
    third = await render(fresh_client, one, client_id="nobody")
    assert third["outputs"] == CACHE["third_with_client_id_nobody_connected"]["outputs"]
    assert cached(third) == CACHE["third_with_client_id_nobody_connected"]["cached"]
    assert (await render(fresh_client, one, client_id=""))["outputs"] == first["outputs"]
    assert (await render(fresh_client, one, client_id=None))["outputs"] == CACHE["with_client_id_null"]["outputs"]
    (fresh.folders.output / "cache_00001_.png").unlink()
    gone = await render(fresh_client, one, client_id="c")
    assert gone["outputs"] == CACHE["same_prompt_after_output_file_deleted"]["outputs"]
    view = await fresh_client.get("/view", params=gone["outputs"]["2"]["images"][0])
    assert view.status_code == CACHE["same_prompt_after_output_file_deleted"]["view_status"]
    second = await render(fresh_client, other)
    reused = CACHE["counter_reuse_after_delete"]["new_prompt_file"]
    assert second["outputs"]["2"]["images"][0]["filename"] == reused
    back = await render(fresh_client, one)
    assert cached(back) == CACHE["A_B_A_is_A_cached"]["cached"]
    assert back["outputs"]["2"]["images"][0]["filename"] == CACHE["A_B_A_is_A_cached"]["file"]
    renamed = await render(fresh_client, still(1, "cache_other"))
    assert cached(renamed) == CACHE["changed_prefix_only"]["cached"]
    assert renamed["outputs"] == CACHE["changed_prefix_only"]["out"]
    graph = still(1, "cache_other")
    moved = {"11": graph["1"], "22": {**graph["2"], "inputs": {**graph["2"]["inputs"], "images": ["11", 0]}}}
    entry = await render(fresh_client, moved, client_id="c")
    assert cached(entry) == CACHE["same_inputs_other_node_ids"]["cached"]
    assert entry["outputs"] == CACHE["same_inputs_other_node_ids"]["out"]


async def test_a_node_with_an_input_it_does_not_know_runs_again_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    source = still(1, "")["1"]
    concatenated = {"string_a": "linked", "string_b": "prefix", "delimiter": "_"}
    linked = {
        "1": source,
        "3": {"class_type": "StringConcatenate", "inputs": concatenated},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": ["3", 0]}},
    }
    preview = {"1": source, "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}}
    graphs = {"preview_plain": preview, "preview_marked": preview, "save_marked_same_prefix": still(1, "mk")}
    for name, graph in (graphs | {"linked_prefix_marked": linked}).items():
        entries = []
        for number in range(2):
            mark = {} if name == "preview_plain" else {"callsheet_run": f"{name}-{number}"}
            output = {**graph["2"], "inputs": {**graph["2"]["inputs"], **mark}}
            entries.append(await render(fresh_client, {**graph, "2": output}, client_id="c"))
        recorded = MARKED[name]
        assert [sorted(cached(each)) for each in entries] == [sorted(cached(each)) for each in recorded]
        assert [
            differences(mine["outputs"], each["outputs"]) for mine, each in zip(recorded, entries, strict=True)
        ] == [
            [],
            [],
        ]
        files = [[each["outputs"]["2"]["images"][0]["filename"] for each in runs] for runs in (recorded, entries)]
        assert len({(first == second) for first, second in files}) == 1, "the same file again, or not"


@pytest.mark.parametrize("name", ["missing_class", "cycle"])
async def test_a_graph_that_cannot_be_run_is_refused_as_recorded(fresh_client: httpx.AsyncClient, name: str) -> None:
    graph = still(1, "x")
    if name == "missing_class":
        graph["2"]["class_type"] = "FancyNodeThatIsNotHere"
    else:
        graph["1"] = {"class_type": "ImageInvert", "inputs": {"image": ["3", 0]}}
        graph["3"] = {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}}
    response = await fresh_client.post("/prompt", json={"prompt": graph})
    assert response.status_code == MARKED[name]["http_status"]
    assert response.json() == MARKED[name]["body"]


async def test_an_id_may_be_given_twice_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    blocking = (await fresh_client.post("/prompt", json={"prompt": sleeping(30)})).json()["prompt_id"]
    await until_running(fresh_client, blocking)

    async def post(**request: Any) -> httpx.Response:
        return await fresh_client.post("/prompt", json=request)

    first = await post(prompt=still(1, "dupq1"), prompt_id="twice")
    second = await post(prompt=still(2, "dupq2"), prompt_id="twice")
    for response, name in ((first, "r1"), (second, "r2")):
        assert differences(CACHE["same_prompt_id_twice_queued"][name]["body"], response.json()) == []
    await fresh_client.post("/queue", json={"delete": ["twice"]})
    left = (await fresh_client.get("/queue")).json()["queue_pending"]
    assert len(left) == CACHE["delete_dup_id_removes"]["left"]
    await post(prompt=still(3, "dupn1"), prompt_id="same", number=7)
    clash = await post(prompt=still(4, "dupn2"), prompt_id="same", number=7)
    recorded = CACHE["same_prompt_id_and_number_queued"]["r2"]
    assert (clash.status_code, clash.text) == (recorded["http_status"], recorded["body"])
    await post(prompt=still(5, "front"), prompt_id="front", front=True)
    await fresh_client.post("/interrupt", json={"prompt_id": blocking})
    await idle(fresh_client)
    ended = list((await fresh_client.get("/history")).json())
    assert (ended.index("front") < ended.index("same")) is CACHE["front_ran_first"]
    same = (await fresh_client.get("/history/same")).json()["same"]
    assert same["outputs"] == CACHE["...after"]["hist"]


async def test_numbers_in_a_batch_start_again_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    for color, recorded in enumerate(sample("batch_num_overwrite")):
        graph = still(color, "bnx_%batch_num%")
        graph["1"]["inputs"]["batch_size"] = 2
        assert (await render(fresh_client, graph))["outputs"]["2"]["images"] == recorded


async def test_the_engine_describes_itself_as_recorded(fresh_client: httpx.AsyncClient) -> None:
    recorded = sample("system_stats")
    for path in ("/system_stats", "/api/system_stats"):
        stats = (await fresh_client.get(path)).json()
        assert differences(recorded, stats) == []
    assert stats["system"]["comfyui_version"] == recorded["system"]["comfyui_version"]
    described = sample("object_info_SaveImage_LoadImage")
    everything = (await fresh_client.get("/object_info")).json()
    for name, node in described.items():
        assert differences(node, everything[name]) == [], name
        assert (await fresh_client.get(f"/object_info/{name}")).json() == {name: everything[name]}
        assert node["input_order"] == everything[name]["input_order"]
    assert (await fresh_client.get("/object_info/NoSuch")).json() == {}
    assert (await fresh_client.get("/nowhere")).status_code == 404


@pytest.mark.thorough
async def test_a_killed_engine_forgets_everything_but_files_as_recorded(tmp_path: Path) -> None:
    recorded = sample("kill_restart")["kill9_restart"]
    async with lightbox_process(tmp_path / "engine") as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
            done = await render(client, still(1, "kept"), prompt_id="done")
            running = (await client.post("/prompt", json={"prompt": sleeping(30)})).json()["prompt_id"]
            await until_running(client, running)
            preview = done_before(still(2, "t"), ["1"])
            await client.post("/prompt", json={"prompt": preview})
        await process.kill()
        (process.directory / "temp" / "left.png").write_bytes(b"x")
        await process.start()
        async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
            assert (await client.get("/history/done")).json() == recorded["finished_before"]
            assert (await client.get("/queue")).json() == recorded["queue"]
            assert (await client.get("/api/jobs")).json() == recorded["jobs"]
            following = (await client.post("/prompt", json={"prompt": still(3, "next")})).json()
            assert following["number"] == recorded["number_of_next"]["number"]
            await idle(client)
            view = await client.get("/view", params=done["outputs"]["2"]["images"][0])
            assert view.status_code == 200
            assert not (process.directory / "temp" / "left.png").exists()
