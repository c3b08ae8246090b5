"""Large uploads with the clients: in parts, several at a time, continued where they were interrupted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.client import AsyncCallsheet, Callsheet
from callsheet.settings import S3Settings
from tests.api.conftest import Started
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.programs.node import CLIENT, run_node

PART = 5 << 20
LARGE = CLIP.ljust(PART, b"\x01") + CLIP.ljust(PART, b"\x02") + b"the last part"
IN_PARTS = {"parts_above_bytes": 1000, "part_bytes": PART}


class Left(Exception):
    """The program ends in the middle of the upload."""


async def call(method: Any, *given: Any) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(*given)
    return await asyncio.to_thread(method, *given)


async def test_an_upload_continues_with_the_parts_that_are_missing(started: Started, tmp_path: Path) -> None:
    async with started(storage=IN_PARTS) as (plane, client), MediaApi.opened(plane) as media_api:
        clip = tmp_path / "clip.mp4"
        for kind, ending in ((Callsheet, b"!"), (AsyncCallsheet, b"?")):
            content = LARGE + ending
            clip.write_bytes(content)
            callsheet = kind(plane.settings.public_url, media_api.person.key)
            seen: list[int] = []

            def leaves(done: int, _: int, seen: list[int] = seen) -> None:
                seen.append(done)
                if len(seen) == 2:
                    raise Left

            with pytest.raises(Left):
                await call(callsheet.upload, clip, None, leaves)
            assert seen[0] == 0
            again: list[tuple[int, int]] = []
            file = await call(callsheet.upload, clip, None, lambda *counted, again=again: again.append(counted))
            assert again[0][0] >= seen[1] > 0, "what had arrived is not sent again"
            assert again[-1] == (len(content), len(content))
            assert (file.status, file.sha256) == ("ready", hashlib.sha256(content).hexdigest())
            assert (await client.get(file.url)).content == content
            from_memory = await call(callsheet.upload, content, "clip.mp4")
            assert from_memory.sha256 == file.sha256
            await call(callsheet.close)


async def test_a_program_whose_upload_was_confirmed_by_another_one_gets_the_same_file(
    started: Started, tmp_path: Path
) -> None:
    async with started(storage=IN_PARTS) as (plane, _), MediaApi.opened(plane) as media_api:
        clip = tmp_path / "clip.mp4"
        clip.write_bytes(LARGE)
        confirmed: list[UUID] = []

        def confirms(done: int, _: int) -> None:
            if done == 0:
                with Callsheet(plane.settings.public_url, media_api.person.key) as other:
                    confirmed.append(other.upload(clip).id)

        with Callsheet(plane.settings.public_url, media_api.person.key) as callsheet:
            file = await asyncio.to_thread(callsheet.upload, clip, None, confirms)
        assert [file.id] == confirmed


@pytest.mark.parametrize("backend", ["local", pytest.param("s3", marks=pytest.mark.thorough)])
async def test_the_tests_of_large_uploads_with_the_typescript_client_pass(
    started: Started, request: pytest.FixtureRequest, backend: str
) -> None:
    """They are in clients/typescript/tests."""
    s3 = {} if backend == "local" else {"s3": S3Settings.model_validate(request.getfixturevalue("s3_server").settings)}
    async with (
        started(storage={**IN_PARTS, "backend": backend, **s3}) as (plane, _),
        MediaApi.opened(plane) as media_api,
    ):
        given = {"url": plane.settings.public_url, "key": media_api.person.key}
        given["video"] = base64.b64encode(CLIP).decode()
        tests = CLIENT / "tests" / "large.test.ts"
        await run_node("--test", "--test-reporter", "spec", tests, CALLSHEET_TESTS=json.dumps(given))
