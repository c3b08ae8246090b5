"""Jobs of a provider that calls back: the intent before the call, good and bad callbacks, and their outcomes."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from callsheet.jobs.lease.outcomes import Failure
from callsheet.providers.media import Callback, Generation
from callsheet.webhooks.worklist import Worklist
from callsheet.wire.worker.errors import LeaseLost
from callsheet.wire.worker.protocol import CallbackAddress
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Core, Member, open_core, report
from tests.support.providers.provider_calls import COST, HELD, CallHarness, SubmittedCall, open_call_harness
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import ReplicateServer, Scenario, new_id

IMAGE = Scenario()
OTHER_SECRET = "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCBvZiAzMg=="


@pytest.fixture
async def call_harness(
    core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
) -> AsyncIterator[CallHarness]:
    async with open_call_harness(core, ann, tmp_path, replicate) as call_harness:
        yield call_harness


class TestStrays:
    """Submitted by a worker that was overtaken meanwhile, and says so too late."""

    async def overtaken(self, call_harness: CallHarness) -> SubmittedCall:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        handed = await call_harness.new_call()
        await call_harness.core.expire_lease(handed.started.lease.dispatch_id)
        await call_harness.core.reap()
        return handed

    async def report_too_late(self, call_harness: CallHarness, handed: SubmittedCall) -> str:
        prediction = await call_harness.provider.submit(
            Generation("txt2img", "a cat"), Callback(handed.callback.url, False)
        )
        try:
            outcome = await call_harness.defer(handed, prediction.id)
            assert outcome.settled is None
        except LeaseLost:
            pass
        await call_harness.room.gate.record_stray(handed.started.lease.dispatch_id, prediction.id)
        return prediction.id

    async def test_a_stray_prediction_is_canceled_while_the_other_one_goes_on(self, call_harness: CallHarness) -> None:
        first = await self.overtaken(call_harness)
        second = await call_harness.hand_over()
        kept = await call_harness.provider.submit(Generation("txt2img", "a cat"), Callback(second.callback.url, False))
        await call_harness.defer(second, kept.id)
        stray = await self.report_too_late(call_harness, first)
        await call_harness.work()
        states = {each: call_harness.replicate.predictions[each]["status"] for each in (kept.id, stray)}
        assert states == {kept.id: "processing", stray: "canceled"}
        await call_harness.call_back(second, kept.id, IMAGE)
        assert await call_harness.finished(second) == "completed"
        assert (await call_harness.row(second))["strays"] == []
        await call_harness.core.check_drained()

    async def test_a_stray_prediction_is_kept_until_the_next_worker_reports_which_one_it_uses(
        self, call_harness: CallHarness
    ) -> None:
        first = await self.overtaken(call_harness)
        second = await call_harness.hand_over()
        stray = await self.report_too_late(call_harness, first)
        await call_harness.work()
        # The second worker looks, and finds just that one.
        found = await call_harness.call(second)
        assert found.id == stray
        await call_harness.defer(second, found.id)
        await call_harness.work()
        assert call_harness.replicate.predictions[stray]["status"] == "processing"
        await call_harness.call_back(second, stray, IMAGE)
        assert await call_harness.finished(second) == "completed"

    @pytest.mark.parametrize("end", ["completed", "canceled"])
    async def test_a_stray_prediction_of_an_ended_job_is_canceled(self, call_harness: CallHarness, end: str) -> None:
        first = await self.overtaken(call_harness)
        second = await call_harness.hand_over()
        kept = await call_harness.provider.submit(Generation("txt2img", "a cat"), Callback(second.callback.url, False))
        await call_harness.defer(second, kept.id)
        if end == "completed":
            await call_harness.call_back(second, kept.id, IMAGE)
        else:
            await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, first.job_id, actor="user")
        assert await call_harness.finished(second) == end
        stray = await self.report_too_late(call_harness, first)
        await call_harness.work()
        assert call_harness.replicate.predictions[stray]["status"] == "canceled"
        row = await call_harness.row(second)
        assert (row["work"], row["strays"], row["ended_at"] is None) == (None, [], False)

    async def test_a_repeated_report_is_not_a_stray_prediction(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.room.gate.record_stray(handed.started.lease.dispatch_id, prediction.id)
        await call_harness.work()
        assert call_harness.replicate.predictions[prediction.id]["status"] == "processing"
        assert (await call_harness.row(handed))["strays"] == []

    async def test_g6_a_worker_cannot_have_another_tenants_prediction_canceled(self, call_harness: CallHarness) -> None:
        """The worker that sends this has no lease: it can send any number and any id."""
        bob = replace(call_harness, ann=await call_harness.core.member("pool_2"))
        call_harness.replicate.deliver = "never"
        others, theirs = await bob.waiting()
        handed, _ = await call_harness.waiting()
        await call_harness.room.gate.record_stray(handed.started.lease.dispatch_id, theirs.id)
        await call_harness.work()
        assert call_harness.replicate.predictions[theirs.id]["status"] == "processing"
        assert (await call_harness.row(handed))["strays"] == []
        await bob.call_back(others, theirs.id, IMAGE)
        assert await bob.finished(others) == "completed"

    async def test_the_number_of_remembered_stray_predictions_is_limited(self, call_harness: CallHarness) -> None:
        handed, _ = await call_harness.waiting()
        for number in range(12):
            await call_harness.room.gate.record_stray(handed.started.lease.dispatch_id, f"stray-{number}")
        assert len((await call_harness.row(handed))["strays"]) == 8


class TestForgetting:
    async def test_calls_that_ended_long_ago_are_forgotten_with_their_callbacks_and_no_others(
        self, call_harness: CallHarness
    ) -> None:
        ended, prediction = await call_harness.waiting()
        await call_harness.call_back(ended, prediction.id, IMAGE)
        assert await call_harness.finished(ended) == "completed"
        recent, other = await call_harness.waiting()
        await call_harness.call_back(recent, other.id, IMAGE)
        assert await call_harness.finished(recent) == "completed"
        open_one, _ = await call_harness.waiting()
        long_ago = """UPDATE provider_calls SET created_at = created_at - interval '91 days',
                      ended_at = ended_at - interval '91 days' WHERE job_id = ANY ($1)"""
        central = call_harness.core.databases.central
        await call_harness.core.rows(central, long_ago, [ended.job_id, open_one.job_id])
        await call_harness.room.sweeper.tick(datetime.now(UTC))
        left = {row["job_id"] for row in await call_harness.core.rows(central, "SELECT job_id FROM provider_calls")}
        assert left >= {recent.job_id, open_one.job_id}
        assert ended.job_id not in left
        assert (await call_harness.lines(ended), len(await call_harness.lines(recent))) == ([], 1)
        # The job and what was made stay for ever; a word that comes now is about nothing we know.
        assert await call_harness.core.status(call_harness.ann, ended.job_id) == "completed"
        assert len(await call_harness.files(ended.job_id)) == 1
        assert await call_harness.refused(ended, prediction.id) == "not_found"


class TestIntent:
    async def test_the_call_is_recorded_before_a_callback_is_possible_and_without_its_url(
        self, call_harness: CallHarness
    ) -> None:
        handed = await call_harness.new_call()
        row = await call_harness.row(handed)
        assert (row["hand_overs"], row["work"], row["charge_cycle"]) == (1, "follow", 1)
        assert row["callback_hash"] == sha256(handed.callback_id.encode()).digest()
        assert handed.callback_id not in str(row)
        assert not handed.callback.may_exist

    async def test_the_record_of_a_second_attempt_says_that_the_provider_may_know_the_job(
        self, call_harness: CallHarness
    ) -> None:
        first = await call_harness.new_call()
        await call_harness.core.expire_lease(first.started.lease.dispatch_id)
        await call_harness.core.reap()
        second = await call_harness.hand_over()
        assert second.callback == CallbackAddress(url=first.callback.url, may_exist=True)
        assert (await call_harness.row(second))["hand_overs"] == 2

    async def test_a_prediction_submitted_before_a_crash_is_found_and_not_paid_twice(
        self, call_harness: CallHarness
    ) -> None:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        first = await call_harness.new_call()
        submitted = await call_harness.call(first)
        await call_harness.core.expire_lease(first.started.lease.dispatch_id)
        await call_harness.core.reap()
        second = await call_harness.hand_over()
        assert (await call_harness.call(second)).id == submitted.id
        assert len(call_harness.replicate.submitted) == 1

    async def test_a_failing_call_is_tried_three_times_and_then_requeued(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_call_harness(core, ann, tmp_path, replicate, breaker_failures=100) as call_harness:
            job_id = await call_harness.submit()
            for status in ("queued", "queued", "failed"):
                assert (await call_harness.fail(await call_harness.hand_over())).status == status
                await core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
            assert await call_harness.refunded(job_id)
            await core.check_drained()

    async def test_a_provider_is_not_called_before_its_retry_after_time(self, call_harness: CallHarness) -> None:
        handed = await call_harness.new_call()
        busy = Failure("provider_unavailable", "Busy.", {"retry_after_seconds": 120}, retryable=True)
        assert (await call_harness.core.room.leases.fail(report(handed.started), busy)).status == "queued"
        dispatch = await call_harness.core.dispatch(handed.job_id)
        assert dispatch is not None
        assert dispatch["not_before"] - dispatch["last_leased_at"] >= timedelta(seconds=120)

    async def test_every_charge_cycle_has_a_callback_url_of_its_own(self, call_harness: CallHarness) -> None:
        first, prediction = await call_harness.waiting()
        await call_harness.call_back(first, prediction.id, Scenario(outcome="failed"))
        assert await call_harness.finished(first) == "failed"
        await call_harness.core.room.retries.retry(call_harness.ann.tenant_id, first.job_id, actor="user")
        second = await call_harness.hand_over()
        assert second.callback.url != first.callback.url
        assert not second.callback.may_exist
        # The first cycle's callback once more: it is about a prediction that no job waits for.
        await call_harness.call_back(first, prediction.id, message_id="msg_again")
        assert await call_harness.finished(second) == "processing"
        assert await call_harness.lines(first) == [("failed", "taken", 1), ("failed", "late", 1)]
        await call_harness.core.check()


class TestCallbacks:
    async def test_a_callback_completes_the_job_with_its_outputs(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, IMAGE)
        assert await call_harness.finished(handed) == "completed"
        [file] = await call_harness.files(handed.job_id)
        content = content_of("picture.png")
        assert (file["name"], file["mime_type"], file["size"]) == ("output.png", "image/png", len(content))
        assert file["sha256"] == sha256(content).hexdigest()
        assert await call_harness.storage.read(file["path"], len(content)) == content
        assert await call_harness.objects() == {file["path"]}
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert job["result"]["metadata"] == {"provider": "replicate", "provider_job_id": prediction.id}
        assert await call_harness.consumed(handed.job_id)
        row = await call_harness.row(handed)
        assert row["work"] is None
        assert "outputs" not in row["prediction"]
        await call_harness.core.check_drained()

    async def test_a_result_may_have_several_files_and_a_text(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        made = {"film": "{files}/film.mp4", "sound": "{files}/sound.wav", "caption": "a cat on a roof"}
        await call_harness.call_back(handed, prediction.id, Scenario(output=made))
        assert await call_harness.finished(handed) == "completed"
        files = await call_harness.files(handed.job_id)
        assert [file["mime_type"] for file in files] == ["video/mp4", "audio/wav"]
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert "a cat on a roof" in job["result"]["result"]["text"]

    async def test_a_text_alone_is_a_result(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, Scenario(output=["a ", "cat"]))
        assert await call_harness.finished(handed) == "completed"
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert job["result"]["result"] == {"text": "a cat"}
        assert job["result"]["outputs"] == []

    async def test_a_callback_before_the_report_of_the_worker_is_kept_and_used_later(
        self, call_harness: CallHarness
    ) -> None:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        handed = await call_harness.new_call()
        prediction = await call_harness.call(handed)
        await call_harness.call_back(handed, prediction.id, IMAGE)
        assert await call_harness.finished(handed) == "processing"
        await call_harness.defer(handed, prediction.id)
        await call_harness.work()
        assert await call_harness.core.status(call_harness.ann, handed.job_id) == "completed"

    async def test_an_early_callback_about_another_prediction_is_dropped(self, call_harness: CallHarness) -> None:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        handed = await call_harness.new_call()
        early, prediction = await call_harness.call(handed), await call_harness.call(handed)
        await call_harness.call_back(handed, early.id, IMAGE)
        await call_harness.defer(handed, prediction.id)
        call_harness.replicate.end(prediction.id, IMAGE)
        assert await call_harness.finished(handed) == "completed"
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert job["result"]["metadata"]["provider_job_id"] == prediction.id

    async def test_the_same_delivery_twice_counts_once(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, IMAGE)
        await call_harness.call_back(handed, prediction.id)
        assert await call_harness.finished(handed) == "completed"
        await call_harness.call_back(handed, prediction.id)
        assert await call_harness.finished(handed) == "completed"
        assert await call_harness.lines(handed) == [("succeeded", "taken", 3)]
        assert call_harness.replicate.downloads == {"picture.png": 1}
        await call_harness.core.check_drained()

    async def test_an_outdated_callback_that_arrives_late_changes_nothing(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, IMAGE)
        started = {**call_harness.replicate.predictions[prediction.id], "status": "processing", "output": None}
        await call_harness.call_back(handed, prediction.id, body=started, message_id="msg_start")
        assert await call_harness.finished(handed) == "completed"

    async def test_an_intermediate_callback_updates_the_progress_of_the_job(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.progress(prediction.id, "  50%|█████     | 2/4")
        await call_harness.call_back(handed, prediction.id)
        query = "SELECT percent FROM job_progress WHERE job_id = $1"
        assert (await call_harness.core.rows(call_harness.ann.pool, query, handed.job_id))[0]["percent"] == 50
        assert await call_harness.lines(handed) == []

    @pytest.mark.parametrize(
        ("outcome", "error", "error_type"),
        [
            ("failed", "CUDA out of memory at /src/model.py with r8_0123456789abcdef0123", "provider_failed"),
            ("canceled", None, "provider_canceled"),
            ("aborted", None, "provider_failed"),
        ],
    )
    async def test_a_callback_about_a_failure_ends_the_job_and_refunds_it(
        self, call_harness: CallHarness, outcome: str, error: str | None, error_type: str
    ) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, Scenario(outcome=outcome, error=error))  # type: ignore[arg-type]
        assert await call_harness.finished(handed) == "failed"
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert job["error"]["type"] == error_type
        assert "/root" not in job["error"]["reported"]
        assert "r8_0" not in job["error"]["reported"]
        assert await call_harness.refunded(handed.job_id)
        await call_harness.core.check_drained()

    async def test_a_callback_for_a_canceled_job_is_stored_and_changes_nothing(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, handed.job_id, actor="user")
        await call_harness.call_back(handed, prediction.id, IMAGE)
        assert await call_harness.finished(handed) == "canceled"
        assert await call_harness.refunded(handed.job_id)
        assert await call_harness.objects() == set()
        assert (await call_harness.row(handed))["work"] is None
        await call_harness.core.check_drained()


class TestRefusals:
    async def refused_and_then_taken(
        self, call_harness: CallHarness, handed: SubmittedCall, prediction_id: str, **options: object
    ) -> None:
        assert await call_harness.refused(handed, prediction_id, **options) == "not_found"
        await call_harness.work()
        assert await call_harness.core.status(call_harness.ann, handed.job_id) == "processing"
        await call_harness.call_back(handed, prediction_id)
        assert await call_harness.finished(handed) == "completed"
        await call_harness.core.check_drained()

    @pytest.mark.few_forms
    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"secret": OTHER_SECRET}, "signature"),
            ({"age_seconds": 900}, "seconds ago"),
            ({"age_seconds": -900}, ""),
            ({"body": b"{}"}, "not a prediction"),
            ({"body": b"\xff"}, "not a prediction"),
        ],
    )
    async def test_a_forged_or_old_callback_is_refused_and_recorded(
        self, call_harness: CallHarness, options: dict[str, object], reason: str, logged: io.StringIO
    ) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, IMAGE)
        await self.refused_and_then_taken(call_harness, handed, prediction.id, **options)
        row = await call_harness.row(handed)
        assert row["refused_callbacks"] == 1
        assert reason in row["last_refusal"]
        assert "webhook.refused" in logged.getvalue()
        assert handed.callback_id not in logged.getvalue()

    async def test_a_callback_about_another_prediction_is_refused(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, IMAGE)
        other = {**call_harness.replicate.predictions[prediction.id], "id": new_id()}
        await self.refused_and_then_taken(call_harness, handed, prediction.id, body=other)

    async def test_a_callback_about_a_job_of_another_tenant_is_refused(self, call_harness: CallHarness) -> None:
        """Signed by the provider, but sent to the URL of another user's job."""
        handed, prediction = await call_harness.waiting()
        bob = replace(call_harness, ann=await call_harness.core.member("pool_2"))
        others, their_prediction = await bob.waiting()
        call_harness.replicate.end(their_prediction.id, IMAGE)
        call_harness.replicate.end(prediction.id, IMAGE)
        assert await call_harness.refused(handed, their_prediction.id) == "not_found"
        assert await call_harness.refused(handed, prediction.id, callback_id=others.callback_id) == "not_found"
        await call_harness.work()
        assert await call_harness.core.status(call_harness.ann, handed.job_id) == "processing"
        assert await bob.core.status(bob.ann, others.job_id) == "processing"
        assert await call_harness.finished(handed) == "completed"
        assert await bob.finished(others) == "completed"
        await call_harness.core.check_drained()

    @pytest.mark.few_forms
    @pytest.mark.parametrize("callback_id", ["A" * 43, "A" * 42, "", "../../x", "A" * 5000, "é" * 43, "'; --"])
    async def test_a_callback_with_an_unknown_id_is_refused(self, call_harness: CallHarness, callback_id: str) -> None:
        handed, prediction = await call_harness.waiting()
        unknown = replace(handed, callback=CallbackAddress(url=f"/{callback_id}".replace("../", ""), may_exist=False))
        assert await call_harness.refused(unknown, prediction.id) == "not_found"

    @pytest.mark.parametrize("provider", ["described", "nobody", "", "replicate\0"])
    async def test_the_callback_url_of_another_provider_is_refused(
        self, call_harness: CallHarness, provider: str
    ) -> None:
        handed, prediction = await call_harness.waiting()
        assert await call_harness.refused(handed, prediction.id, provider=provider) == "not_found"

    async def test_a_callback_that_cannot_be_verified_now_must_be_sent_again(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, IMAGE)
        call_harness.replicate.refuse(1, 503, calls="webhooks/default/secret")
        with pytest.raises(Exception, match="cannot be verified now"):
            await call_harness.call_back(handed, prediction.id)
        await call_harness.call_back(handed, prediction.id)
        assert await call_harness.finished(handed) == "completed"


