"""The worker protocol with nothing of ours in it: the same requests on the same server, and as many statements.

A poll and a completion pass as many stages as in the control plane, one after the other. Each stage is one bare
statement for one row per job, shared by the requests that arrive together: reads are by key, writes commit and wait for
the disk. No payload is stored, no token or state is checked, and no file is accepted.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request, Response

from callsheet.plumbing.database.database import Database
from callsheet.toolbox.batching import Batcher

JOBS = 100_000
SETUP = f"""
CREATE TABLE bare_jobs (id bigint PRIMARY KEY, changes bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
CREATE TABLE bare_lines (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id bigint NOT NULL);
INSERT INTO bare_jobs SELECT generate_series(1, {JOBS});
GRANT ALL ON bare_jobs, bare_lines TO PUBLIC;
"""
READ = "SELECT id, changes FROM bare_jobs WHERE id = ANY ($1::bigint[])"
CHANGE = "UPDATE bare_jobs SET changes = changes + 1 WHERE id = ANY ($1::bigint[])"
WRITE_LINE = "INSERT INTO bare_lines (job_id) SELECT unnest($1::bigint[])"
# Authentication, lease, start, line of the worker's log.
POLL = (READ, CHANGE, CHANGE, WRITE_LINE)
# Authentication, look at the dispatch, end of the job, end of the dispatch, line of the worker's log.
COMPLETION = (READ, READ, CHANGE, CHANGE, WRITE_LINE)

Stage = Callable[[int], Awaitable[None]]


def add_protocol(app: FastAPI, database: Database, payload: dict[str, Any]) -> None:
    """Adds the routes that simulated workers call. Each poll gets a job with this payload."""
    poll_stages = [_stage(database, text) for text in POLL]
    completion_stages = [_stage(database, text) for text in COMPLETION]
    numbers = itertools.cycle(range(1, JOBS + 1))

    @app.post("/api/worker/poll")
    async def poll(request: Request) -> Response:
        await request.json()
        number = next(numbers)
        for stage in poll_stages:
            await stage(number)
        job = {
            "dispatch_id": number,
            "lease_token": str(uuid4()),
            "job_id": str(uuid4()),
            "input_payload": payload,
            "output_url": f"{request.base_url}storage/{number}",
            "output_headers": {"Content-Type": "video/mp4"},
        }
        return _response({"job": job})

    @app.post("/api/worker/complete")
    async def complete(request: Request) -> Response:
        number = (await request.json())["dispatch_id"]
        for stage in completion_stages:
            await stage(number)
        return _response({"job_id": str(uuid4()), "status": "completed"})

    @app.put("/storage/{number}")
    async def upload(number: int, request: Request) -> Response:
        await request.body()
        return _response({"number": number})


def _stage(database: Database, text: str) -> Stage:
    async def run(numbers: Sequence[int]) -> list[None]:
        async with database.connection() as connection:
            await connection.fetch(text, numbers)
        return [None] * len(numbers)

    return Batcher(run)


def _response(content: dict[str, Any]) -> Response:
    return Response(json.dumps(content), media_type="application/json")
