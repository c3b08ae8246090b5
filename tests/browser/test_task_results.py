"""A user asks an actor for speech or for a video, and gets something to play and to keep."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import DESKTOP, PATIENCE_MS
from tests.browser.page_errors import Watch
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack, running_stack
from tests.browser.user_content import content_of, job_of
from tests.support.providers import replicate_files
from tests.support.providers.replicate_server import SECRET, TOKEN, ReplicateServer, Scenario, replicate_server
from tests.support.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("_built")]
MODELS = {"tts": {"model": "studio/voice"}, "ugc_video": {"model": "studio/camera"}}


@dataclass(frozen=True)
class ReplicateStack:
    """A stack whose actors for speech and videos send their tasks to a Replicate that is here."""

    stack: Stack
    replicate: ReplicateServer
    account: Account


@pytest.fixture(scope="module")
async def replicate_stack(_built: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReplicateStack]:
    """A stack whose actors send their tasks to the tests' Replicate."""
    async with replicate_server() as replicate:
        own = {"url": replicate.url, "token": TOKEN, "webhook_secret": SECRET, "models": json.dumps(MODELS)}
        settings = {f"CALLSHEET_PROVIDERS__REPLICATE__{name.upper()}": value for name, value in own.items()}
        settings["CALLSHEET_OUTGOING__ALLOW_NETWORKS"] = "127.0.0.0/8"
        async with running_stack(tmp_path_factory.mktemp("studio"), settings) as stack:
            yield ReplicateStack(stack, replicate, await stack.new_account())


@pytest.fixture
async def tab(replicate_stack: ReplicateStack, chromium: Browser) -> AsyncIterator[Page]:
    watch = Watch(replicate_stack.stack.url)
    context = await chromium.new_context(base_url=replicate_stack.stack.url, viewport=DESKTOP, locale="en-US")
    context.set_default_timeout(PATIENCE_MS)
    await watch.follow(context)
    page = await context.new_page()
    await replicate_stack.stack.sign_in(page, replicate_stack.account)
    yield page
    await context.close()
    watch.check()


async def play_to_the_end(player: Locator) -> float:
    """Plays what the browser has loaded of it; returns its duration in seconds."""

    async def is_loaded() -> bool:
        return bool(await player.evaluate("(one) => one.readyState >= one.HAVE_CURRENT_DATA"))

    # The page loads the beginning only; a user who plays it loads the rest.
    await player.evaluate("(one) => { one.loop = false; one.muted = true; return one.play(); }")
    await until(is_loaded)

    async def has_ended() -> bool:
        return bool(await player.evaluate("(one) => one.ended && one.error === null"))

    await until(has_ended)
    return float(await player.evaluate("(one) => one.duration"))


async def saved(page: Page, link: Locator) -> bytes:
    async with page.expect_download() as downloading:
        await link.click()
    return content_of(await (await downloading.value).path())


@pytest.mark.parametrize(
    ("actor", "field", "words", "file", "player", "seconds"),
    [
        ("tts", "Text", "It glows in the dark.", "sound.wav", "audio", 0.1),
        ("ugc_video", "Script", "Look at this lamp!", "film.mp4", "video", 0.5),
    ],
    ids=["speech", "video"],
)
async def test_a_result_is_played_in_the_page_and_saved(
    replicate_stack: ReplicateStack,
    tab: Page,
    screenshots: Screenshots,
    actor: str,
    field: str,
    words: str,
    file: str,
    player: str,
    seconds: float,
) -> None:
    page = tab
    replicate_stack.replicate.scenario = Scenario(output=replicate_stack.replicate.file(file))
    await page.goto(f"/tasks/new?actor={actor}")
    await page.get_by_role("textbox", name=re.compile(f"^{field}")).fill(words)
    await page.get_by_role("button", name="Submit").click()
    response = page.get_by_role("region", name="Answer")
    await expect(response.get_by_text("Completed")).to_be_visible()
    shown = response.locator(player)
    await expect(shown).to_be_visible()
    assert await play_to_the_end(shown) == pytest.approx(seconds, rel=0.3)
    made = replicate_files.content_of(file)
    assert await saved(page, response.get_by_role("link", name="Download")) == made
    await assert_accessible(page)
    await screenshots.take(page, f"task-{actor}")

    # The page of the job has the same.
    await response.get_by_role("link", name="Open the job").click()
    await expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    result = page.get_by_role("region", name="Result").locator(player)
    assert await play_to_the_end(result) == pytest.approx(seconds, rel=0.3)
    assert await saved(page, page.get_by_role("link", name="Download")) == made
    await assert_accessible(page)
    await screenshots.take(page, f"job-{actor}")


async def test_a_player_continues_while_the_page_reloads_the_job(replicate_stack: ReplicateStack, tab: Page) -> None:
    page = tab
    await page.clock.install()
    replicate_stack.replicate.scenario = Scenario(output=replicate_stack.replicate.file("sound.wav"))
    await page.goto("/tasks/new?actor=tts")
    await page.get_by_role("textbox", name="Text").fill("It glows in the dark.")
    await page.get_by_role("button", name="Submit").click()
    shown = page.get_by_role("region", name="Answer").locator("audio")
    await expect(shown).to_be_visible()
    before = await shown.evaluate("(one) => { window.player = one; return one.src; }")
    job_id = parse_qs(urlsplit(page.url).query)["job"][0]

    async def has_other_urls() -> bool:
        job = await job_of(replicate_stack.stack, replicate_stack.account, job_id)
        return not before.endswith(job["outputs"][0]["url"])

    # Responses have new signed URLs, but two of the same second have the same ones.
    await until(has_other_urls)
    # As after a minute in another tab.
    await page.clock.fast_forward(60_000)
    async with page.expect_response(re.compile(r"/api/ai-jobs/[0-9a-f-]{36}$")) as again:
        await page.evaluate("() => window.dispatchEvent(new Event('visibilitychange'))")
    assert not before.endswith((await (await again.value).json())["outputs"][0]["url"])
    assert await shown.evaluate("(one) => [one === window.player, one.src]") == [True, before]
