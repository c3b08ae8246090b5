"""Jobs of a provider that calls back: the intent before the call, good and bad callbacks, and their outcomes."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from callsheet.jobs.outcomes import Failure
from callsheet.providers.media import Callback, Generation
from callsheet.webhooks.worklist import Worklist
from callsheet.wire.errors import LeaseLost
from callsheet.wire.worker import CallbackAddress
from tests.support.calls import COST, HELD, Booth, Handed, open_booth
from tests.support.core import FAR, Core, Member, open_core, report
from tests.support.replicate_files import content_of
from tests.support.replicate_server import ReplicateServer, Scenario, new_id

PICTURE = Scenario()
OTHER_SECRET = "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCBvZiAzMg=="


@pytest.fixture
async def booth(core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer) -> AsyncIterator[Booth]:
    async with open_booth(core, ann, tmp_path, replicate) as booth:
        yield booth


class TestStrays:
    """Submitted by a worker that was overtaken meanwhile, and says so too late."""

    async def overtaken(self, booth: Booth) -> Handed:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        handed = await booth.new_call()
        await booth.core.expire_lease(handed.started.lease.dispatch_id)
        await booth.core.reap()
        return handed

    async def say_too_late(self, booth: Booth, handed: Handed) -> str:
        prediction = await booth.provider.submit(Generation("txt2img", "a cat"), Callback(handed.callback.url, False))
        try:
            outcome = await booth.defer(handed, prediction.id)
            assert outcome.settled is None
        except LeaseLost:
            pass
        await booth.room.gate.record_stray(handed.started.lease.dispatch_id, prediction.id)
        return prediction.id

    async def test_it_is_canceled_while_the_other_one_goes_on(self, booth: Booth) -> None:
        first = await self.overtaken(booth)
        second = await booth.hand_over()
        kept = await booth.provider.submit(Generation("txt2img", "a cat"), Callback(second.callback.url, False))
        await booth.defer(second, kept.id)
        stray = await self.say_too_late(booth, first)
        await booth.work()
        states = {each: booth.replicate.predictions[each]["status"] for each in (kept.id, stray)}
        assert states == {kept.id: "processing", stray: "canceled"}
        await booth.call_back(second, kept.id, PICTURE)
        assert await booth.finished(second) == "completed"
        assert (await booth.row(second))["strays"] == []
        await booth.core.check_drained()

    async def test_it_waits_for_who_comes_next_to_say_which_one_it_found(self, booth: Booth) -> None:
        first = await self.overtaken(booth)
        second = await booth.hand_over()
        stray = await self.say_too_late(booth, first)
        await booth.work()
        # The second worker looks, and finds just that one.
        found = await booth.call(second)
        assert found.id == stray
        await booth.defer(second, found.id)
        await booth.work()
        assert booth.replicate.predictions[stray]["status"] == "processing"
        await booth.call_back(second, stray, PICTURE)
        assert await booth.finished(second) == "completed"

    @pytest.mark.parametrize("end", ["completed", "canceled"])
    async def test_one_of_a_job_that_has_ended_is_canceled_too(self, booth: Booth, end: str) -> None:
        first = await self.overtaken(booth)
        second = await booth.hand_over()
        kept = await booth.provider.submit(Generation("txt2img", "a cat"), Callback(second.callback.url, False))
        await booth.defer(second, kept.id)
        if end == "completed":
            await booth.call_back(second, kept.id, PICTURE)
        else:
            await booth.core.room.cancellation.cancel(booth.ann.tenant_id, first.job_id, actor="user")
        assert await booth.finished(second) == end
        stray = await self.say_too_late(booth, first)
        await booth.work()
        assert booth.replicate.predictions[stray]["status"] == "canceled"
        row = await booth.row(second)
        assert (row["work"], row["strays"], row["ended_at"] is None) == (None, [], False)

    async def test_a_report_that_is_repeated_is_none(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.room.gate.record_stray(handed.started.lease.dispatch_id, prediction.id)
        await booth.work()
        assert booth.replicate.predictions[prediction.id]["status"] == "processing"
        assert (await booth.row(handed))["strays"] == []

    async def test_g6_a_worker_cannot_have_another_tenants_prediction_canceled(self, booth: Booth) -> None:
        """The worker that sends this has no lease: it can send any number and any id."""
        bob = replace(booth, ann=await booth.core.member("pool_2"))
        booth.replicate.deliver = "never"
        others, theirs = await bob.waiting()
        handed, _ = await booth.waiting()
        await booth.room.gate.record_stray(handed.started.lease.dispatch_id, theirs.id)
        await booth.work()
        assert booth.replicate.predictions[theirs.id]["status"] == "processing"
        assert (await booth.row(handed))["strays"] == []
        await bob.call_back(others, theirs.id, PICTURE)
        assert await bob.finished(others) == "completed"

    async def test_only_so_many_are_remembered(self, booth: Booth) -> None:
        handed, _ = await booth.waiting()
        for number in range(12):
            await booth.room.gate.record_stray(handed.started.lease.dispatch_id, f"stray-{number}")
        assert len((await booth.row(handed))["strays"]) == 8


class TestForgetting:
    async def test_calls_that_ended_long_ago_are_forgotten_with_their_callbacks_and_no_others(
        self, booth: Booth
    ) -> None:
        ended, prediction = await booth.waiting()
        await booth.call_back(ended, prediction.id, PICTURE)
        assert await booth.finished(ended) == "completed"
        recent, other = await booth.waiting()
        await booth.call_back(recent, other.id, PICTURE)
        assert await booth.finished(recent) == "completed"
        open_one, _ = await booth.waiting()
        long_ago = """UPDATE provider_calls SET created_at = created_at - interval '91 days',
                      ended_at = ended_at - interval '91 days' WHERE job_id = ANY ($1)"""
        central = booth.core.databases.central
        await booth.core.rows(central, long_ago, [ended.job_id, open_one.job_id])
        await booth.room.sweeper.tick(datetime.now(UTC))
        left = {row["job_id"] for row in await booth.core.rows(central, "SELECT job_id FROM provider_calls")}
        assert left >= {recent.job_id, open_one.job_id}
        assert ended.job_id not in left
        assert (await booth.lines(ended), len(await booth.lines(recent))) == ([], 1)
        # The job and what was made stay for ever; a word that comes now is about nothing we know.
        assert await booth.core.status(booth.ann, ended.job_id) == "completed"
        assert len(await booth.files(ended.job_id)) == 1
        assert await booth.refused(ended, prediction.id) == "not_found"


class TestIntent:
    async def test_is_written_before_anybody_can_call_and_keeps_no_address(self, booth: Booth) -> None:
        handed = await booth.new_call()
        row = await booth.row(handed)
        assert (row["hand_overs"], row["work"], row["charge_cycle"]) == (1, "follow", 1)
        assert row["callback_hash"] == sha256(handed.callback_id.encode()).digest()
        assert handed.callback_id not in str(row)
        assert not handed.callback.may_exist

    async def test_of_a_second_attempt_says_that_the_provider_may_know_it(self, booth: Booth) -> None:
        first = await booth.new_call()
        await booth.core.expire_lease(first.started.lease.dispatch_id)
        await booth.core.reap()
        second = await booth.hand_over()
        assert second.callback == CallbackAddress(url=first.callback.url, may_exist=True)
        assert (await booth.row(second))["hand_overs"] == 2

    async def test_what_was_submitted_before_a_crash_is_found_and_not_paid_twice(self, booth: Booth) -> None:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        first = await booth.new_call()
        submitted = await booth.call(first)
        await booth.core.expire_lease(first.started.lease.dispatch_id)
        await booth.core.reap()
        second = await booth.hand_over()
        assert (await booth.call(second)).id == submitted.id
        assert len(booth.replicate.submitted) == 1

    async def test_a_call_that_fails_is_tried_three_times_and_then_given_back(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_booth(core, ann, tmp_path, replicate, breaker_failures=100) as booth:
            job_id = await booth.submit()
            for status in ("queued", "queued", "failed"):
                assert (await booth.fail(await booth.hand_over())).status == status
                await core.room.queue.promote(datetime.now(UTC) + FAR)
            assert await booth.refunded(job_id)
            await core.check_drained()

    async def test_a_provider_that_says_when_is_not_called_before(self, booth: Booth) -> None:
        handed = await booth.new_call()
        busy = Failure("provider_unavailable", "Busy.", {"retry_after_seconds": 120}, retryable=True)
        assert (await booth.core.room.lease_reports.fail(report(handed.started), busy)).status == "queued"
        dispatch = await booth.core.dispatch(handed.job_id)
        assert dispatch is not None
        assert dispatch["not_before"] - dispatch["last_leased_at"] >= timedelta(seconds=120)

    async def test_every_charge_cycle_has_an_address_of_its_own(self, booth: Booth) -> None:
        first, prediction = await booth.waiting()
        await booth.call_back(first, prediction.id, Scenario(outcome="failed"))
        assert await booth.finished(first) == "failed"
        await booth.core.room.retries.retry(booth.ann.tenant_id, first.job_id, actor="user")
        second = await booth.hand_over()
        assert second.callback.url != first.callback.url
        assert not second.callback.may_exist
        # The first cycle's callback once more: it is about a prediction that no job waits for.
        await booth.call_back(first, prediction.id, message_id="msg_again")
        assert await booth.finished(second) == "processing"
        assert await booth.lines(first) == [("failed", "taken", 1), ("failed", "late", 1)]
        await booth.core.check()


class TestCallbacks:
    async def test_a_callback_completes_the_job_with_what_was_made(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, PICTURE)
        assert await booth.finished(handed) == "completed"
        [file] = await booth.files(handed.job_id)
        content = content_of("picture.png")
        assert (file["name"], file["mime_type"], file["size"]) == ("output.png", "image/png", len(content))
        assert file["sha256"] == sha256(content).hexdigest()
        assert await booth.storage.read(file["path"], len(content)) == content
        assert await booth.objects() == {file["path"]}
        job = await booth.core.job(booth.ann, handed.job_id)
        assert job["result"]["metadata"] == {"provider": "replicate", "provider_job_id": prediction.id}
        assert await booth.consumed(handed.job_id)
        row = await booth.row(handed)
        assert row["work"] is None
        assert "outputs" not in row["prediction"]
        await booth.core.check_drained()

    async def test_several_files_and_words_come_together(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        made = {"film": "{files}/film.mp4", "sound": "{files}/sound.wav", "caption": "a cat on a roof"}
        await booth.call_back(handed, prediction.id, Scenario(output=made))
        assert await booth.finished(handed) == "completed"
        files = await booth.files(handed.job_id)
        assert [file["mime_type"] for file in files] == ["video/mp4", "audio/wav"]
        job = await booth.core.job(booth.ann, handed.job_id)
        assert "a cat on a roof" in job["result"]["result"]["text"]

    async def test_words_alone_are_a_result(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, Scenario(output=["a ", "cat"]))
        assert await booth.finished(handed) == "completed"
        job = await booth.core.job(booth.ann, handed.job_id)
        assert job["result"]["result"] == {"text": "a cat"}
        assert job["result"]["outputs"] == []

    async def test_one_that_comes_before_the_worker_said_so_is_kept_and_used_after(self, booth: Booth) -> None:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        handed = await booth.new_call()
        prediction = await booth.call(handed)
        await booth.call_back(handed, prediction.id, PICTURE)
        assert await booth.finished(handed) == "processing"
        await booth.defer(handed, prediction.id)
        await booth.work()
        assert await booth.core.status(booth.ann, handed.job_id) == "completed"

    async def test_one_of_another_prediction_that_came_first_is_forgotten(self, booth: Booth) -> None:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        handed = await booth.new_call()
        early, prediction = await booth.call(handed), await booth.call(handed)
        await booth.call_back(handed, early.id, PICTURE)
        await booth.defer(handed, prediction.id)
        booth.replicate.end(prediction.id, PICTURE)
        assert await booth.finished(handed) == "completed"
        job = await booth.core.job(booth.ann, handed.job_id)
        assert job["result"]["metadata"]["provider_job_id"] == prediction.id

    async def test_the_same_delivery_twice_counts_once(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, PICTURE)
        await booth.call_back(handed, prediction.id)
        assert await booth.finished(handed) == "completed"
        await booth.call_back(handed, prediction.id)
        assert await booth.finished(handed) == "completed"
        assert await booth.lines(handed) == [("succeeded", "taken", 3)]
        assert booth.replicate.downloads == {"picture.png": 1}
        await booth.core.check_drained()

    async def test_an_earlier_word_that_comes_late_changes_nothing(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, PICTURE)
        started = {**booth.replicate.predictions[prediction.id], "status": "processing", "output": None}
        await booth.call_back(handed, prediction.id, body=started, message_id="msg_start")
        assert await booth.finished(handed) == "completed"

    async def test_an_intermediate_one_is_the_jobs_progress(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.progress(prediction.id, "  50%|█████     | 2/4")
        await booth.call_back(handed, prediction.id)
        query = "SELECT percent FROM job_progress WHERE job_id = $1"
        assert (await booth.core.rows(booth.ann.pool, query, handed.job_id))[0]["percent"] == 50
        assert await booth.lines(handed) == []

    @pytest.mark.parametrize(
        ("outcome", "error", "error_type"),
        [
            ("failed", "CUDA out of memory at /src/model.py with r8_0123456789abcdef0123", "provider_failed"),
            ("canceled", None, "provider_canceled"),
            ("aborted", None, "provider_failed"),
        ],
    )
    async def test_one_that_did_not_succeed_ends_the_job_and_gives_the_tokens_back(
        self, booth: Booth, outcome: str, error: str | None, error_type: str
    ) -> None:
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, Scenario(outcome=outcome, error=error))  # type: ignore[arg-type]
        assert await booth.finished(handed) == "failed"
        job = await booth.core.job(booth.ann, handed.job_id)
        assert job["error"]["type"] == error_type
        assert "/root" not in job["error"]["message"]
        assert "r8_0" not in job["error"]["message"]
        assert await booth.refunded(handed.job_id)
        await booth.core.check_drained()

    async def test_one_for_a_job_that_was_canceled_is_kept_and_changes_nothing(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.core.room.cancellation.cancel(booth.ann.tenant_id, handed.job_id, actor="user")
        await booth.call_back(handed, prediction.id, PICTURE)
        assert await booth.finished(handed) == "canceled"
        assert await booth.refunded(handed.job_id)
        assert await booth.objects() == set()
        assert (await booth.row(handed))["work"] is None
        await booth.core.check_drained()


class TestRefusals:
    async def refused_and_then_taken(self, booth: Booth, handed: Handed, prediction_id: str, **options: object) -> None:
        assert await booth.refused(handed, prediction_id, **options) == "not_found"
        await booth.work()
        assert await booth.core.status(booth.ann, handed.job_id) == "processing"
        await booth.call_back(handed, prediction_id)
        assert await booth.finished(handed) == "completed"
        await booth.core.check_drained()

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
    async def test_what_is_not_the_providers_or_too_old_is_refused_and_noted(
        self, booth: Booth, options: dict[str, object], reason: str, logged: io.StringIO
    ) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.end(prediction.id, PICTURE)
        await self.refused_and_then_taken(booth, handed, prediction.id, **options)
        row = await booth.row(handed)
        assert row["refused_callbacks"] == 1
        assert reason in row["last_refusal"]
        assert "webhook.refused" in logged.getvalue()
        assert handed.callback_id not in logged.getvalue()

    async def test_one_about_another_prediction_is_refused(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.end(prediction.id, PICTURE)
        other = {**booth.replicate.predictions[prediction.id], "id": new_id()}
        await self.refused_and_then_taken(booth, handed, prediction.id, body=other)

    async def test_one_that_belongs_to_another_tenants_job_is_refused(self, booth: Booth) -> None:
        """Signed by the provider, but sent to the URL of another user's job."""
        handed, prediction = await booth.waiting()
        bob = replace(booth, ann=await booth.core.member("pool_2"))
        others, their_prediction = await bob.waiting()
        booth.replicate.end(their_prediction.id, PICTURE)
        booth.replicate.end(prediction.id, PICTURE)
        assert await booth.refused(handed, their_prediction.id) == "not_found"
        assert await booth.refused(handed, prediction.id, callback_id=others.callback_id) == "not_found"
        await booth.work()
        assert await booth.core.status(booth.ann, handed.job_id) == "processing"
        assert await bob.core.status(bob.ann, others.job_id) == "processing"
        assert await booth.finished(handed) == "completed"
        assert await bob.finished(others) == "completed"
        await booth.core.check_drained()

    @pytest.mark.few_forms
    @pytest.mark.parametrize("callback_id", ["A" * 43, "A" * 42, "", "../../x", "A" * 5000, "é" * 43, "'; --"])
    async def test_an_id_that_is_not_known_is_refused(self, booth: Booth, callback_id: str) -> None:
        handed, prediction = await booth.waiting()
        unknown = replace(handed, callback=CallbackAddress(url=f"/{callback_id}".replace("../", ""), may_exist=False))
        assert await booth.refused(unknown, prediction.id) == "not_found"

    @pytest.mark.parametrize("provider", ["described", "nobody", "", "replicate\0"])
    async def test_another_providers_address_is_refused(self, booth: Booth, provider: str) -> None:
        handed, prediction = await booth.waiting()
        assert await booth.refused(handed, prediction.id, provider=provider) == "not_found"

    async def test_one_that_cannot_be_verified_now_is_asked_to_come_again(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.end(prediction.id, PICTURE)
        booth.replicate.refuse(1, 503, calls="webhooks/default/secret")
        with pytest.raises(Exception, match="cannot be verified now"):
            await booth.call_back(handed, prediction.id)
        await booth.call_back(handed, prediction.id)
        assert await booth.finished(handed) == "completed"


class TestOutputs:
    async def outcome_of(self, booth: Booth, output: object) -> str:
        """How a job ends that got this, and that nothing is left of it."""
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, Scenario(output=output))
        assert await booth.finished(handed) == "failed"
        job = await booth.core.job(booth.ann, handed.job_id)
        assert job["error"]["type"] == "output_unusable"
        assert "http" not in job["error"]["message"]
        assert await booth.refunded(handed.job_id)
        assert await booth.objects() == set()
        await booth.core.check_drained()
        return str(job["error"]["message"])

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
    async def test_what_is_no_medium_or_too_large_ends_the_job(self, booth: Booth, name: str, message: str) -> None:
        assert message in await self.outcome_of(booth, f"{{files}}/{name}")

    @pytest.mark.parametrize(
        "address",
        ["http://169.254.169.254/latest/meta-data", "http://127.0.0.2:1/x.png", "http://10.0.0.1/x", "http://[::1]/x"],
    )
    async def test_an_address_in_a_private_network_is_never_fetched(self, booth: Booth, address: str) -> None:
        assert "must not be fetched" in await self.outcome_of(booth, address)
        assert "must not be fetched" in await self.outcome_of(booth, booth.replicate.redirect(address))

    async def test_of_several_files_none_is_kept_where_one_is_bad(self, booth: Booth) -> None:
        await self.outcome_of(booth, ["{files}/picture.png", "{files}/page.png"])

    @pytest.mark.parametrize("name", ["flaky.png", "broken.png", "slow.png"])
    async def test_what_fails_for_a_moment_is_fetched_again(self, booth: Booth, name: str) -> None:
        booth.room.client._timeout_seconds = 0.3
        handed, prediction = await booth.waiting()
        await booth.call_back(handed, prediction.id, Scenario(output=f"{{files}}/{name}"))
        await booth.room.calls.tick(None)  # type: ignore[arg-type]
        await booth.room.calls.settled()
        row = await booth.row(handed)
        assert (row["work"], row["failures"]) == ("collect", 1)
        assert await booth.core.status(booth.ann, handed.job_id) == "processing"
        if name == "flaky.png":
            assert await booth.finished(handed) == "completed"

    async def test_what_cannot_be_fetched_within_the_window_ends_the_job(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_booth(core, ann, tmp_path, replicate, fetch_window_seconds=0) as booth:
            assert "in time" in await self.outcome_of(booth, "{files}/broken.png")

    async def test_a_slow_one_holds_up_nobody_else(self, booth: Booth) -> None:
        slow, first = await booth.waiting()
        quick, second = await booth.waiting()
        await booth.call_back(slow, first.id, Scenario(output="{files}/slow.png"))
        await booth.call_back(quick, second.id, PICTURE)
        await booth.room.calls.tick(None)  # type: ignore[arg-type]
        while await booth.core.status(booth.ann, quick.job_id) != "completed":
            await booth.room.calls.tick(None)  # type: ignore[arg-type]
        assert await booth.core.status(booth.ann, slow.job_id) == "processing"
        await booth.room.calls.stop()
        assert (await booth.row(slow))["next_at"] is not None


class TestFollowing:
    async def test_a_callback_that_never_came_is_found_by_asking(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.end(prediction.id, PICTURE)
        assert await booth.finished(handed) == "completed"
        assert await booth.lines(handed) == []
        await booth.core.check_drained()

    async def test_who_is_still_at_it_is_asked_later_and_later(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        booth.replicate.progress(prediction.id, "  30%|███       | 2/4")
        assert await booth.finished(handed) == "processing"
        assert await booth.finished(handed) == "processing"
        row = await booth.row(handed)
        assert (row["work"], row["failures"]) == ("follow", 2)
        query = "SELECT percent FROM job_progress WHERE job_id = $1"
        assert (await booth.core.rows(booth.ann.pool, query, handed.job_id))[0]["percent"] == 30

    async def test_what_nobody_called_about_expires_and_is_canceled_there(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.core.expire_lease(handed.started.lease.dispatch_id)
        await booth.core.reap()
        assert await booth.finished(handed) == "expired"
        assert await booth.refunded(handed.job_id)
        assert booth.replicate.predictions[prediction.id]["status"] == "canceled"
        assert (await booth.row(handed))["work"] is None
        await booth.core.check_drained()

    async def test_a_canceled_job_is_canceled_at_the_provider_at_the_next_tick(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.core.room.cancellation.cancel(booth.ann.tenant_id, handed.job_id, actor="user")
        await booth.work()
        assert booth.replicate.predictions[prediction.id]["status"] == "canceled"
        assert (await booth.row(handed))["work"] is None

    async def test_what_was_submitted_by_a_worker_that_died_is_found_and_canceled(self, booth: Booth) -> None:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        handed = await booth.new_call()
        prediction = await booth.call(handed)
        await booth.core.room.cancellation.cancel(booth.ann.tenant_id, handed.job_id, actor="user")
        await booth.core.expire_lease(handed.started.lease.dispatch_id)
        await booth.core.reap()
        await booth.work()
        assert booth.replicate.predictions[prediction.id]["status"] == "canceled"
        await booth.core.check_drained()

    async def test_a_job_canceled_between_hand_over_and_defer_is_canceled_at_the_provider(self, booth: Booth) -> None:
        booth.replicate.scenario, booth.replicate.deliver = HELD, "never"
        handed = await booth.new_call()
        prediction = await booth.call(handed)
        await booth.core.room.cancellation.cancel(booth.ann.tenant_id, handed.job_id, actor="user")
        await booth.defer(handed, prediction.id)
        # No worker holds the job any more: the reaper's next round ends the wait.
        await booth.core.reap()
        assert await booth.finished(handed) == "canceled"
        assert booth.replicate.predictions[prediction.id]["status"] == "canceled"
        assert await booth.refunded(handed.job_id)
        await booth.core.check_drained()

    async def test_a_cancel_that_fails_is_tried_again_and_comes_to_an_end(
        self, core: Core, ann: Member, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        async with open_booth(core, ann, tmp_path, replicate, breaker_failures=1000) as booth:
            handed, prediction = await booth.waiting()
            await core.room.cancellation.cancel(ann.tenant_id, handed.job_id, actor="user")
            replicate.refuse(1000, 503, calls="/cancel")
            for _ in range(13):
                await booth.finished(handed)
            row = await booth.row(handed)
            assert row["work"] is None
            assert row["last_error"].startswith("Not canceled")
            assert replicate.predictions[prediction.id]["status"] == "processing"

    async def test_a_job_its_worker_finished_by_itself_is_not_canceled(self, booth: Booth) -> None:
        handed = await booth.new_call()
        await booth.core.room.lease_reports.complete(report(handed.started), {"result": {}})
        assert await booth.finished(handed) == "completed"
        assert (await booth.row(handed))["work"] is None
        assert booth.replicate.calls == []


class TestSharing:
    async def test_two_control_planes_share_the_work_and_each_call_is_done_once(
        self, booth: Booth, tmp_path: Path, replicate: ReplicateServer
    ) -> None:
        other_core = open_core(booth.core.databases)
        other_core.workflow = booth.core.workflow
        calls = [await booth.waiting() for _ in range(4)]
        for handed, prediction in calls:
            await booth.call_back(handed, prediction.id, PICTURE)
        async with open_booth(other_core, booth.ann, tmp_path, replicate) as other:
            for each in (booth, other, booth, other):
                await each.room.calls.tick(None)  # type: ignore[arg-type]
            await booth.work()
            await other.work()
        for handed, _ in calls:
            assert await booth.core.status(booth.ann, handed.job_id) == "completed"
        assert replicate.downloads == {"picture.png": 4}
        assert await booth.core.balance(booth.ann) == 1000 - 4 * COST
        await booth.core.check_drained()

    async def test_a_callback_that_comes_while_the_provider_is_asked_is_not_lost(self, booth: Booth) -> None:
        handed, prediction = await booth.waiting()
        await booth.hurry()
        worklist = Worklist(booth.core.databases)
        [asking] = await worklist.claim({("replicate", "follow"): 5})
        await booth.call_back(handed, prediction.id, PICTURE)
        await worklist.postpone(asking, 300, counted=True)
        assert (await booth.row(handed))["work"] == "collect"
        await booth.work()
        assert await booth.core.status(booth.ann, handed.job_id) == "completed"

    async def test_who_lost_its_claim_cannot_put_the_call_off(self, booth: Booth) -> None:
        handed, _ = await booth.waiting()
        await booth.hurry()
        worklist = Worklist(booth.core.databases)
        room = {("replicate", "follow"): 5}
        [first] = await worklist.claim(room)  # type: ignore[arg-type]
        assert await worklist.claim(room) == []  # type: ignore[arg-type]
        await booth.hurry()
        [second] = await worklist.claim(room)  # type: ignore[arg-type]
        await worklist.postpone(first, 0, work="cancel")
        assert (await booth.row(handed))["work"] == "follow"
        await worklist.postpone(second, 0, work="cancel")
        assert (await booth.row(handed))["work"] == "cancel"
