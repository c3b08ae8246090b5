"""Effects on sound, and effects whose result is a text: imported, bought and looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.catalog import create_workflow, drop, unique
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.test_task_results import play_to_the_end
from tests.browser.texts import app_text
from tests.browser.user_content import job_of, submit
from tests.support.comfyui.graphs import node
from tests.support.media.sounds import sound
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
SECONDS = 2.0
VOICE: dict[str, Any] = {
    "1": node("LoadAudio", audio="voice.wav", audioUI=""),
    "2": node("SaveAudioMP3", audio=["1", 0], filename_prefix="audio/voice", quality="V0"),
}
STORY: dict[str, Any] = {
    "1": node("StringConcatenate", string_a="Once upon a time,", string_b="{{hero}} sang.", delimiter="\n"),
    "2": node("PreviewAny", source=["1", 0]),
}


async def offered(stack: Stack, slug: str, name: str) -> None:
    """A published effect of the workflow, which the fleet of the demo runs."""
    effect = {"slug": slug, "name": name, "workflow": slug, "credits_cost": 1, "is_published": True}
    async with stack.client(stack.operator) as client:
        created = await client.post("/api/admin/effects", json=effect)
        assert created.status_code == 201, created.text
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        changed = await client.patch(f"/api/admin/fleets/{fleet['id']}/workflows", json={"add": [slug]})
        assert changed.is_success, changed.text


async def test_an_effect_on_sound_is_imported_bought_and_heard(
    page: Page, stack: Stack, screenshots: Screenshots, tmp_path: Path
) -> None:
    account = await stack.new_account(role="operator")
    await stack.sign_in(page, account)
    await page.goto("/operate/workflows")
    slug = unique("voice")
    # Editors on Windows start a file with a byte order mark.
    await drop(page, f"{slug}.json", "\ufeff" + json.dumps(VOICE))
    dialog = page.get_by_role("dialog", name=f"Import {slug}.json")
    await expect(dialog).to_contain_text("The file of SaveAudioMP3 (node 2), as .mp3")
    await dialog.get_by_role("textbox", name="Name", exact=False).first.fill("Voice")
    await create_workflow(page, dialog, "Voice")
    await expect(page.get_by_role("region", name=app_text("workflows.workflows.form"))).to_contain_text(
        app_text("upload.upload.formats.audio")
    )
    await screenshots.take(page, "operate-workflow-of-sound")
    await offered(stack, slug, "Voice")

    file = tmp_path / "My voice.wav"
    file.write_bytes(sound("wav", SECONDS))
    await page.goto(f"/effects/{slug}")
    await expect(page.get_by_text(app_text("upload.upload.dropSeveral.audio"))).to_be_visible()
    await screenshots.take(page, "effect-on-sound-empty")
    wrong = tmp_path / "cover.png"
    wrong.write_bytes(b"\x89PNG\r\n\x1a\n")
    await page.locator("input[type=file]").first.set_input_files(wrong)
    await expect(page.get_by_role("alert")).to_contain_text("“cover.png” is not an audio file that can be used here.")
    await page.locator("input[type=file]").first.set_input_files(file)
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    assert await play_to_the_end(page.locator("audio")) == pytest.approx(SECONDS, abs=0.1)
    await assert_accessible(page)
    await screenshots.take(page, "effect-on-sound")

    await page.get_by_role("button", name="Generate").click()
    await page.wait_for_url("**/jobs/*")
    result = page.get_by_role("region", name="Result")
    await expect(result.locator("audio")).to_have_count(2)
    assert await play_to_the_end(result.locator("audio").first) == pytest.approx(SECONDS, abs=0.2)
    # The waveforms of both are made behind the upload and the result.
    job_id = page.url.rpartition("/")[2]

    async def are_drawn() -> bool:
        job = await job_of(stack, account, job_id)
        return all(each["preview_status"] == "ready" for each in (*job["inputs"], *job["outputs"]))

    await until(are_drawn)
    await page.reload()
    await expect(result.locator("audio")).to_have_count(2)
    await expect(result.locator("img")).to_have_count(2)
    await assert_accessible(page)
    await screenshots.take(page, "job-of-sound")
    await page.goto("/jobs")
    await expect(page.get_by_text("Voice").first).to_be_visible()
    await screenshots.take(page, "jobs-of-sound")


async def test_a_text_that_a_node_shows_is_read_on_the_page_of_its_job(
    signed_in: Page, stack: Stack, account: Account, screenshots: Screenshots
) -> None:
    page = signed_in
    slug = unique("story")
    async with stack.client(stack.operator) as client:
        response = await client.post("/api/admin/workflows/proposals", json={"graph": STORY})
        assert response.is_success, response.text
        proposal = response.json()
        [output] = proposal["outputs"]
        assert (output["class_type"], output["mime_type"]) == ("PreviewAny", "text/plain")
        body = {
            "slug": slug,
            "name": "Story",
            "graph": proposal["graph"],
            "properties": proposal["properties"],
            "output_node_id": "2",
            "output_extension": "txt",
            "output_mime_type": "text/plain",
        }
        created = await client.post("/api/admin/workflows", json=body)
        assert created.status_code == 201, created.text
    await offered(stack, slug, "Story")
    hero = "<img src=x onerror=alert(1)> Übung 🎬"
    job_id = await submit(stack, account, slug, hero=hero)
    await page.goto(f"/jobs/{job_id}")
    result = page.get_by_role("region", name="Result")
    # Markup stays text.
    await expect(result.get_by_text(f"Once upon a time,\n{hero} sang.")).to_be_visible()
    await expect(result.get_by_role("button", name="Copy the text")).to_be_visible()
    await assert_accessible(page)
    await screenshots.take(page, "job-of-text")
