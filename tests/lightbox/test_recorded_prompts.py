"""Lightbox responds to a prompt as ComfyUI did in the recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import finished, idle, lightbox_here, render
from tests.support.comfyui.lightbox_recordings import differences, sample
from tests.support.media.clips import make_image
from tests.support.waiting import until

CASES = sample("prompt_cases")
POISON = sample("poison_prompts")


def empty(color: int, save: str = "t") -> dict[str, Any]:
    image = {"width": 64, "height": 64, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": image},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": save}},
    }


def shape_of(response: httpx.Response) -> dict[str, Any]:
    is_json = response.headers.get("content-type", "").startswith("application/json")
    kind = response.headers.get("content-type") if response.content else None
    body = response.json() if is_json else response.text
    return {"http_status": response.status_code, "content_type": kind, "body": body}


@pytest.mark.few_forms
@pytest.mark.parametrize("name", [name for name in CASES if name != "origin_mismatch"])
async def test_a_prompt_gets_the_recorded_response(
    name: str, lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    make_image(lightbox_engine.folders.input / "in1.png")
    request, recorded = CASES[name]["request"], CASES[name]["response"]
    content = request if isinstance(request, str) else json.dumps(request)
    response = shape_of(await lightbox_client.post("/prompt", content=content))
    await idle(lightbox_client)
    assert response["http_status"] == recorded["http_status"]
    assert response["content_type"] == recorded["content_type"]
    assert differences(recorded["body"], response["body"]) == []
    if isinstance(recorded["body"], dict) and "error" in recorded["body"]:
        printed, expected = response["body"], recorded["body"]
        assert printed["error"] == expected["error"]
        for node, errors in expected["node_errors"].items():
            assert printed["node_errors"][node]["dependent_outputs"] == errors["dependent_outputs"]
            assert [each["message"] for each in printed["node_errors"][node]["errors"]] == [
                each["message"] for each in errors["errors"]
            ]


async def test_details_name_the_value_and_what_is_allowed(lightbox_client: httpx.AsyncClient) -> None:
    for name in ("err_invalid_type_int", "err_below_min", "err_value_not_in_list", "err_return_type_mismatch"):
        recorded = CASES[name]["response"]["body"]["node_errors"]
        response = (await lightbox_client.post("/prompt", json=CASES[name]["request"])).json()["node_errors"]
        assert response == recorded


async def test_a_page_of_another_origin_is_refused(lightbox_client: httpx.AsyncClient) -> None:
    response = await lightbox_client.post(
        "/prompt", json={"prompt": empty(1)}, headers={"Origin": "http://evil.example"}
    )
    assert shape_of(response) == CASES["origin_mismatch"]["response"]


async def test_a_long_chain_runs_and_one_too_long_is_refused_as_recorded(lightbox_client: httpx.AsyncClient) -> None:
    for length in (100, 600):
        entry = await render(lightbox_client, chain(length))
        assert entry["status"]["status_str"] == POISON[f"chain_of_{length}_nodes"]["result"][1]
    for length in (1000, 3000):
        response = await lightbox_client.post("/prompt", json={"prompt": chain(length)})
        status, text, _ = POISON[f"chain_of_{length}_nodes"]["result"]
        assert response.status_code == status
        assert response.text.startswith(text[: text.index('"node_errors": {')])
        (errors,) = response.json()["node_errors"].values()
        assert errors["errors"][0]["details"] == "maximum recursion depth exceeded"


def chain(length: int) -> dict[str, Any]:
    graph = empty(7)
    for position in range(length):
        before = "1" if position == 0 else f"i{position - 1}"
        graph[f"i{position}"] = {"class_type": "ImageInvert", "inputs": {"image": [before, 0]}}
    graph["2"]["inputs"]["images"] = [f"i{length - 1}", 0]
    return graph


@pytest.mark.parametrize(
    ("name", "orphan"),
    [
        ("orphan_node_without_inputs_key", {"class_type": "ImageInvert"}),
        ("orphan_node_inputs_is_list", {"class_type": "ImageInvert", "inputs": []}),
        ("orphan_node_links_missing_node", {"class_type": "ImageInvert", "inputs": {"image": ["99", 0]}}),
    ],
)
async def test_a_node_that_no_output_needs_is_accepted_and_unlike_comfyui_kills_nothing(
    name: str, orphan: dict[str, Any], lightbox_client: httpx.AsyncClient
) -> None:
    assert POISON[name]["health"]["process_alive"]
    entry = await render(lightbox_client, {**empty(11), "9": orphan})
    assert entry["status"]["status_str"] == "success"


@pytest.mark.parametrize("client_id", [["a"], {"a": 1}, 17])
async def test_an_odd_client_id_is_accepted_and_unlike_comfyui_ends_nothing(
    client_id: Any, lightbox_client: httpx.AsyncClient
) -> None:
    assert {"client_id_list", "client_id_dict", "client_id_int"} <= POISON.keys()
    assert (await render(lightbox_client, empty(12), client_id=client_id))["status"]["completed"]
    assert (await lightbox_client.get("/system_stats")).status_code == 200


async def test_extra_pnginfo_that_is_not_an_object_gets_the_recorded_response(
    lightbox_client: httpx.AsyncClient,
) -> None:
    for value, name in (("text", "extra_pnginfo_string"), (None, "extra_pnginfo_null")):
        _, end, one, listed = POISON[name]["result"]
        response = await lightbox_client.post(
            "/prompt", json={"prompt": empty(13, name), "extra_data": {"extra_pnginfo": value}}
        )
        prompt_id = response.json()["prompt_id"]
        entry = await finished(lightbox_client, prompt_id)
        last = entry["status"]["messages"][-1][1]
        assert last.get("exception_message", entry["status"]["status_str"]) == end
        assert (await lightbox_client.get(f"/api/jobs/{prompt_id}")).status_code == one
        assert (await lightbox_client.get("/api/jobs")).status_code == listed
        await lightbox_client.post("/history", json={"delete": [prompt_id]})
        assert (await lightbox_client.get("/api/jobs")).status_code == 200


async def test_values_outside_of_strict_json_are_returned_as_recorded(lightbox_client: httpx.AsyncClient) -> None:
    response = await lightbox_client.post("/prompt", content=json.dumps({"prompt": empty(14), "number": float("nan")}))
    assert response.status_code == POISON["number_nan"]["result"][0]
    assert '"number": NaN' in response.text
    graph = {**empty(14), "2": {"class_type": "ProbeUI", "inputs": {"image": ["1", 0], "mode": "nan"}}}
    prompt_id = (await lightbox_client.post("/prompt", json={"prompt": graph})).json()["prompt_id"]
    await finished(lightbox_client, prompt_id)
    assert "[NaN, Infinity]" in (await lightbox_client.get(f"/history/{prompt_id}")).text
    assert "[NaN, Infinity]" in POISON["ui_nan_value"]["result"]["text"]


@pytest.mark.parametrize("kind", ["SystemExit", "BaseException"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_node_that_ends_the_thread_wedges_the_engine_as_recorded(kind: str, tmp_path: Path) -> None:
    recorded = POISON[f"node_raises_{kind}"]
    async with (
        lightbox_here(tmp_path / "engine") as wedged,
        httpx.AsyncClient(base_url=wedged.url, timeout=60) as client,
    ):
        graph = empty(1)
        graph["3"] = {"class_type": "ProbeFail", "inputs": {"image": ["1", 0], "message": "x", "kind": kind}}
        graph["2"]["inputs"]["images"] = ["3", 0]
        prompt_id = (await client.post("/prompt", json={"prompt": graph})).json()["prompt_id"]

        async def is_running() -> bool:
            return bool((await client.get(f"/api/jobs/{prompt_id}")).json()["status"] == "in_progress")

        await until(is_running)
        await client.post("/prompt", json={"prompt": empty(2)})
        queue = (await client.get("/queue")).json()
        assert [len(queue["queue_running"]), len(queue["queue_pending"])] == recorded["health"]["queue"]
        assert (await client.get(f"/history/{prompt_id}")).json() == recorded["result"]["hist"]
        job = (await client.get(f"/api/jobs/{prompt_id}")).json()
        assert differences(recorded["result"]["jobs"], job) == []
        assert (await client.get("/system_stats")).status_code == recorded["health"]["system_stats"]
