"""Uploads, views and the names of inputs behave as ComfyUI was recorded to."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import finished, lightbox_here, render
from tests.support.comfyui.lightbox_recordings import differences, sample
from tests.support.media.clips import make_clip

UPLOADS = sample("upload_cases")
VIEWS = sample("view_cases")
INPUTS = sample("inputs_cache_interrupt")


def png(shade: int, size: int = 8) -> bytes:
    encoded = io.BytesIO()
    Image.new("RGBA", (size, size), (shade, shade, shade, 128)).save(encoded, "PNG")
    return encoded.getvalue()


# Which bytes a case sends, where it matters that they are others than before.
SHADES = {
    "same_name_other_bytes": 2,
    "same_name_other_bytes_again": 3,
    "overwrite_true": 4,
    "overwrite_1": 5,
    # The recording has the name of the second upload in its response: it sent the same bytes again.
    "overwrite_True_cap": 2,
    "subfolder_collision": 2,
}
# Made by other means than a form with a named file.
SEPARATE = ("wrong_field", "string_field", "size_99MB", "size_101MB")


async def test_every_upload_gets_the_recorded_response(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    # In the recorded order: a case collides with the ones before it.
    for name, case in UPLOADS.items():
        if name in SEPARATE:
            continue
        route = "/upload/mask" if name.startswith("mask") else "/upload/image"
        size = 16 if name == "mask_wrong_size" else 8
        content = b"" if name == "empty_file" else png(SHADES.get(name, 1), size)
        response = await lightbox_client.post(route, data=case["fields"], files={"image": (case["filename"], content)})
        recorded = case["response"]
        assert response.status_code == recorded["http_status"], name
        if recorded["http_status"] != 200:
            assert response.text == recorded["body"], name
        elif name not in ("quotes", "backslash", "nul_newline"):
            assert response.json() == recorded["body"], name
        else:
            # What the library that sends it makes of the name decides.
            assert differences(recorded["body"], response.json()) == [], name
    assert (lightbox_engine.folders.input / "d7a013 (2).png").read_bytes() == png(3)
    assert not (lightbox_engine.folders.input.parent / "d7a013.png").exists()
    with Image.open(lightbox_engine.folders.input / "clipspace" / "d7a013_mask.png") as masked:
        assert masked.getchannel("A").getextrema() == (128, 128)
    assert not (lightbox_engine.folders.input / "clipspace" / "d7a013_mask2.png").exists()


async def test_uploads_of_one_name_at_once_all_keep_their_bytes(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    contents = [png(shade) * 200 for shade in range(40, 60)]
    responses = await asyncio.gather(
        *(lightbox_client.post("/upload/image", files={"image": ("race.png", content)}) for content in contents)
    )
    for response, content in zip(responses, contents, strict=True):
        assert (lightbox_engine.folders.input / response.json()["name"]).read_bytes() == content


async def test_a_form_without_a_file_is_refused_as_recorded(lightbox_client: httpx.AsyncClient) -> None:
    wrong = await lightbox_client.post("/upload/image", files={"picture": ("a.png", png(1))})
    assert wrong.status_code == UPLOADS["wrong_field"]["response"]["http_status"]
    text = await lightbox_client.post("/upload/image", files={"image": (None, b"text")})
    recorded = UPLOADS["string_field"]["response"]
    assert (text.status_code, text.text) == (recorded["http_status"], recorded["body"])


async def test_an_upload_up_to_the_limit_is_accepted_and_no_larger(tmp_path: Path) -> None:
    megabyte = 1024 * 1024
    async with (
        lightbox_here(tmp_path / "engine", max_upload_megabytes=1) as small,
        httpx.AsyncClient(base_url=small.url, timeout=60) as client,
    ):
        fits = await client.post("/upload/image", files={"image": ("big99.bin", bytes(megabyte - 4096))})
        assert fits.json() == UPLOADS["size_99MB"]["response"]["body"]
        large = await client.post("/upload/image", files={"image": ("big101.bin", bytes(megabyte + 4096))})
        recorded = UPLOADS["size_101MB"]["response"]
        assert large.status_code == recorded["http_status"]
        assert large.text == recorded["body"].replace("104857600", str(megabyte))


@pytest.fixture
async def viewable(lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient) -> None:
    """The files the recorded views ask for."""
    empty = {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 5}}
    names = ("multi", "a..b", "日本 語 ü")
    saves = {
        f"s{index}": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": name}}
        for index, name in enumerate(names)
    }
    if not (lightbox_engine.folders.output / "multi_00001_.png").exists():
        await render(lightbox_client, {"1": empty, **saves})
    for folder, name in (("video", "mp4"), ("audio", "flac"), ("latents", "latent")):
        (lightbox_engine.folders.output / folder).mkdir(exist_ok=True)
        (lightbox_engine.folders.output / folder / f"ComfyUI_00001_.{name}").write_bytes(bytes(2271))
    (lightbox_engine.folders.input / "d7a013.png").write_bytes(png(1))
    (lightbox_engine.folders.input / "d7a013.html").write_bytes(b"<script></script>")


@pytest.mark.few_forms
@pytest.mark.usefixtures("viewable")
@pytest.mark.parametrize("name", [name for name in VIEWS if name != "HEAD"])
async def test_every_view_gets_the_recorded_response(name: str, lightbox_client: httpx.AsyncClient) -> None:
    case = VIEWS[name]
    headers = {"Range": "bytes=0-99"} if name == "video_range" else {}
    response = await lightbox_client.get("/view", params=case["query"], headers=headers)
    assert response.status_code == case["status"]
    recorded = {key.lower(): value for key, value in case["headers"].items()}
    own = {key: value for key, value in response.headers.items() if key not in ("date", "server")}
    # An empty answer may or may not say what it is empty of.
    assert own.keys() - {"content-type"} == recorded.keys() - {"content-type"}
    assert recorded.get("content-type") in (None, own.get("content-type"))
    assert len(response.content) == int(own["content-length"])
    if case["status"] >= 400:
        assert len(response.content) == case["len"]


@pytest.mark.usefixtures("viewable")
async def test_a_view_can_be_asked_for_without_its_bytes_and_only_if_it_changed(
    lightbox_client: httpx.AsyncClient,
) -> None:
    query = {"filename": "multi_00001_.png"}
    head = await lightbox_client.head("/view", params=query)
    assert (head.status_code, head.content) == (VIEWS["HEAD"], b"")
    again = await lightbox_client.get("/view", params=query, headers={"If-None-Match": head.headers["etag"]})
    assert again.status_code == 304


def load(image: str, prefix: str = "li") -> dict[str, Any]:
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": image}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": prefix}},
    }


async def test_inputs_are_found_by_every_name_comfyui_takes_inside_its_folders(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    for folder in (
        lightbox_engine.folders.input / "jobs",
        lightbox_engine.folders.temp,
        lightbox_engine.folders.output,
    ):
        folder.mkdir(exist_ok=True)
        (folder / "x.png").write_bytes(png(9))
    make_clip(lightbox_engine.folders.input / "in1.mp4")
    names = {
        "loadimage_subfolder": "jobs/x.png",
        "loadimage_annot_temp": "x.png [temp]",
        "loadimage_annot_output": "x.png [output]",
        "loadimage_annot_input": "jobs/x.png [input]",
        "loadimage_dotdot_existing": "../input/jobs/x.png",
        "loadimage_dir": "jobs",
        "loadimage_is_mp4": "in1.mp4",
    }
    for case, name in names.items():
        recorded = INPUTS[case]
        entry = await render(lightbox_client, load(name))
        assert entry["status"]["status_str"] == recorded["status"], case
        assert differences(recorded["outputs"], entry["outputs"]) == []
        if recorded["err"]:
            printed = entry["status"]["messages"][-1][1]["exception_message"]
            assert printed == recorded["err"][0].replace("/opt/data/input", str(lightbox_engine.folders.input))
    inside = await render(lightbox_client, load(str(lightbox_engine.folders.input / "jobs" / "x.png")))
    assert inside["status"]["status_str"] == "success"
    missing = await lightbox_client.post("/prompt", json={"prompt": load("jobs/none.png")})
    assert missing.status_code == INPUTS["loadimage_subfolder_missing"]["http"]
    assert missing.json()["node_errors"]["1"]["errors"][0]["details"] == "image - Invalid image file: jobs/none.png"


def cached(entry: dict[str, Any]) -> list[str]:
    return list(entry["status"]["messages"][1][1]["nodes"])


async def test_an_overwritten_input_is_noticed_unless_the_graph_says_it_did_not_change(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded = INPUTS["input_overwritten"]
    file = lightbox_engine.folders.input / "ow.png"
    file.write_bytes(png(20))
    first = await render(lightbox_client, load("ow.png", "ow"), client_id="c")
    assert cached(await render(lightbox_client, load("ow.png", "ow"), client_id="c")) == recorded["same"]
    file.write_bytes(png(21))
    assert (
        cached(await render(lightbox_client, load("ow.png", "ow"), client_id="c")) == recorded["after_overwrite_cached"]
    )
    assert "is_changed" not in first["prompt"][2]["1"]
    with Image.open(lightbox_engine.folders.output / "ow_00002_.png") as saved:
        graph = json.loads(saved.info["prompt"])
    assert differences(json.loads(INPUTS["png_prompt_metadata"]), graph) == []
    file.write_bytes(png(22))
    again = await render(lightbox_client, graph, client_id="c")
    assert cached(again) == INPUTS["resubmit_png_metadata_prompt_after_input_changed"]["cached"]


async def test_free_memory_drops_results_and_unload_models_does_not(lightbox_client: httpx.AsyncClient) -> None:
    recorded = INPUTS["free_memory_drops_cache"]
    graph = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 77}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "fr"}},
    }
    await render(lightbox_client, graph)
    assert cached(await render(lightbox_client, graph)) == recorded["b_cached"]
    assert (await lightbox_client.post("/free", json={"free_memory": True})).status_code == 200
    assert cached(await render(lightbox_client, graph)) == recorded["after_free_cached"]
    await lightbox_client.post("/free", json={"unload_models": True})
    assert cached(await render(lightbox_client, graph)) == INPUTS["unload_models_only_cached"]
    assert (await lightbox_client.post("/free")).status_code == 500


async def test_history_can_be_deleted_and_read_in_parts(lightbox_client: httpx.AsyncClient) -> None:
    graph = load("x.png [output]", "hist")
    ids = [(await lightbox_client.post("/prompt", json={"prompt": graph})).json()["prompt_id"] for _ in range(3)]
    for prompt_id in ids:
        await finished(lightbox_client, prompt_id)
    newest = (await lightbox_client.get("/history", params={"max_items": 2})).json()
    assert (list(newest) == ids[1:]) is INPUTS["history_max_items_2_is_newest"]
    everything = list((await lightbox_client.get("/history")).json())
    part = (await lightbox_client.get("/history", params={"max_items": 1, "offset": 1})).json()
    assert (list(part) == everything[1:2]) is INPUTS["history_offset"]
    status, left = INPUTS["history_delete"]
    assert (await lightbox_client.post("/history", json={"delete": [ids[0]]})).status_code == status
    assert (await lightbox_client.get(f"/history/{ids[0]}")).json() == left
    assert (await lightbox_client.get("/history", params={"max_items": "x"})).status_code == 500
