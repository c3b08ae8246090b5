"""Pages from elsewhere cannot drive the engine through a browser, and no graph reads files outside its folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from callsheet_lightbox.api.responses import accepts_host
from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here


def saved_image(**made: Any) -> dict[str, Any]:
    return {"1": made, "2": node("SaveImage", images=["1", 0], filename_prefix="out")}


EMPTY = saved_image(**node("EmptyImage", width=8, height=8, batch_size=1, color=1))


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "file://"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:8188"},
        {"Host": "evil.example:8188", "Origin": "http://evil.example:8188"},
        {"Host": "localhost.evil.example"},
        {"Host": "[::1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("as_cloud", [False, True], ids=["comfyui", "cloud"])
async def test_a_page_of_another_origin_is_refused_by_lightbox(
    tmp_path: Path, headers: dict[str, str], as_cloud: bool
) -> None:
    async with (
        lightbox_here(tmp_path / "engine", as_cloud=as_cloud) as running,
        httpx.AsyncClient(base_url=running.url, trust_env=False, headers={"X-API-Key": "lightbox"}) as client,
    ):
        for path in ("/api/queue", "/api/object_info"):
            assert (await client.get(path, headers=headers)).status_code == 403
        assert (await client.post("/api/prompt", json={"prompt": EMPTY}, headers=headers)).status_code == 403


async def test_own_pages_and_programs_are_accepted(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    port = urlsplit(lightbox_engine.url).port
    for headers in (
        {},
        {"Origin": lightbox_engine.url, "Sec-Fetch-Site": "same-origin"},
        {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"},
        {"Host": f"[::1]:{port}", "Origin": f"http://[::1]:{port}"},
        # Typed into the address bar.
        {"Sec-Fetch-Site": "none"},
    ):
        assert (await lightbox_client.get("/queue", headers=headers)).status_code == 200
        assert (await lightbox_client.post("/prompt", json={"prompt": EMPTY}, headers=headers)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("host", "is_local", "is_accepted"),
    [
        ("lightbox:8188", False, True),
        ("192.168.1.5:8188", False, True),
        ("render.lan:8188", False, True),
        ("localhost:8188", False, True),
        ("evil.example:8188", False, False),
        ("lightbox:8188", True, False),
        ("192.168.1.5:8188", True, False),
        ("render.lan:8188", True, True),
        ("127.0.0.2:8188", True, True),
    ],
)
def test_a_server_beyond_loopback_refuses_host_names_that_may_be_rebound(
    host: str, is_local: bool, is_accepted: bool
) -> None:
    assert accepts_host(host, {"0.0.0.0", "render.lan"}, is_local=is_local) is is_accepted


@pytest.mark.parametrize("loader", ["LoadImage", "LoadImageMask", "LoadVideo"])
async def test_no_graph_reads_a_file_outside_of_the_folders(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient, tmp_path: Path, loader: str
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"not for graphs")
    climbing = f"{'../' * len(lightbox_engine.folders.input.parts)}{str(secret)[1:]}"
    beside = f"{lightbox_engine.folders.input}-of-another/x.png"
    for name in (str(secret), climbing, f"{climbing} [output]", "/etc/hostname", "..", "../..", beside):
        field = "file" if loader == "LoadVideo" else "image"
        channel = {"channel": "red"} if loader == "LoadImageMask" else {}
        graph = saved_image(**node(loader, **{field: name}, **channel))
        response = await lightbox_client.post("/prompt", json={"prompt": graph})
        assert response.status_code == 400
        details = [error["details"] for error in response.json()["node_errors"]["1"]["errors"]]
        assert any(f"file: {name}" in each for each in details), details
