"""A large upload loses its connection, then its page, and continues with the parts that are missing."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.stack import running_stack
from tests.browser.texts import app_text
from tests.support.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("_built")]
PART = 5 << 20
SETTINGS = {"CALLSHEET_STORAGE__PARTS_ABOVE_BYTES": "1000", "CALLSHEET_STORAGE__PART_BYTES": str(PART)}


def long_clip(sample: Path, target: Path) -> Path:
    """A real video, and bytes behind it that players skip."""
    content = sample.read_bytes()
    size = 2 * PART + 1000 - len(content)
    target.write_bytes(content + struct.pack(">I4s", size, b"free") + bytes(size - 8))
    return target


async def test_an_upload_continues_after_a_lost_connection_and_after_a_reload(
    chromium: Browser, tmp_path: Path
) -> None:
    async with running_stack(tmp_path, SETTINGS) as stack:
        account = await stack.new_account()
        context = await chromium.new_context(base_url=stack.url, viewport=DESKTOP, locale="en-US")
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        await stack.sign_in(page, account)
        clip = long_clip(stack.home / "demo" / "sample.mp4", tmp_path / "long.mp4")
        stored: list[tuple[str, str]] = []

        async def storing(route: Route) -> None:
            number = re.search(r"/uploads/([0-9a-f-]+)/parts/.*/(0000\d)\?", route.request.url)
            assert number is not None
            file_id, part = number.groups()
            if part == "00003" and not is_reloaded:
                # The last part waits until the page is gone.
                return
            if part == "00002" and not was_offline:
                was_offline.append(True)
                await context.set_offline(True)
                await route.abort("internetdisconnected")
                return
            await route.continue_()
            stored.append((file_id, part))

        was_offline: list[bool] = []
        is_reloaded: list[bool] = []
        await page.route(
            "**/storage/**/parts/**",
            lambda route: storing(route) if route.request.method == "PUT" else route.continue_(),
        )
        await page.goto("/effects/noir")
        field = page.locator("input[type=file]:not([capture])").first
        await field.set_input_files(clip)
        await expect(page.get_by_text(app_text("upload.upload.paused"))).to_be_visible()
        await context.set_offline(False)

        async def is_stored() -> bool:
            # The first part was on its way when the connection was lost, so it may be sent twice.
            if not stored:
                return False
            async with stack.client(account.headers) as client:
                state = (await client.get(f"/api/videos/uploads/{stored[0][0]}/parts")).json()
            return [part["number"] for part in state["arrived"]] == [1, 2]

        await until(is_stored)
        await expect(page.get_by_text(app_text("upload.upload.paused"))).to_be_hidden()

        is_reloaded.append(True)
        await page.reload()
        stored.clear()
        await field.set_input_files(clip)
        await expect(page.get_by_label("Uploaded")).to_be_visible()
        assert [part for _, part in stored] == ["00003"]
        await page.get_by_role("button", name="Generate").click()
        await expect(page).to_have_url(re.compile(r"/jobs/"))
        async with stack.client(account.headers) as client:
            [job] = (await client.get("/api/ai-jobs")).json()["items"]
            [source] = job["inputs"]
            file = (await client.get(f"/api/files/{source['file_id']}")).json()
            assert (await client.get(file["url"])).content == clip.read_bytes()
        await context.close()
