"""EC2's metadata service on a free port: the machine reads its identity and its lifecycle state there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class MetadataService:
    """Version 2 of EC2's service: it requires a token, and returns 404 if nothing is announced."""

    def __init__(self) -> None:
        self.metadata = {"instance-id": "i-0abc", "instance-type": "g5.xlarge", "instance-life-cycle": "spot"}
        self.metadata["autoscaling/target-lifecycle-state"] = "InService"
        self.tokens = {"token-1"}
        self.url = ""
        self.requests = 0

    async def token(self, request: web.Request) -> web.Response:
        if not 0 < int(request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "0")) <= 21_600:
            return web.Response(status=400)
        self.tokens = {f"token-{len(self.tokens) + 1}"}
        return web.Response(text=next(iter(self.tokens)))

    async def read(self, request: web.Request) -> web.Response:
        if request.headers.get("X-aws-ec2-metadata-token") not in self.tokens:
            return web.Response(status=401)
        self.requests += 1
        found = self.metadata.get(request.match_info["name"])
        return web.Response(status=404) if found is None else web.Response(text=found)


@asynccontextmanager
async def metadata_service() -> AsyncIterator[MetadataService]:
    service = MetadataService()
    app = web.Application()
    app.router.add_put("/latest/api/token", service.token)
    app.router.add_get("/latest/meta-data/{name:.*}", service.read)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()
