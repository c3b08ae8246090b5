"""Services that are set up in the settings alone, against a real server that is slow, lies, drops and redirects."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Generation, Made, SyncProvider
from tests.support.providers.media_providers import HERE, ProgressLog, opened, service_table
from tests.support.providers.media_service import (
    HTML,
    PNG,
    SECRET,
    MediaService,
    cut_off,
    dropped,
    endless,
    media_service,
    redirected,
    responding,
    silent,
    with_a_page,
)
from tests.support.waiting import until

STYLES = ("leonardo", "midjourney")
METADATA_SERVICE = "http://169.254.169.254/latest/meta-data/"


@pytest.fixture
async def service() -> AsyncIterator[MediaService]:
    async with media_service() as service:
        yield service


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class StyledProvider:
    """A provider of one style before the service."""

    def __init__(self, service: MediaService, style: str, directory: Path):
        self.service = service
        self.style = style
        self.directory = directory
        self.progress = ProgressLog()

    async def make(
        self, *, networks: Any = HERE, prompt: str = "a lighthouse", params: Any = (), **changes: Any
    ) -> Made:
        table = service_table(self.style, self.service, **changes)
        async with opened(http={self.style: table}, networks=networks) as registry:
            provider = cast("SyncProvider", registry.media[self.style])
            return await provider.generate(Generation("txt2img", prompt, dict(params)), self.directory, self.progress)

    async def fail(self, **changes: Any) -> ProviderError:
        with pytest.raises(ProviderError) as failed:
            await self.make(**changes)
        assert SECRET not in f"{failed.value.message} {failed.value.details}"
        assert list(self.directory.iterdir()) == []
        return failed.value


@pytest.fixture
def styled_provider(service: MediaService, style: str, tmp_path: Path) -> StyledProvider:
    directory = tmp_path / "made"
    directory.mkdir()
    return StyledProvider(service, style, directory)


async def test_a_job_is_submitted_polled_and_downloaded(styled_provider: StyledProvider, style: str) -> None:
    made = await styled_provider.make()
    [file] = made.files
    assert (file.path.read_bytes(), file.name, file.mime_type) == (PNG, f"{style}-1.png", "image/png")
    assert file.path.parent == styled_provider.directory
    assert made.provider_job_id == "job/1 ü"
    assert [styled_provider.service.count(call) for call in ("submit", "poll", "file", "cancel")] == [1, 3, 1, 0]


async def test_every_output_is_fetched_once_and_keeps_its_kind(styled_provider: StyledProvider) -> None:
    service = styled_provider.service
    film = b"\0\0\0\x18ftypisom" + bytes(500)
    first, second = service.file("a", PNG), service.file("b.bin", film)
    service.outputs = [first, second, first]
    assert [(file.name[-5:], file.mime_type) for file in (await styled_provider.make()).files] == [
        ("1.png", "image/png"),
        ("2.mp4", "video/mp4"),
    ]


async def test_values_keep_their_types_and_quotes_change_nothing(service: MediaService, tmp_path: Path) -> None:
    hostile = 'a "lighthouse", {"width": 1} {params.width} {secret} \\'
    await StyledProvider(service, "leonardo", tmp_path).make(prompt=hostile, params={"width": 640})
    assert service.sent("submit") == [{"prompt": hostile, "width": 640, "height": 768, "num_images": 1}]
    await StyledProvider(service, "midjourney", tmp_path).make(
        prompt=hostile, params={"aspect_ratio": "16:9", "mode": "fast"}
    )
    assert service.sent("submit")[1] == {"prompt": f"{hostile} --ar 16:9", "process_mode": "fast"}


@pytest.mark.parametrize(("model", "is_refused"), [("..", True), (".", True), ("../..", False), ("sd.3", False)])
async def test_no_value_leads_to_another_path_of_the_service(
    service: MediaService, model: str, is_refused: bool
) -> None:
    table = service_table("leonardo", service)
    action = {"path": "/models/{params.model}/generate", "id": "id", "params": {"model": {"type": "text"}}}
    async with opened(http={"leonardo": {**table, "actions": {"txt2img": action}}}) as registry:
        generation = Generation("txt2img", "a lighthouse", {"model": model})
        problems = [each.field for each in registry.media["leonardo"].problems(generation)]
    assert problems == (["params.model"] if is_refused else [])


async def test_the_key_is_sent_to_the_service_and_not_to_where_the_outputs_are(styled_provider: StyledProvider) -> None:
    await styled_provider.make()
    for requests in styled_provider.service.requests:
        assert (SECRET in str(requests.headers)) is (requests.call != "file")


async def test_the_key_is_sent_for_outputs_where_the_settings_say_so_and_only_on_its_own_host(
    styled_provider: StyledProvider,
) -> None:
    service = styled_provider.service
    service.outputs = [service.file("a", PNG), service.file("b", PNG).replace("127.0.0.1", "127.0.0.2")]
    with pytest.raises(ProviderUnavailable):
        # No server listens at the second URL; the test is about the headers sent to the first.
        await styled_provider.make(download={"send_headers": True})
    [requests] = [each for each in service.requests if each.path == "/files/a"]
    assert SECRET in str(requests.headers)


async def test_percent_and_status_are_reported(service: MediaService, tmp_path: Path) -> None:
    styled_provider = StyledProvider(service, "midjourney", tmp_path)
    service.polls_until_done = 3
    await styled_provider.make()
    assert styled_provider.progress.percents == [0.0, 25.0, 50.0, 75.0]
    assert styled_provider.progress.messages[1:] == ["processing"] * 3


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_busy_service_counts_as_unavailable_and_is_not_retried_at_once(
    styled_provider: StyledProvider, status: int
) -> None:
    styled_provider.service.always["submit"] = responding(status, {"error": "busy"})
    failed = await styled_provider.fail()
    assert isinstance(failed, ProviderUnavailable)
    assert (failed.details["status"], failed.retryable, styled_provider.service.count("submit")) == (status, True, 1)


async def test_a_short_retry_after_time_is_respected(styled_provider: StyledProvider) -> None:
    styled_provider.service.faults["submit"] = [responding(429, Retry_After="0"), responding(503, Retry_After="0")]
    assert (await styled_provider.make()).provider_job_id == "job/1 ü"
    assert styled_provider.service.count("submit") == 3


async def test_a_long_retry_after_time_is_left_to_the_queue(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["submit"] = responding(429, Retry_After="3600")
    failed = await styled_provider.fail()
    assert isinstance(failed, ProviderUnavailable)
    assert (failed.details["retry_after_seconds"], styled_provider.service.count("submit")) == (3600.0, 1)


async def test_a_submit_whose_response_was_lost_is_not_repeated_by_the_provider(
    styled_provider: StyledProvider,
) -> None:
    styled_provider.service.always["submit"] = dropped
    assert isinstance(await styled_provider.fail(), ProviderUnavailable)
    assert styled_provider.service.count("submit") == 1


async def test_a_refusal_fails_permanently_and_shows_no_urls_and_no_secrets(
    styled_provider: StyledProvider,
) -> None:
    progress = f"prompt was blocked, see https://example.com/x?token=1 \n password=hunter2 {SECRET} " + "x" * 1000
    styled_provider.service.always["submit"] = responding(400, {"error": {"message": progress}})
    failed = await styled_provider.fail()
    assert (failed.type, failed.retryable) == ("provider_refused", False)
    assert failed.message.startswith(
        f"{styled_provider.style} refused the request (400): prompt was blocked, see [address] "
    )
    assert len(failed.message) < 400
    for hidden in ("example.com", "hunter2", "\n"):
        assert hidden not in failed.message


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_is_reported_as_such(styled_provider: StyledProvider, status: int) -> None:
    styled_provider.service.always["submit"] = responding(status, {"message": "who are you"})
    failed = await styled_provider.fail()
    assert (failed.type, failed.retryable) == ("provider_refused_key", False)


async def test_a_service_that_redirects_is_not_followed_with_the_key(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["submit"] = redirected(f"{styled_provider.service.url}/elsewhere", 307)
    failed = await styled_provider.fail()
    assert (failed.type, len(styled_provider.service.requests)) == ("provider_moved", 1)


@pytest.mark.parametrize(
    "response",
    [{}, {"task_id": None}, {"task_id": ".."}, {"task_id": {"a": 1}}, [], "x", {"task_id": True}]
    + [{"task_id": odd} for odd in ("a\ud800", "a\0", "a\nb", "x" * 501)],
)
async def test_a_response_without_an_id_fails_the_job(service: MediaService, tmp_path: Path, response: Any) -> None:
    service.always["submit"] = responding(200, response)
    failed = await StyledProvider(service, "midjourney", tmp_path).fail()
    assert failed.type == "provider_answer"


async def test_an_id_that_is_too_long_to_be_kept_does_not_cost_the_result(
    service: MediaService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take() -> str:
        service._polls["x" * 300] = 0
        return "x" * 300

    monkeypatch.setattr(service, "_take", take)
    made = await StyledProvider(service, "midjourney", tmp_path).make()
    assert made.provider_job_id is None
    assert made.files


async def test_an_html_page_instead_of_json_counts_as_unavailable(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["submit"] = with_a_page
    assert isinstance(await styled_provider.fail(), ProviderUnavailable)


async def test_an_accepted_job_survives_temporary_errors_of_the_service(styled_provider: StyledProvider) -> None:
    styled_provider.service.faults["poll"] = [
        responding(404, {"error": "not yet"}),
        responding(500, {}),
        dropped,
        with_a_page,
        responding(429, Retry_After="0"),
        responding(200, {"status": {"nested": 1}}),
        responding(200, {}),
    ]
    assert len((await styled_provider.make()).files) == 1
    assert styled_provider.service.count("submit") == 1


async def test_a_job_at_a_silent_service_is_canceled_after_a_limit(service: MediaService, tmp_path: Path) -> None:
    service.always["poll"] = responding(503, {})
    failed = await StyledProvider(service, "leonardo", tmp_path).fail(poll={"patience_seconds": 0})
    assert isinstance(failed, ProviderUnavailable)
    assert service.canceled == ["job/1 ü"]


async def test_a_job_that_the_service_has_forgotten_is_lost(styled_provider: StyledProvider) -> None:
    styled_provider.service.faults["poll"] = [responding(200, pending(styled_provider.style)), responding(404, {})]
    failed = await styled_provider.fail()
    assert (failed.type, failed.details["status"]) == ("provider_refused", 404)


def pending(style: str) -> dict[str, Any]:
    return {"generations_by_pk": {"status": "PENDING"}} if style == "leonardo" else {"status": "processing"}


async def test_a_job_that_fails_at_the_service_fails_with_its_reason(styled_provider: StyledProvider) -> None:
    styled_provider.service.failure = "content policy, see https://example.com/policy"
    failed = await styled_provider.fail()
    assert (failed.type, failed.retryable) == ("provider_failed", False)
    assert failed.message == f"{styled_provider.style} failed: content policy, see [address]"


async def test_a_job_that_ends_without_outputs_fails(styled_provider: StyledProvider) -> None:
    styled_provider.service.outputs = []
    assert (await styled_provider.fail()).type == "no_output"


async def test_more_outputs_than_are_accepted_fail_the_job(styled_provider: StyledProvider) -> None:
    styled_provider.service.outputs = [f"{styled_provider.service.url}/files/{number}" for number in range(21)]
    assert (await styled_provider.fail()).type == "too_many_outputs"
    assert styled_provider.service.count("file") == 0


@pytest.mark.thorough
async def test_a_job_that_takes_too_long_is_canceled_at_the_service_and_fails(
    service: MediaService, tmp_path: Path
) -> None:
    service.polls_until_done = 10**9
    failed = await StyledProvider(service, "leonardo", tmp_path).fail(limit_seconds=3)
    assert (failed.type, failed.retryable, service.canceled) == ("run_limit", False, ["job/1 ü"])


async def test_a_service_that_never_responds_runs_into_the_timeout(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["submit"] = silent
    assert isinstance(await styled_provider.fail(request_seconds=0.2), ProviderUnavailable)


async def test_a_stopped_run_is_canceled_at_the_service(service: MediaService, tmp_path: Path) -> None:
    service.polls_until_done = 10**9
    run = asyncio.create_task(StyledProvider(service, "leonardo", tmp_path).make())
    await until(lambda: service.count("poll") > 0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert service.canceled == ["job/1 ü"]


async def test_a_run_stopped_during_its_submission_is_canceled_at_the_service(
    service: MediaService, tmp_path: Path
) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        arrived.set()
        await go_on.wait()
        return await service._leonardo_submit(request)

    service.faults["submit"] = [slow]
    run = asyncio.create_task(StyledProvider(service, "leonardo", tmp_path).make())
    await arrived.wait()
    run.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert service.canceled == ["job/1 ü"]


@pytest.mark.parametrize(
    "content", [HTML, b"", b"{}", b"#!/bin/sh\n" + bytes(100), b"<svg onload=alert(1)>" + bytes(100)]
)
async def test_a_file_whose_bytes_are_not_media_is_refused_whatever_its_type(
    styled_provider: StyledProvider, content: bytes
) -> None:
    styled_provider.service.outputs = [styled_provider.service.file("picture.png", content)]
    failed = await styled_provider.fail()
    assert (failed.type, failed.retryable) == ("output_not_media", False)


async def test_a_video_where_images_were_asked_for_is_refused(styled_provider: StyledProvider) -> None:
    styled_provider.service.outputs = [styled_provider.service.file("a.png", b"\0\0\0\x18ftypisom" + bytes(500))]
    failed = await styled_provider.fail(download={"types": ["image/*"]})
    assert (failed.type, failed.details["found"]) == ("output_not_media", "video/mp4")


@pytest.mark.parametrize("address", [METADATA_SERVICE, "http://localhost:1/", "http://[::1]/a.png", "http://10.0.0.1/"])
async def test_an_output_in_a_private_network_is_not_fetched(styled_provider: StyledProvider, address: str) -> None:
    styled_provider.service.outputs = [address]
    failed = await styled_provider.fail(networks=())
    assert (failed.type, failed.retryable) == ("output_refused", False)
    assert address not in failed.message


async def test_an_output_that_redirects_into_a_private_network_is_not_fetched(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["file"] = redirected(METADATA_SERVICE)
    failed = await styled_provider.fail()
    assert (failed.type, styled_provider.service.count("file")) == ("output_refused", 1)


@pytest.mark.parametrize(
    "address",
    ["ftp://example.com/a.png", "javascript:alert(1)", "file:///etc/passwd", "data:image/png,x", "http://[", "//["],
)
async def test_an_output_with_another_kind_of_url_is_not_fetched(styled_provider: StyledProvider, address: str) -> None:
    styled_provider.service.outputs = [address]
    failed = await styled_provider.fail()
    assert (failed.type, failed.retryable) == ("output_refused", False)


async def test_an_output_without_end_is_cut_off(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["file"] = endless
    failed = await styled_provider.fail(download={"max_bytes": 1_000_000})
    assert (failed.type, failed.retryable) == ("output_too_large", False)


async def test_waiting_for_an_output_that_never_arrives_ends(styled_provider: StyledProvider) -> None:
    styled_provider.service.always["file"] = silent
    assert isinstance(await styled_provider.fail(download={"limit_seconds": 0.05}), ProviderUnavailable)


async def test_an_output_that_was_cut_off_on_the_way_is_fetched_again(styled_provider: StyledProvider) -> None:
    styled_provider.service.faults["file"] = [cut_off, responding(503)]
    [file] = (await styled_provider.make()).files
    assert file.path.read_bytes() == PNG
    assert styled_provider.service.count("file") == 3


async def test_an_output_that_is_gone_fails_the_job(styled_provider: StyledProvider) -> None:
    styled_provider.service.files.clear()
    assert (await styled_provider.fail()).type == "output_unreadable"


async def test_a_large_output_arrives_whole(styled_provider: StyledProvider) -> None:
    content = PNG + bytes(3_000_000)
    styled_provider.service.outputs = [styled_provider.service.file("large.png", content)]
    [file] = (await styled_provider.make()).files
    assert file.path.read_bytes() == content


async def test_no_secret_is_logged(styled_provider: StyledProvider, logged: io.StringIO) -> None:
    await styled_provider.make()
    styled_provider.service.always["submit"] = responding(400, {"error": SECRET})
    with pytest.raises(ProviderError):
        await styled_provider.make()
    assert "provider.call" in logged.getvalue()
    assert SECRET not in logged.getvalue()
