"""Canceling, retrying and deleting several jobs at once, and their outputs as a zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import Failure
from callsheet.toolbox.ids import uuid7
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import report


@pytest.fixture
async def ann(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    async with MediaApi.opened(plane) as media_api:
        yield media_api


async def act(person: MediaApi, action: str, *job_ids: object) -> list[dict[str, Any]]:
    response = await person.ask("POST", f"/api/library/{action}", {"job_ids": [str(each) for each in job_ids]})
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def made(ann: MediaApi, *outputs: bytes) -> str:
    """A job that has completed with these."""
    job = await ann.jobs_api.submit(ann.person)
    await ann.complete(await ann.jobs_api.start(), *outputs)
    return str(job["id"])


async def failed(ann: MediaApi, cost: int = 10) -> str:
    job = await ann.jobs_api.submit(ann.person, cost=cost)
    started = await ann.jobs_api.start()
    await ann.jobs_api.core.room.leases.fail(report(started), Failure("broken", "It broke."))
    return str(job["id"])


async def balance(ann: MediaApi) -> int:
    return int((await ann.ask("GET", "/api/wallet")).json()["balance"])


async def test_the_response_has_an_outcome_per_job_and_a_repeat_changes_nothing(ann: MediaApi) -> None:
    done, before = await made(ann), await balance(ann)
    waiting, nobodys = (await ann.jobs_api.submit(ann.person))["id"], str(uuid7())
    colleague = await ann.colleague()
    others = (await ann.jobs_api.submit(colleague.person, cost=0))["id"]
    first = await act(ann, "cancel", waiting, done, waiting, nobodys, others)
    assert [(item["job_id"], item["outcome"], item["status"], item["code"]) for item in first] == [
        (waiting, "done", "canceled", None),
        (done, "refused", None, "invalid_transition"),
        (nobodys, "refused", None, "not_found"),
        (others, "refused", None, "not_found"),
    ]
    assert await balance(ann) == before
    again = await act(ann, "cancel", waiting)
    assert [(item["outcome"], item["status"]) for item in again] == [("unchanged", "canceled")]
    assert await balance(ann) == before
    assert (await colleague.ask("GET", f"/api/ai-jobs/{others}")).json()["status"] == "queued"


async def test_a_retry_of_several_jobs_reserves_each_once_until_the_tokens_run_out(ann: MediaApi) -> None:
    dear, cheap = await failed(ann, 990), await failed(ann, 20)
    first = await act(ann, "retry", dear, cheap)
    assert [(item["outcome"], item["code"]) for item in first] == [("done", None), ("refused", "insufficient_tokens")]
    again = await act(ann, "retry", dear)
    assert [(item["outcome"], item["status"]) for item in again] == [("unchanged", "queued")]
    assert await balance(ann) == 10


async def test_g5_a_repeated_retry_of_several_jobs_reserves_no_tokens_again(ann: MediaApi) -> None:
    jobs = [await failed(ann), await failed(ann)]
    other = await failed(ann)
    headers = ann.person.headers | {"Idempotency-Key": "again-1"}

    async def retry(*job_ids: str) -> list[tuple[str, str]]:
        body = {"job_ids": list(job_ids)}
        response = await ann.jobs_api.client.post("/api/library/retry", json=body, headers=headers)
        assert response.status_code == 200, response.text
        return [(item["job_id"], item["outcome"]) for item in response.json()["items"]]

    async def fail_again() -> None:
        await ann.jobs_api.core.room.leases.fail(report(await ann.jobs_api.start()), Failure("broken", "It broke."))

    async def lose_the_response() -> None:
        """The process died before it kept the response of the request."""
        async with ann.jobs_api.core.databases.central.connection() as connection:
            await connection.execute("DELETE FROM kept_responses WHERE caller_id = $1", ann.person.user.id)

    # The process died after the first job: the repeated request retries only the second one.
    await retry(jobs[0])
    await fail_again()
    await lose_the_response()
    before = await balance(ann)
    await retry(*jobs)
    assert await balance(ann) == before - 10
    # Both have failed again. Neither the kept response nor the request itself reserves anything.
    await fail_again()
    for _ in range(2):
        assert await retry(*jobs) == [(job_id, "done") for job_id in jobs]
        assert await balance(ann) == before
        await lose_the_response()
    # A request with a new key is a new retry.
    headers["Idempotency-Key"] = "again-2"
    await retry(*jobs, other)
    assert await balance(ann) == before - 30


async def test_deleting_a_job_hides_it_and_deletes_its_files_and_search_words(ann: MediaApi) -> None:
    job_id = await made(ann, CLIP, CLIP + b"second")
    balance_before = await balance(ann)
    assert len(await ann.paths()) == 2
    assert [item["outcome"] for item in await act(ann, "delete", job_id)] == ["done"]
    for path in ("ai-jobs/{}", "library/jobs/{}", "ai-jobs/{}/events"):
        assert_refused(await ann.ask("GET", "/api/" + path.format(job_id)), 404, "not_found")
    assert (await ann.ask("GET", "/api/library/jobs")).json()["items"] == []
    assert (await ann.ask("GET", "/api/ai-jobs")).json()["items"] == []
    assert await ann.paths() == set()
    [row] = await ann.jobs_api.core.rows(ann.pool, "SELECT * FROM ai_jobs WHERE tenant_id = $1", ann.tenant_id)
    assert (row["payload"], row["result"], row["status"]) == ({}, None, "completed")
    # Money and its lines stay.
    assert await balance(ann) == balance_before
    lines = (await ann.ask("GET", "/api/wallet/transactions")).json()["items"]
    assert [line["type"] for line in lines if line["job_id"] == job_id] == ["JOB_CONSUME", "JOB_RESERVE"]
    assert [item["outcome"] for item in await act(ann, "delete", job_id)] == ["unchanged"]
    assert (await ann.ask("DELETE", f"/api/ai-jobs/{job_id}")).status_code == 204
    assert [item["code"] for item in await act(ann, "retry", job_id)] == ["not_found"]


async def test_a_job_that_has_not_ended_is_not_deleted(ann: MediaApi) -> None:
    job = await ann.jobs_api.submit(ann.person)
    [item] = await act(ann, "delete", job["id"])
    assert (item["outcome"], item["code"]) == ("refused", "wrong_state")
    assert_refused(await ann.ask("DELETE", f"/api/ai-jobs/{job['id']}"), 409, "wrong_state")
    assert (await ann.ask("GET", f"/api/ai-jobs/{job['id']}")).status_code == 200


async def test_a_file_that_a_video_shows_stays_when_its_job_is_deleted(ann: MediaApi) -> None:
    video = await ann.video()
    [output] = await ann.run(video, CLIP + b"made")
    job_id = (await ann.get_video(video))["job_id"]
    assert (await ann.ask("DELETE", f"/api/ai-jobs/{job_id}")).status_code == 204
    shown = await ann.get_video(video)
    assert (shown["status"], shown["processed_file_id"]) == ("completed", str(output.file_id))
    assert (await ann.jobs_api.client.get(shown["processed_file_url"])).content == CLIP + b"made"


async def test_a_file_that_an_active_job_reads_is_not_deleted(ann: MediaApi) -> None:
    job_id = await made(ann, CLIP)
    [file] = [row for row in await ann.file_rows() if row["purpose"] == "output"]
    await ann.jobs_api.core.submit(ann.member, input_file_ids=(file["id"],))
    [item] = await act(ann, "delete", job_id)
    assert (item["outcome"], item["code"]) == ("refused", "in_use")
    assert (await ann.ask("GET", f"/api/ai-jobs/{job_id}")).json()["status"] == "completed"


async def test_results_of_several_jobs_come_as_one_zip(ann: MediaApi) -> None:
    first, second = await made(ann, CLIP, CLIP + b"second"), await made(ann, CLIP + b"third")
    unfinished = (await ann.jobs_api.submit(ann.person))["id"]
    response = await ann.ask("GET", f"/api/library/download?job_id={second}&job_id={first}&job_id={unfinished}")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/zip")
    assert response.headers["cache-control"] == "no-store"
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert [archive.read(name) for name in names] == [CLIP + b"third", CLIP, CLIP + b"second"]
    assert len(set(names)) == 3
    assert all(name.endswith(".mp4") and "/" not in name for name in names)
    stranger = await ann.stranger("pool_2")
    assert_refused(await stranger.ask("GET", f"/api/library/download?job_id={first}"), 404, "not_found")


@pytest.mark.parametrize("count", [0, 101])
async def test_a_request_names_one_to_a_hundred_jobs(ann: MediaApi, count: int) -> None:
    ids = [str(uuid7()) for _ in range(count)]
    for action in ("cancel", "retry", "delete"):
        response = await ann.ask("POST", f"/api/library/{action}", {"job_ids": ids})
        assert_refused(response, 422, "invalid_request", "job_ids")
    response = await ann.ask("GET", "/api/library/download?" + "&".join(f"job_id={each}" for each in ids))
    assert_refused(response, 422, "invalid_request", "query.job_id")
