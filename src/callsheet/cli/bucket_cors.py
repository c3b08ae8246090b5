"""Whether a bucket lets the pages of `server.cors_origins` upload and read: asked as a browser asks."""

from __future__ import annotations

from collections.abc import Iterable

import httpx

from callsheet.media.storage import Storage

HEADERS = "content-type,x-amz-checksum-sha256"
SECONDS = 5.0


async def refused_origins(storage: Storage, origins: Iterable[str]) -> list[str]:
    """Those origins whose preflight the storage service does not answer with a permission."""
    urls = {
        "PUT": storage.presign_put("doctor/cors", content_type="video/mp4", size=1).url,
        "GET": storage.presign_get("doctor/cors").url,
    }
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        return [origin for origin in origins if not await _is_allowed(client, origin, urls)]


async def _is_allowed(client: httpx.AsyncClient, origin: str, urls: dict[str, str]) -> bool:
    for method, url in urls.items():
        asked = {"origin": origin, "access-control-request-method": method, "access-control-request-headers": HEADERS}
        try:
            answer = await client.options(url, headers=asked)
        except httpx.HTTPError:
            return False
        if not answer.is_success or answer.headers.get("access-control-allow-origin") not in (origin, "*"):
            return False
    return True
