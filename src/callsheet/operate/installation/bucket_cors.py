"""Checks whether a bucket lets pages upload and read files, with the same preflight request that a browser sends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import httpx

from callsheet.media.storage import Storage
from callsheet.settings import Settings

HEADERS = "content-type,x-amz-checksum-sha256"
SECONDS = 5.0


def browser_origins(settings: Settings) -> Sequence[str]:
    """Origins of pages that use the storage: the web application's own origins, and those of other sites."""
    server = settings.server
    return tuple(dict.fromkeys((settings.public_url, *server.allowed_origins, *server.cors_origins)))


def cors_rule(origins: Sequence[str]) -> str:
    """The rule in the format of S3; docs/how-to/use-s3-storage.md explains how to set it."""
    rule = {
        "AllowedOrigins": list(origins),
        "AllowedMethods": ["GET", "HEAD", "PUT"],
        "AllowedHeaders": ["content-type", "x-amz-checksum-sha256", "range", "if-none-match"],
        "ExposeHeaders": ["ETag", "Content-Range", "Content-Length", "Accept-Ranges"],
        "MaxAgeSeconds": 600,
    }
    return json.dumps([rule])


async def refused_origins(storage: Storage, origins: Iterable[str]) -> list[str]:
    """The origins whose preflight request the storage service refuses."""
    urls = {
        "PUT": storage.presign_put("doctor/cors", content_type="video/mp4", size=1).url,
        "GET": storage.presign_get("doctor/cors").url,
    }
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
        return [origin for origin in origins if not await _is_allowed(client, origin, urls)]


async def _is_allowed(client: httpx.AsyncClient, origin: str, urls: dict[str, str]) -> bool:
    for method, url in urls.items():
        headers = {"origin": origin, "access-control-request-method": method, "access-control-request-headers": HEADERS}
        try:
            response = await client.options(url, headers=headers)
        except httpx.HTTPError:
            return False
        if not response.is_success or response.headers.get("access-control-allow-origin") not in (origin, "*"):
            return False
    return True
