"""The invariants of all rows of an installation, at any moment without a running operation (G1-G5, G8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from callsheet.jobs.machine.states import TRANSITIONS
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.wallet.ledger_check import audit
from callsheet.wire.jobs import ACTIVE, JobStatus

Row = Mapping[str, Any]
HIDDEN = """SELECT d.dispatch_id FROM ai_job_dispatches d JOIN dispatch_lanes USING (lane_id)
            WHERE d.status = 'queued' AND d.not_before IS NULL AND (d.dispatch_id < low_water OR NOT has_work)"""
TENANT_TABLES = (
    *("ai_jobs", "job_events", "user_streams", "token_wallets", "token_transactions", "outbox"),
    *("files", "videos", "job_progress", "output_sweeps", "upload_sweeps", "products"),
    *("pipelines", "pipeline_steps", "pipeline_runs", "candidates", "candidate_slots", "votes", "step_approvals"),
    "batches",
    *("branch_kills", "run_replays", "step_documents"),
)
# A video has the status and the error of its newest job, and the result of the last one that completed.
STRAY_VIDEOS = """SELECT v.id, v.status, j.status AS job_status FROM videos v
    JOIN ai_jobs j ON j.tenant_id = v.tenant_id AND j.id = v.job_id
    WHERE v.status <> j.status
       OR (j.status = 'completed' AND v.processed_file_id IS DISTINCT FROM j.output_file_id)
       OR (v.processed_file_id IS NULL) <> NOT EXISTS (
           SELECT FROM ai_jobs e
           WHERE e.tenant_id = v.tenant_id AND e.video_id = v.id AND e.output_file_id = v.processed_file_id
             AND e.status = 'completed')
       OR (v.processing_details ->> 'error') IS DISTINCT FROM (j.error ->> 'message')"""
# Delivered files exist, and only those.
STRAY_OUTPUTS = """SELECT f.id FROM files f JOIN ai_jobs j ON j.tenant_id = f.tenant_id AND j.id = f.job_id
    WHERE j.status <> 'completed'"""
# A product is the result of a completed scrape.
STRAY_PRODUCTS = """SELECT p.id FROM products p JOIN ai_jobs j ON j.tenant_id = p.tenant_id AND j.id = p.id
    WHERE j.status <> 'completed' OR j.kind <> 'scrape' OR j.user_id <> p.user_id"""
# A batch counts each of its jobs once, and has finished if none is active.
STRAY_BATCHES = """SELECT b.id FROM batches b
    LEFT JOIN LATERAL (
        SELECT count(*) AS items, count(*) FILTER (WHERE completed_at IS NULL) AS active,
            count(*) FILTER (WHERE status = 'completed') AS completed,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status = 'canceled') AS canceled,
            count(*) FILTER (WHERE status = 'expired') AS expired
        FROM ai_jobs j WHERE j.tenant_id = b.tenant_id AND j.batch_id = b.id AND j.user_id = b.user_id
    ) found ON true
    WHERE (b.items, b.active, b.completed, b.failed, b.canceled, b.expired)
        IS DISTINCT FROM (found.items, found.active, found.completed, found.failed, found.canceled, found.expired)"""
ROUTE = ("workflow_id", "stage", "provider", "concurrency_identifier", "priority")


async def violations(databases: Databases) -> list[str]:
    """The violations as sentences; empty if everything holds."""
    async with databases.central.connection() as connection:
        hot = [dict(row) for row in await connection.fetch("SELECT * FROM ai_job_dispatches")]
        history = [dict(row) for row in await connection.fetch("SELECT * FROM dispatch_history")]
        hidden = await connection.fetch(HIDDEN)
        homes = {row["id"]: row["db_pool"] for row in await connection.fetch("SELECT id, db_pool FROM tenants")}
    found = _queue(hot, history)
    found.extend(f"G1 {row['dispatch_id']} is queued below its lane's mark: no lease would find it" for row in hidden)
    dispatches = {_key(row): row for row in hot}
    for pool in databases.pools:
        found.extend(f"G2 {finding}" for finding in await audit(pool))
        found.extend(await _pool(pool, dispatches))
        found.extend(await _strangers(pool, homes))
    return found


async def drained(databases: Databases) -> list[str]:
    """What is left after all jobs have ended and every message was delivered; it must be empty."""
    left = []
    async with databases.central.connection() as connection:
        left += [f"hot {dict(row)}" for row in await connection.fetch("SELECT * FROM ai_job_dispatches")]
    for pool in databases.pools:
        async with pool.connection() as connection:
            left += [f"outbox {dict(row)}" for row in await connection.fetch("SELECT * FROM outbox")]
            active = "SELECT id, status FROM ai_jobs WHERE status = ANY ($1::text[])"
            left += [f"active {dict(row)}" for row in await connection.fetch(active, sorted(ACTIVE))]
    return left


def _queue(hot: Sequence[Row], history: Sequence[Row]) -> list[str]:
    found = []
    finished = {_key(row) for row in history}
    if len(finished) != len(history):
        found.append("G3 a dispatch is in history twice")
    for row in hot:
        if _key(row) in finished:
            found.append(f"G3 {row['dispatch_id']} is hot and finished")
        if row["lease_token"] in row["past_lease_tokens"]:
            found.append(f"G3 {row['dispatch_id']} is held by a token of the past")
    for row in (*hot, *history):
        tokens = [*row["past_lease_tokens"], *filter(None, [row["lease_token"]])]
        if len(set(tokens)) != len(tokens):
            found.append(f"G3 {row['dispatch_id']} has a token twice")
        # The past ones are the last hundred.
        if len(tokens) != min(row["lease_seq"], 100 + (row["lease_token"] is not None)):
            found.append(f"G3 {row['dispatch_id']} was leased {row['lease_seq']} times with {len(tokens)} tokens")
    return found


async def _pool(pool: Database, dispatches: Mapping[tuple[Any, ...], Row]) -> list[str]:
    async with pool.connection() as connection, connection.transaction(isolation="repeatable_read"):
        jobs = [dict(row) for row in await connection.fetch("SELECT * FROM ai_jobs")]
        query = "SELECT * FROM job_events ORDER BY tenant_id, job_id, seq"
        events = [dict(row) for row in await connection.fetch(query)]
        counters = await connection.fetch("SELECT * FROM user_streams")
        outbox = await connection.fetch("SELECT * FROM outbox")
        found = [f"G1 a video is not as its job is: {dict(row)}" for row in await connection.fetch(STRAY_VIDEOS)]
        found += [
            f"G2 an output of a job that did not complete: {row['id']}" for row in await connection.fetch(STRAY_OUTPUTS)
        ]
        found += [
            f"G1 a batch counts other items than it has: {row['id']}" for row in await connection.fetch(STRAY_BATCHES)
        ]
        found += [f"G2 a product without its scrape: {row['id']}" for row in await connection.fetch(STRAY_PRODUCTS)]
    announced = {
        (row["tenant_id"], row["job_id"], row["charge_cycle"]) for row in outbox if row["action"] == "dispatch"
    }
    of_job, of_user = defaultdict(list), defaultdict(list)
    for event in events:
        of_job[event["tenant_id"], event["job_id"]].append(event)
        of_user[event["tenant_id"], event["user_id"]].append(event["user_seq"])
    for job in jobs:
        key = (job["tenant_id"], job["id"], job["charge_cycle"])
        found.extend(
            f"{problem}: {pool.name} {job['id']}" for problem in _life(job, dispatches.get(key), key in announced)
        )
        found.extend(f"G8 {problem}: {job['id']}" for problem in _history(job, of_job[job["tenant_id"], job["id"]]))
    counted = {(row["tenant_id"], row["user_id"]): row["last_seq"] for row in counters}
    for user, numbers in of_user.items():
        if sorted(numbers) != list(range(1, counted[user] + 1)):
            found.append(f"G9 the counter of {user} has gaps: {sorted(numbers)}")
    return found


async def _strangers(pool: Database, homes: Mapping[Any, str]) -> list[str]:
    query = " UNION ".join(f"SELECT DISTINCT tenant_id, '{table}' AS name FROM {table}" for table in TENANT_TABLES)
    async with pool.connection() as connection:
        rows = await connection.fetch(query)
    return [
        f"G6 {row['name']} of {pool.name} has rows of a tenant who lives elsewhere"
        for row in rows
        if homes.get(row["tenant_id"]) != pool.name
    ]


def _life(job: Row, dispatch: Row | None, is_announced: bool) -> list[str]:
    found = []
    if job["status"] in ACTIVE and dispatch is None and not is_announced:
        found.append("G1 an active job that nothing will ever run")
    if job["status"] == JobStatus.QUEUED and is_announced and dispatch is None:
        found.append("G1 queued without a dispatch")
    if dispatch is not None:
        if job["lease_seq"] > dispatch["lease_seq"]:
            found.append("G3 the job has a lease that was never given")
        started = dispatch["status"] != "queued" and job["lease_seq"] == dispatch["lease_seq"] > 0
        if started and job["status"] in ACTIVE and job["status"] != JobStatus.PROCESSING:
            found.append(f"G3 its lease was started and holds, but it is {job['status']}")
        if any(job[name] != dispatch[name] for name in ROUTE):
            found.append("G4 the dispatch is routed another way than its job")
    return found


def _history(job: Row, events: Sequence[Row]) -> list[str]:
    found = []
    if [event["seq"] for event in events] != list(range(1, job["event_seq"] + 1)):
        found.append("numbers with gaps")
    moves = [event for event in events if event["event"] not in ("job.transition_denied", "job.deleted")]
    if [event["event"] for event in moves[:1]] != ["job.created"]:
        found.append("does not begin with job.created")
        return found
    if {event["event"] for event in moves[1:]} - {"job.transition"}:
        found.append("has something else than transitions")
    pairs = [(event["from_status"], event["to_status"]) for event in moves]
    found.extend(f"{pair} is not in the table" for pair in pairs if pair not in TRANSITIONS)
    if any(before[1] != after[0] for before, after in pairwise(pairs)) or pairs[-1][1] != job["status"]:
        found.append(f"is no chain to {job['status']}: {pairs}")
    if 1 + sum(to_status == JobStatus.PENDING for _, to_status in pairs[1:]) != job["charge_cycle"]:
        found.append("retries and charge cycles differ")
    if not all(event["actor"] for event in events):
        found.append("an event without an actor")
    return found


def _key(dispatch: Row) -> tuple[Any, ...]:
    return dispatch["tenant_id"], dispatch["tenant_job_id"], dispatch["charge_cycle"]
