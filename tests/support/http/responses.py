"""Checks of refusals, and requests that no HTTP client would send."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import httpx

from callsheet.plumbing.http.edge import REQUEST_ID


def assert_refused(response: httpx.Response, status: int, code: str, *fields: str) -> dict[str, Any]:
    """Checks all parts of a problem+json response. `errors` must name exactly these `fields`, in this order."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text
    )
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == f"urn:callsheet:error:{code}"
    assert problem["title"]
    assert problem["request_id"] == response.headers["x-request-id"]
    assert REQUEST_ID.match(problem["request_id"].encode())
    assert "Traceback" not in response.text
    assert [error["field"] for error in problem.get("errors", ())] == list(fields), problem
    assert all(error["reason"] for error in problem.get("errors", ()))
    return problem


def assert_limit(response: httpx.Response, name: str, quota: int, window_seconds: int) -> None:
    """Checks the headers of a response 429 of a limit of requests per time."""
    assert response.headers["ratelimit-policy"] == f'"{name}";q={quota};w={window_seconds}'
    seconds = int(response.headers["retry-after"])
    assert response.headers["ratelimit"] == f'"{name}";r=0;t={seconds}'
    assert 1 <= seconds <= window_seconds


async def exchange(url: str, request: bytes, seconds: float = 30) -> httpx.Response:
    """Sends exactly these bytes on a new connection, and reads one response."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), seconds)
        length = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
        body = await asyncio.wait_for(reader.readexactly(int(length[1]) if length else 0), seconds)
    finally:
        writer.close()
    status, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)
