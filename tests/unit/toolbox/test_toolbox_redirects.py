"""Where storage may redirect a client that came with a signed URL."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from aiohttp import web

from callsheet.toolbox.http.redirects import RedirectNotAllowed, refuse_unsafe_redirect
from callsheet.worker.agent.transfers import TransferFailed, Transfers


@pytest.mark.parametrize(
    ("here", "there", "allowed"),
    [
        ("https://bucket.example/a", "https://bucket.eu.example/a", True),
        ("https://bucket.example/a", "/b", True),
        ("http://127.0.0.1:9000/a", "http://127.0.0.1:9001/a", True),
        ("http://minio/a", "https://minio/a", True),
        ("https://bucket.example/a", "http://bucket.example/a", False),
        ("https://bucket.example/a", "http://169.254.169.254/latest/meta-data/", False),
        ("http://minio/a", "http://localhost:8188/queue", False),
        ("http://minio/a", "file:///etc/passwd", False),
    ],
)
async def test_a_redirect_must_stay_on_its_host_or_use_https(here: str, there: str, allowed: bool) -> None:
    response = httpx.Response(307, headers={"location": there}, request=httpx.Request("GET", here))
    if allowed:
        await refuse_unsafe_redirect(response)
    else:
        with pytest.raises(RedirectNotAllowed):
            await refuse_unsafe_redirect(response)


async def test_a_worker_does_not_follow_an_unsafe_redirect_of_storage(tmp_path: Path) -> None:
    requested: list[str] = []

    async def response(request: web.Request) -> web.Response:
        requested.append(f"{request.host.partition(':')[0]}{request.path}")
        if request.path == "/round":
            raise web.HTTPFound("/round")
        raise web.HTTPTemporaryRedirect(f"http://localhost:{request.url.port}/secret")

    app = web.Application()
    app.router.add_route("*", "/{name}", response)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    (tmp_path / "file").write_bytes(b"x")
    transfers = Transfers()
    try:
        with pytest.raises(TransferFailed) as failed:
            await transfers.download(f"{address}/input", tmp_path / "got")
        assert not failed.value.is_passing
        with pytest.raises(TransferFailed):
            await transfers.upload(f"{address}/output", {}, tmp_path / "file")
        assert requested == ["127.0.0.1/input", "127.0.0.1/output"]
        # A redirect loop is an outcome that can be reported, not a fault of the worker.
        with pytest.raises(TransferFailed):
            await transfers.download(f"{address}/round", tmp_path / "got")
    finally:
        await transfers.close()
        await runner.cleanup()