class TestOutputs:
    async def outcome_of(self, call_harness: CallHarness, output: object) -> str:
        """How a job ends that got this, and that nothing is left of it."""
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, Scenario(output=output))
        assert await call_harness.finished(handed) == "failed"
        job = await call_harness.core.job(call_harness.ann, handed.job_id)
        assert job["error"]["type"] == "output_unusable"
        assert "http" not in job["error"]["reported"]
        assert await call_harness.refunded(handed.job_id)
        assert await call_harness.objects() == set()
        await call_harness.core.check_drained()
        return str(job["error"]["reported"])

    @pytest.mark.few_forms
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("page.png", "not an image"),
            ("page.html", "not an image"),
            ("words.txt", "not an image"),
            ("empty.png", "empty"),
            ("missing.png", "404"),
            ("huge.png", "larger"),
            ("endless.png", "larger"),
        ],
    )
    async def test_a_file_that_is_not_media_or_too_large_ends_the_job(
        self, call_harness: CallHarness, name: str, message: str
    ) -> None:
        assert message in await self.outcome_of(call_harness, f"{{files}}/{name}")

    @pytest.mark.parametrize(
        "address",
        ["http://169.254.169.254/latest/meta-data", "http://127.0.0.2:1/x.png", "http://10.0.0.1/x", "http://[::1]/x"],
    )
    async def test_a_url_in_a_private_network_is_never_fetched(self, call_harness: CallHarness, address: str) -> None:
        assert "must not be fetched" in await self.outcome_of(call_harness, address)
        assert "must not be fetched" in await self.outcome_of(call_harness, call_harness.replicate.redirect(address))

    async def test_one_invalid_file_of_several_discards_all_of_them(self, call_harness: CallHarness) -> None:
        await self.outcome_of(call_harness, ["{files}/picture.png", "{files}/page.png"])

    @pytest.mark.parametrize("name", ["flaky.png", "broken.png", "slow.png"])
    async def test_a_temporary_failure_of_a_download_is_retried(self, call_harness: CallHarness, name: str) -> None:
        call_harness.room.client._timeout_seconds = 0.3
        handed, prediction = await call_harness.waiting()
        await call_harness.call_back(handed, prediction.id, Scenario(output=f"{{files}}/{name}"))
        await call_harness.room.calls.tick(None)  # type: ignore[arg-type]
        await call_harness.room.calls.settled()
        row = await call_harness.row(handed)
        assert (row["work"], row["failures"]) == ("collect", 1)
        assert await call_harness.core.status(call_harness.ann, handed.job_id) == "processing"
        if name == "flaky.png":
            assert await call_harness.finished(handed) == "completed"

    async def test_a_file_that_cannot_be_fetched_in_time_ends_the_job(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_call_harness(core, ann, tmp_path, replicate, fetch_window_seconds=0) as call_harness:
            assert "in time" in await self.outcome_of(call_harness, "{files}/broken.png")

    async def test_a_slow_download_delays_no_other_job(self, call_harness: CallHarness) -> None:
        slow, first = await call_harness.waiting()
        quick, second = await call_harness.waiting()
        await call_harness.call_back(slow, first.id, Scenario(output="{files}/slow.png"))
        await call_harness.call_back(quick, second.id, IMAGE)
        await call_harness.room.calls.tick(None)  # type: ignore[arg-type]
        while await call_harness.core.status(call_harness.ann, quick.job_id) != "completed":
            await call_harness.room.calls.tick(None)  # type: ignore[arg-type]
        assert await call_harness.core.status(call_harness.ann, slow.job_id) == "processing"
        await call_harness.room.calls.stop()
        assert (await call_harness.row(slow))["next_at"] is not None


class TestFollowing:
    async def test_polling_completes_a_job_whose_callback_never_arrived(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.end(prediction.id, IMAGE)
        assert await call_harness.finished(handed) == "completed"
        assert await call_harness.lines(handed) == []
        await call_harness.core.check_drained()

    async def test_a_running_prediction_is_polled_at_growing_intervals(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        call_harness.replicate.progress(prediction.id, "  30%|███       | 2/4")
        assert await call_harness.finished(handed) == "processing"
        assert await call_harness.finished(handed) == "processing"
        row = await call_harness.row(handed)
        assert (row["work"], row["failures"]) == ("follow", 2)
        query = "SELECT percent FROM job_progress WHERE job_id = $1"
        assert (await call_harness.core.rows(call_harness.ann.pool, query, handed.job_id))[0]["percent"] == 30

    async def test_a_call_without_a_callback_expires_and_is_canceled_at_the_provider(
        self, call_harness: CallHarness
    ) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.core.expire_lease(handed.started.lease.dispatch_id)
        await call_harness.core.reap()
        assert await call_harness.finished(handed) == "expired"
        assert await call_harness.refunded(handed.job_id)
        assert call_harness.replicate.predictions[prediction.id]["status"] == "canceled"
        assert (await call_harness.row(handed))["work"] is None
        await call_harness.core.check_drained()

    async def test_a_canceled_job_is_canceled_at_the_provider_at_the_next_tick(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, handed.job_id, actor="user")
        await call_harness.work()
        assert call_harness.replicate.predictions[prediction.id]["status"] == "canceled"
        assert (await call_harness.row(handed))["work"] is None

    async def test_a_prediction_of_a_worker_that_died_is_found_and_canceled(self, call_harness: CallHarness) -> None:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        handed = await call_harness.new_call()
        prediction = await call_harness.call(handed)
        await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, handed.job_id, actor="user")
        await call_harness.core.expire_lease(handed.started.lease.dispatch_id)
        await call_harness.core.reap()
        await call_harness.work()
        assert call_harness.replicate.predictions[prediction.id]["status"] == "canceled"
        await call_harness.core.check_drained()

    async def test_a_job_canceled_between_hand_over_and_defer_is_canceled_at_the_provider(
        self, call_harness: CallHarness
    ) -> None:
        call_harness.replicate.scenario, call_harness.replicate.deliver = HELD, "never"
        handed = await call_harness.new_call()
        prediction = await call_harness.call(handed)
        await call_harness.core.room.cancellation.cancel(call_harness.ann.tenant_id, handed.job_id, actor="user")
        await call_harness.defer(handed, prediction.id)
        # No worker holds the job any more: the reaper's next round ends the wait.
        await call_harness.core.reap()
        assert await call_harness.finished(handed) == "canceled"
        assert call_harness.replicate.predictions[prediction.id]["status"] == "canceled"
        assert await call_harness.refunded(handed.job_id)
        await call_harness.core.check_drained()

    async def test_a_cancel_that_fails_is_retried_a_limited_number_of_times(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_call_harness(core, ann, tmp_path, replicate, breaker_failures=1000) as call_harness:
            handed, prediction = await call_harness.waiting()
            await core.room.cancellation.cancel(ann.tenant_id, handed.job_id, actor="user")
            replicate.refuse(1000, 503, calls="/cancel")
            for _ in range(13):
                await call_harness.finished(handed)
            row = await call_harness.row(handed)
            assert row["work"] is None
            assert row["last_error"].startswith("Not canceled")
            assert replicate.predictions[prediction.id]["status"] == "processing"

    async def test_a_job_that_its_worker_finished_is_not_canceled_at_the_provider(
        self, call_harness: CallHarness
    ) -> None:
        handed = await call_harness.new_call()
        await call_harness.core.room.leases.complete(report(handed.started), {"result": {}})
        assert await call_harness.finished(handed) == "completed"
        assert (await call_harness.row(handed))["work"] is None
        assert call_harness.replicate.calls == []


class TestSharing:
    async def test_two_control_planes_share_the_work_and_each_call_is_done_once(
        self, call_harness: CallHarness, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        other_core = open_core(call_harness.core.databases)
        other_core.workflow = call_harness.core.workflow
        calls = [await call_harness.waiting() for _ in range(4)]
        for handed, prediction in calls:
            await call_harness.call_back(handed, prediction.id, IMAGE)
        async with open_call_harness(other_core, call_harness.ann, tmp_path, replicate) as other:
            for each in (call_harness, other, call_harness, other):
                await each.room.calls.tick(None)  # type: ignore[arg-type]
            await call_harness.work()
            await other.work()
        for handed, _ in calls:
            assert await call_harness.core.status(call_harness.ann, handed.job_id) == "completed"
        assert replicate.downloads == {"picture.png": 4}
        assert await call_harness.core.balance(call_harness.ann) == 1000 - 4 * COST
        await call_harness.core.check_drained()

    async def test_a_callback_that_arrives_during_a_poll_is_not_lost(self, call_harness: CallHarness) -> None:
        handed, prediction = await call_harness.waiting()
        await call_harness.hurry()
        worklist = Worklist(call_harness.core.databases)
        [claimed] = await worklist.claim({("replicate", "follow"): 5})
        await call_harness.call_back(handed, prediction.id, IMAGE)
        await worklist.postpone(claimed, 300, counted=True)
        assert (await call_harness.row(handed))["work"] == "collect"
        await call_harness.work()
        assert await call_harness.core.status(call_harness.ann, handed.job_id) == "completed"

    async def test_a_process_that_lost_its_claim_cannot_postpone_the_call(self, call_harness: CallHarness) -> None:
        handed, _ = await call_harness.waiting()
        await call_harness.hurry()
        worklist = Worklist(call_harness.core.databases)
        room = {("replicate", "follow"): 5}
        [first] = await worklist.claim(room)  # type: ignore[arg-type]
        assert await worklist.claim(room) == []  # type: ignore[arg-type]
        await call_harness.hurry()
        [second] = await worklist.claim(room)  # type: ignore[arg-type]
        await worklist.postpone(first, 0, work="cancel")
        assert (await call_harness.row(handed))["work"] == "follow"
        await worklist.postpone(second, 0, work="cancel")
        assert (await call_harness.row(handed))["work"] == "cancel"
