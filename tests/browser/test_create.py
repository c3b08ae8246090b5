"""A user looks for an effect, gives it a file, sets the options and submits a job."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import PATIENCE_MS
from tests.browser.screenshots import Screenshots
from tests.browser.stack import Account, Stack
from tests.browser.texts import app_text
from tests.browser.user_content import sell
from tests.support.programs.node import install_client, run_node

# As a connection that is lost in the middle; a real one would be written to the console.
BREAK_FIRST_UPLOAD = """
const send = XMLHttpRequest.prototype.send;
let isBroken = false;
XMLHttpRequest.prototype.send = function (body) {
  if (isBroken) return send.call(this, body);
  isBroken = true;
  setTimeout(() => this.dispatchEvent(new ProgressEvent("error")), 20);
};
"""


def clip_of(stack: Stack) -> Path:
    return stack.home / "demo" / "sample.mp4"


def chooser(page: Page) -> Locator:
    """The field for the file that the effect works on."""
    return page.locator("input[type=file]:not([capture])").first


async def jobs_of(stack: Stack, account: Account) -> list[dict[str, object]]:
    async with stack.client(account.headers) as client:
        items: list[dict[str, object]] = (await client.get("/api/ai-jobs")).json()["items"]
        return items


async def test_a_user_goes_from_the_gallery_to_a_job_and_submits_it_once(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    await page.goto("/effects")
    await page.get_by_role("searchbox", name="Search effects").fill("words video")
    await expect(page.locator("[data-card]")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"\?q="))
    await page.get_by_role("link", name="Caption").click()

    await expect(page.get_by_role("heading", name="Caption", level=1)).to_be_visible()
    generate = page.get_by_role("button", name="Generate")
    await expect(page.locator("dl")).to_contain_text("You have1,000 tokens")
    await generate.click()
    await expect(page.get_by_text(app_text("effect.effectPage.needsFile.video"))).to_be_visible()
    await expect(page.get_by_text("Fill this in.")).to_be_visible()

    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    prompt = "<img src=x onerror=alert(1)> & “hello”"
    await page.get_by_role("textbox", name="Caption").fill(prompt)
    await page.get_by_role("combobox", name="Position").click()
    await page.get_by_role("option", name="Top right").click()
    # A session that ends, or a page that is loaded again, keeps the form.
    await page.reload()
    await expect(page.get_by_role("textbox", name="Caption")).to_have_value(prompt)
    await expect(page.get_by_text("sample.mp4")).to_be_visible()

    await generate.dblclick()
    await expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    [job] = await jobs_of(stack, account)
    assert page.url.endswith(str(job["id"]))

    # The same again, with something changed.
    await page.goto(f"/effects/caption?from={job['id']}")
    await expect(page.get_by_role("textbox", name="Caption")).to_have_value(prompt)
    await expect(page.get_by_text("sample.mp4")).to_be_visible()
    await expect(page.get_by_role("combobox", name="Position")).to_have_text("Top right")


async def test_the_result_of_a_task_is_shown_beside_its_form(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/tasks/new?actor=copy")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_text("Fill this in.")).to_be_visible()
    await page.get_by_role("textbox", name="Title").fill("Lamp <b>one</b>")
    await page.get_by_role("textbox", name="Description").fill("Warm light.")
    await page.get_by_role("button", name="Submit").click()
    response = page.get_by_role("region", name="Answer")
    await expect(response).to_contain_text("Lamp <b>one</b>")
    await expect(response).to_contain_text("Warm light.")


@pytest.mark.thorough
async def test_a_task_that_makes_an_image_shows_it_beside_its_form(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/tasks/new?actor=media")
    # What needs nothing but a prompt comes first.
    await expect(page.get_by_role("combobox", name="What to make")).to_have_text("Text to image · Lightbox")
    await page.get_by_role("textbox", name="Prompt").fill("the sea")
    await page.get_by_role("button", name="Submit").click()
    response = page.get_by_role("region", name="Answer")
    await expect(response.get_by_text("Completed")).to_be_visible()
    await expect(response.get_by_role("img").first).to_be_visible()
    await expect(page).to_have_url(re.compile(r"job=[0-9a-f-]{36}"))


@pytest.mark.thorough
async def test_a_wrong_file_is_refused_before_its_upload(signed_in: Page, stack: Stack, tmp_path: Path) -> None:
    page = signed_in
    small = await sell(stack, "Small images", takes_bytes=20_000)
    uploads = []
    page.on("request", lambda request: uploads.append(request.url) if "/uploads" in request.url else None)
    text = tmp_path / "notes & <b>.txt"
    text.write_text("no video")
    await page.goto("/effects/negative")
    await expect(page.get_by_text("MP4, MOV, WebM and others, up to 5.4 GB")).to_be_visible()
    uploads.clear()
    await chooser(page).set_input_files(text)
    await expect(page.get_by_role("alert")).to_contain_text("“notes & <b>.txt” is not a video that can be used here.")
    await expect(page.get_by_role("alert")).to_contain_text("Accepted: MP4, MOV, WebM and others, up to 5.4 GB.")
    # A text file under another name is refused too; a problem that only the server can find is shown in the same words.
    for content, name in ((b"no video" * 20, "text.mp4"), (b"\x89PNG\r\n\x1a\n" + bytes(100), "picture.mp4")):
        disguised = tmp_path / name
        disguised.write_bytes(content)
        await chooser(page).set_input_files(disguised)
        await expect(page.get_by_role("alert")).to_contain_text(f"“{name}” is not a video that can be used here.")
        await expect(page.get_by_role("button", name="Try again")).to_have_count(0)
        assert any("/uploads" in url for url in uploads) == (name == "picture.mp4")
    uploads.clear()
    empty = tmp_path / "empty.mp4"
    empty.touch()
    await chooser(page).set_input_files(empty)
    await expect(page.get_by_role("alert")).to_contain_text("is empty")
    assert uploads == []

    await page.goto(f"/effects/{small}")
    accepted = "JPEG, PNG, WebP and others, up to 20 kB"
    await expect(page.get_by_text(accepted)).to_be_visible()
    large = tmp_path / "large <i>.png"
    Image.effect_noise((300, 300), 80).save(large)
    uploads.clear()
    await chooser(page).set_input_files(large)
    await expect(page.get_by_role("alert")).to_contain_text("“large <i>.png” is too large (")
    await expect(page.get_by_role("alert")).to_contain_text(f"Accepted: {accepted}.")
    # What is refused takes no place: the next file is taken.
    assert uploads == []
    fitting = tmp_path / "fitting.png"
    Image.new("RGB", (30, 20), "teal").save(fitting)
    await chooser(page).set_input_files(fitting)
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.thorough
async def test_a_video_that_is_too_long_is_refused_before_its_upload(signed_in: Page, stack: Stack) -> None:
    page = signed_in

    async def shorten(route: Route) -> None:
        response = await route.fetch()
        effect = await response.json()
        effect["input"]["max_seconds"] = 1.5
        await route.fulfill(response=response, json=effect)

    await page.route(re.compile("/api/effects/negative$"), shorten)
    await page.goto("/effects/negative")
    await expect(page.get_by_text(app_text("upload.upload.atMost", "1.5 s"))).to_be_visible()
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_role("alert")).to_contain_text("“sample.mp4” is too long (3 s).")


@pytest.mark.thorough
async def test_an_upload_that_breaks_is_tried_again_with_the_form_kept(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.add_init_script(BREAK_FIRST_UPLOAD)
    await page.goto("/effects/caption")
    await page.get_by_role("textbox", name="Caption").fill("Still here")
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_role("alert")).to_contain_text(app_text("upload.upload.failed"))
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Caption")).to_have_value("Still here")


@pytest.mark.thorough
async def test_the_form_shows_too_few_tokens_before_it_submits(page: Page, stack: Stack) -> None:
    await stack.sign_in(page, await stack.new_account(tokens=1))
    await page.goto("/effects/caption")
    await expect(page.get_by_role("alert")).to_contain_text(app_text("effect.effectPage.missing", "1 token"))
    await expect(page.get_by_role("button", name="Generate")).to_be_disabled()


@pytest.mark.thorough
async def test_signing_in_again_restores_the_form(signed_in: Page, account: Account) -> None:
    page = signed_in
    await page.goto("/effects/imagine")
    prompt = page.get_by_role("textbox", name="Prompt")
    await prompt.fill("mountains at dawn")

    async def end_session(submission: Route) -> None:
        await page.context.clear_cookies()
        await submission.continue_()

    # The session ends just before the job is submitted. If it ended earlier, another request of the page could be the
    # first that is refused, and the button would be gone.
    await page.route("**/api/ai-jobs", end_session, times=1)
    await page.get_by_role("button", name="Generate").click()
    await expect(page.get_by_text(app_text("sign-in.signIn.sessionEnded"))).to_be_visible()
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(account.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(prompt).to_have_value("mountains at dawn")
    await page.get_by_role("button", name="Generate").click()
    await expect(page).to_have_url(re.compile(r"/jobs/"))


@pytest.mark.thorough
async def test_a_session_that_ends_during_an_upload_keeps_the_file_and_the_form(
    signed_in: Page, stack: Stack, account: Account
) -> None:
    page = signed_in
    await page.add_init_script(SLOW_UPLOAD)
    await page.goto("/effects/caption")
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    caption = page.get_by_role("textbox", name="Caption")
    await caption.fill("Still here")
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_role("progressbar")).to_be_visible()
    # Signed out elsewhere: the tab learns it from its stream, in the middle of the upload.
    await page.context.request.post("/api/auth/logout", headers={"x-csrf-token": await stack.csrf_token(page)})
    await expect(page.get_by_text(app_text("sign-in.signIn.sessionEnded"))).to_be_visible()
    await page.get_by_label("Email").fill(account.email)
    await page.get_by_label("Password").fill(account.password)
    await page.get_by_role("button", name="Sign in").click()

    await expect(page).to_have_url(f"{stack.url}/effects/caption")
    await expect(caption).to_have_value("Still here")
    await expect(page.get_by_text("sample.mp4")).to_be_visible()
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    await page.get_by_role("button", name="Generate").click()
    await expect(page).to_have_url(re.compile(r"/jobs/"))

    # A file that was taken away or uploaded is not brought back.
    await page.goto("/effects/negative")
    await chooser(page).set_input_files(clip_of(stack))
    await page.get_by_role("button", name="Cancel the upload").click()
    await page.get_by_role("link", name="All effects").click()
    await page.get_by_role("link", name="Negative").click()
    await expect(page.get_by_text(app_text("upload.upload.dropSeveral.video"))).to_be_visible()


@pytest.mark.thorough
async def test_another_user_of_the_tab_does_not_get_the_file(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.add_init_script(SLOW_UPLOAD)
    await page.goto("/effects/negative")
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_role("progressbar")).to_be_visible()
    await page.context.request.post("/api/auth/logout", headers={"x-csrf-token": await stack.csrf_token(page)})
    await expect(page.get_by_text(app_text("sign-in.signIn.sessionEnded"))).to_be_visible()
    other = await stack.new_account()
    await page.get_by_label("Email").fill(other.email)
    await page.get_by_label("Password").fill(other.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{stack.url}/effects/negative")
    await expect(page.get_by_text(app_text("upload.upload.dropSeveral.video"))).to_be_visible()


@pytest.mark.thorough
async def test_a_phone_takes_an_image(chromium: Browser, stack: Stack, account: Account, tmp_path: Path) -> None:
    context = await chromium.new_context(
        base_url=stack.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    await stack.sign_in(page, account)
    await page.goto("/effects/glow")
    taken = tmp_path / "taken.png"
    Image.new("RGB", (30, 20), "teal").save(taken)
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Use the camera").tap()
    camera = await choosing.value
    assert await camera.element.get_attribute("capture") == "environment"
    assert await camera.element.get_attribute("accept") == "image/*"
    await camera.set_files(taken)
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    await expect(page.get_by_text("taken.png")).to_be_visible()
    await context.close()


@pytest.mark.thorough
async def test_an_image_is_made_with_the_keyboard_alone(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    await page.goto("/effects")
    await page.locator("[data-card]").first.wait_for()
    await page.keyboard.press("/")
    await page.keyboard.type("imagine")
    await expect(page.locator("[data-card]")).to_have_count(1)
    card = page.get_by_role("link", name="Imagine")
    for _ in range(12):
        await page.keyboard.press("Tab")
        if await card.evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    prompt = page.get_by_role("textbox", name="Prompt")
    await prompt.focus()
    await page.keyboard.type("the sea")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("7")
    # The button for a random number, then Generate.
    await page.keyboard.press("Tab")
    for _ in range(3):
        await page.keyboard.press("Tab")
        if await page.get_by_role("button", name="Generate").evaluate("element => element === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/jobs/"))
    [job] = await jobs_of(stack, account)
    async with stack.client(account.headers) as client:
        sent = (await client.get(f"/api/ai-jobs/{job['id']}")).json()["input_payload"]
    assert sent == {"prompt": "the sea", "seed": 7}


@pytest.mark.thorough
@pytest.mark.parametrize("actor", ["copy", "media", "scrape", "static_ad", "tts", "ugc_video"])
async def test_every_actor_has_a_form(signed_in: Page, actor: str) -> None:
    page = signed_in
    await page.goto(f"/tasks/new?actor={actor}")
    form = page.locator("form")
    await expect(form.get_by_role("button", name="Submit")).to_be_visible()
    await expect(form.get_by_role("textbox").first).to_be_visible()
    await expect(form.get_by_label("Payload")).to_have_count(0)


# The first upload begins a second after it was asked for, as on a slow line.
SLOW_UPLOAD = """
const send = XMLHttpRequest.prototype.send;
XMLHttpRequest.prototype.send = function (body) { setTimeout(() => send.call(this, body), 1000); };
"""
# What a person drags from a folder, or has copied.
GIVE_FILE = """async ([event, base64, name, type]) => {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type }));
  const options = { bubbles: true, cancelable: true };
  document.body.dispatchEvent(event === "paste"
    ? new ClipboardEvent("paste", { ...options, clipboardData: data })
    : new DragEvent("drop", { ...options, dataTransfer: data }));
}"""


@pytest.mark.thorough
async def test_a_user_who_presses_generate_during_the_upload_gets_a_job_after_it(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.add_init_script(SLOW_UPLOAD)
    await page.goto("/effects/negative")
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_role("progressbar")).to_be_visible()
    await page.get_by_role("button", name="Generate").click()
    await expect(page.get_by_role("button", name="Uploading…")).to_be_disabled()
    await expect(page).to_have_url(re.compile(r"/jobs/"))


@pytest.mark.thorough
async def test_an_upload_can_be_canceled_and_another_file_chosen(signed_in: Page, stack: Stack) -> None:
    page = signed_in
    await page.add_init_script(SLOW_UPLOAD)
    await page.goto("/effects/negative")
    await chooser(page).set_input_files(clip_of(stack))
    await page.get_by_role("button", name="Cancel the upload").click()
    await expect(page.get_by_text(app_text("upload.upload.dropSeveral.video"))).to_be_visible()
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_label("Uploaded")).to_be_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("event", ["drop", "paste"])
async def test_a_file_may_be_dropped_or_pasted_anywhere(signed_in: Page, stack: Stack, event: str) -> None:
    page = signed_in
    await page.goto("/effects/negative")
    await expect(page.get_by_text(app_text("upload.upload.dropSeveral.video"))).to_be_visible()
    content = base64.b64encode(clip_of(stack).read_bytes()).decode()
    await page.evaluate(GIVE_FILE, [event, content, "<i>given<b>.mp4", "video/mp4"])
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    await expect(page.get_by_text("<i>given<b>.mp4")).to_be_visible()


@pytest.mark.thorough
async def test_before_and_after_are_compared_with_the_keyboard(signed_in: Page) -> None:
    page = signed_in
    await page.goto("/effects/negative")
    divider = page.get_by_role("slider", name=app_text("media.media.divider"))
    await divider.focus()
    await page.keyboard.press("End")
    await expect(divider).to_have_attribute("aria-valuenow", "100")
    await page.keyboard.press("Shift+ArrowLeft")
    await expect(divider).to_have_attribute("aria-valuenow", "90")
    # Both clips play, in step.
    moved = """() => {
      const [after, before] = document.querySelectorAll("video");
      return !after.paused && after.currentTime > 0.5 && Math.abs(after.currentTime - before.currentTime) < 0.2;
    }"""
    await page.wait_for_function(moved)


@pytest.mark.thorough
async def test_a_refusal_of_the_server_is_shown_at_its_field(signed_in: Page, stack: Stack, account: Account) -> None:
    page = signed_in
    await page.goto("/effects/caption")
    await chooser(page).set_input_files(clip_of(stack))
    caption = page.get_by_role("textbox", name="Caption")
    # The browser does not check the characters of a text.
    await caption.fill("A \x07 caption")
    await page.get_by_role("button", name="Generate").click()
    await expect(page.get_by_role("alert")).to_contain_text("must not contain control characters")
    await expect(caption).to_have_attribute("aria-invalid", "true")
    assert await jobs_of(stack, account) == []
    await caption.fill("A caption")
    await expect(page.get_by_role("alert")).to_have_count(0)
    await page.get_by_role("button", name="Generate").click()
    await expect(page).to_have_url(re.compile(r"/jobs/"))


@pytest.mark.thorough
async def test_the_form_is_used_from_code(
    signed_in: Page, stack: Stack, account: Account, tmp_path: Path, screenshots: Screenshots
) -> None:
    """The three programs that the page shows are run as they are, and submit what the form has."""
    page = signed_in
    await page.goto("/effects/caption")
    await chooser(page).set_input_files(clip_of(stack))
    await expect(page.get_by_label("Uploaded")).to_be_visible()
    words = 'it\'s "5 $HOME" \\n `date` ☂ {x}'
    await page.get_by_role("textbox", name="Caption").fill(words)
    await page.get_by_role("button", name=app_text("effect-code.effectCode.open")).click()
    dialog = page.get_by_role("dialog")
    programs: dict[str, str] = {}
    for language in ("curl", "Python", "TypeScript"):
        await dialog.get_by_role("tab", name=language).click()
        programs[language] = await dialog.locator("pre:visible").inner_text()
        await screenshots.take(page, f"effect-code-{language.lower()}")
    await assert_accessible(page)
    assert account.key not in "".join(programs.values())

    shutil.copy(clip_of(stack), tmp_path / "sample.mp4")
    (tmp_path / "python.py").write_text(programs["Python"], encoding="utf-8")
    (tmp_path / "typescript.ts").write_text(programs["TypeScript"], encoding="utf-8")
    install_client(tmp_path)
    key = {"CALLSHEET_CLIENT__API_KEY": account.key}
    submitted = json.loads(await printed("sh", "-c", programs["curl"], cwd=tmp_path, **key))
    for program in (
        printed(sys.executable, "python.py", cwd=tmp_path, **key),
        run_node("typescript.ts", cwd=tmp_path, **key),
    ):
        result = tmp_path / (await program).strip()
        assert result.read_bytes()[4:8] == b"ftyp"
        # Both results have the same name.
        result.unlink()
    jobs = await jobs_of(stack, account)
    assert len(jobs) == 3
    async with stack.client(account.headers) as client:
        sent = [(await client.get(f"/api/ai-jobs/{job['id']}")).json()["input_payload"] for job in jobs]
    assert submitted["id"] in {job["id"] for job in jobs}
    assert [each["prompt"] for each in sent] == [words] * 3
    assert sent[0] == sent[1] == sent[2]


async def printed(*command: str, cwd: Path, **variables: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text = (await process.communicate())[0].decode()
    assert process.returncode == 0, text
    return text
