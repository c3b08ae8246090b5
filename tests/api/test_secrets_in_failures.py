"""A worker's failure is full of secrets: none of them is left anywhere a person or a program can read it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.database.database import Database
from callsheet.toolbox.logs import configure_logs, get_logger
from tests.support.http.event_stream import opened
from tests.support.http.worker_harness import WorkerHarness, open_worker_harness
from tests.support.secret_texts import SECRETS

# A private key that was cut off is masked to the end of the text, so it comes last.
ALL = "\n".join(sorted((text for text, _ in SECRETS.values()), key=lambda text: "PRIVATE KEY" in text))
DETAILS: dict[str, Any] = {
    "texts": [text for text, _ in SECRETS.values()],
    "by_name": {name: text for name, (text, _) in SECRETS.items()},
    "environment": {"AWS_SECRET_ACCESS_KEY": "hunter2secret", "HF_TOKEN": "hunter2secret", "STEPS": 20},
    "headers": [["Authorization", "hunter2secret"], ["Accept", "*/*"]],
}


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    configure_logs()


def left_in(text: str) -> list[str]:
    """The secrets that this text shows, either verbatim or as JSON escapes them."""
    return [name for name, (_, secret) in SECRETS.items() if secret in text or json.dumps(secret)[1:-1] in text]


async def rows_of(database: Database) -> str:
    """Everything a database holds, as text."""
    async with database.connection() as connection:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        found = [await connection.fetch(f"SELECT t::text AS line FROM {table['name']} t") for table in tables]
    return "\n".join(row["line"] for rows in found for row in rows)


async def everything_kept(plane: ControlPlane) -> str:
    return "\n".join([await rows_of(database) for database in (plane.databases.central, *plane.databases.pools)])


@pytest.mark.parametrize("retryable", [False, True])
async def test_secrets_in_a_failure_are_stored_nowhere(
    strict_plane: ControlPlane, logged: io.StringIO, retryable: bool
) -> None:
    async with open_worker_harness(strict_plane) as worker_harness:
        worker = await worker_harness.worker()
        person = await worker_harness.jobs_api.person(tokens=10)
        job_id = (await worker_harness.engine_job(person))["id"]
        seen: list[str] = []
        job = await worker.job()
        assert (await worker.requeue(job, f"the machine stops: {ALL}")).status_code == 200
        job = await worker.job()
        for text, _ in list(SECRETS.values())[::9]:
            assert (await worker.heartbeat(job, progress={"percent": 1.0, "message": text})).status_code == 200
            seen.append(json.dumps(await worker_harness.shown(person, job_id)))
        error = {"type": "RuntimeError", "message": ALL, "details": DETAILS, "traceback": ALL, "retryable": retryable}
        assert (await worker.fail(job, f"Node 4 failed: {ALL}", error=error)).status_code == 200
        get_logger("test").warning("engine.failed", reason=ALL, **DETAILS)

        seen.append(json.dumps(await worker_harness.shown(person, job_id)))
        seen.append((await worker_harness.jobs_api.get(person, f"/api/ai-jobs/{job_id}/events")).text)
        async with opened(worker_harness.client, person, f"/api/ai-jobs/{job_id}/stream") as stream:
            events = await stream.next(3)
            assert events
            seen.append(json.dumps([event.data for event in events]))
        admin = worker_harness.jobs_api.admin
        for path in (
            f"tenants/{person.tenant.id}/jobs/{job_id}",
            f"dispatches/{job['dispatch_id']}",
            f"workers/{worker.worker_id}",
            f"worker-audit-logs?worker_id={worker.worker_id}",
        ):
            response = await worker_harness.jobs_api.get(admin, f"/api/admin/{path}")
            assert response.status_code == 200, response.text
            seen.append(response.text)
        error_kept = (await worker_harness.row(person, job_id))["error"]
        kept = await everything_kept(strict_plane)
    assert str(job_id) in kept
    assert retryable or error_kept["type"] == "RuntimeError"
    assert "engine.failed" in logged.getvalue()
    assert [left_in(text) for text in seen] == [[]] * len(seen)
    assert left_in(kept) == []
    assert left_in(logged.getvalue()) == []


async def test_details_without_secrets_are_kept_for_admins(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    job_id = (await worker_harness.engine_job(person))["id"]
    job = await worker.job()
    details = {"node_id": "4", "status": 401, "api_key": "hunter2secret"}
    error = {"type": "AuthError", "details": details, "traceback": "File x.py\nAuthError: password=hunter2secret"}
    await worker.fail(job, "Authorization: Basic dXNlcjpwYXNzd29yZA== was refused at node 4", error=error)
    kept = (await worker_harness.row(person, job_id))["error"]
    assert kept["reported"] == "Authorization: Basic *** was refused at node 4"
    assert kept["details"] == {
        "node_id": "4",
        "status": 401,
        "api_key": "***",
        "attempts": 1,
        "max_attempts": 3,
        "reported": "Authorization: Basic *** was refused at node 4",
    }
    assert kept["traceback"] == "File x.py\nAuthError: password=***"
