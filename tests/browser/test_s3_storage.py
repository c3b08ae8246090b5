"""The whole way with files in S3: pages upload to the bucket and play from it, as the documented CORS rule allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from callsheet.operate.installation.bucket_cors import cors_rule
from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.page_errors import Watch
from tests.browser.stack import running_stack
from tests.browser.texts import app_text
from tests.browser.user_content import content_of, ended
from tests.support.media.seaweedfs import S3Server
from tests.support.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("_built")]
BUCKET = "pages"


async def test_a_video_goes_to_the_bucket_and_comes_back_from_it(
    chromium: Browser, s3_server: S3Server, tmp_path: Path
) -> None:
    s3_server.create_bucket(BUCKET)
    settings = {f"CALLSHEET_STORAGE__S3__{name.upper()}": value for name, value in s3_server.settings.items()}
    settings |= {"CALLSHEET_STORAGE__BACKEND": "s3", "CALLSHEET_STORAGE__S3__BUCKET": BUCKET}
    async with running_stack(tmp_path, settings) as stack:
        s3_server.allow_pages(BUCKET, json.loads(cors_rule([stack.url])))
        account = await stack.new_account()
        watch = Watch(stack.url, s3_server.url)
        context = await chromium.new_context(base_url=stack.url, viewport=DESKTOP, locale="en-US")
        context.set_default_timeout(PATIENCE_MS)
        await watch.follow(context)
        page = await context.new_page()
        await stack.sign_in(page, account)
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url) if request.method == "PUT" else None)

        await page.goto("/effects/noir")
        await page.locator("input[type=file]:not([capture])").first.set_input_files(stack.home / "demo" / "sample.mp4")
        await expect(page.get_by_label("Uploaded")).to_be_visible()
        assert [url.startswith(f"{s3_server.url}/{BUCKET}/") for url in sent] == [True]
        await page.get_by_role("button", name="Generate").click()
        await expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
        job = await ended(stack, account, page.url.rpartition("/")[2])
        assert job["status"] == "completed"

        # Both videos are read from the bucket, with ranges, by elements that the policy of the page allows.
        await expect(page.get_by_role("slider", name=app_text("media.media.divider"))).to_be_visible()
        videos = page.locator("video")
        await expect(videos).to_have_count(2)

        async def can_play() -> bool:
            state = await videos.evaluate_all("found => found.map((one) => [one.currentSrc, one.readyState])")
            return all(url.startswith(s3_server.url) and ready >= 2 for url, ready in state)

        await until(can_play)
        async with page.expect_download() as downloading, stack.client() as client:
            await page.get_by_role("link", name="Download").click()
            made = await client.get(job["outputs"][0]["url"])
        assert made.url.host == "127.0.0.1"
        assert content_of(await (await downloading.value).path()) == made.content
        # Lists show what the control plane made of it.
        await page.goto("/jobs")
        await expect(
            page.get_by_role("list", name="Jobs").get_by_role("img").or_(page.locator("img")).first
        ).to_be_visible()
        await context.close()
        watch.check()
