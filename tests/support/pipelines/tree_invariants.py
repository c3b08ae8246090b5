"""Invariants of the trees of all runs. They hold whenever no transaction is open."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from uuid import UUID

from PIL import Image

from callsheet.media.storage import Storage
from callsheet.pipelines.judge.gallery import rejection_of
from callsheet.pipelines.judge.thumbnails import thumbnail_key
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.settings.pipelines import PipelineSettings
from callsheet.wire.jobs import ACTIVE
from callsheet.wire.pipelines.pipelines import Rejection

Row = Mapping[str, Any]
# The possible states of a slot whose job ended in this status. A job that completed without an image is a failure.
ENDS = {
    "completed": {"open", "made", "failed"},
    "canceled": {"open", "canceled"},
    "failed": {"open", "failed"},
    "expired": {"open", "failed"},
}
LARGEST = 10_000_000


def _image() -> bytes:
    content = BytesIO()
    Image.new("RGB", (8, 6), "green").save(content, "PNG")
    return content.getvalue()


# An image that can be shown.
IMAGE = _image()


@dataclass(frozen=True, slots=True)
class Tree:
    """All rows of one run."""

    run: Row
    steps: Mapping[int, Row]
    candidates: Sequence[Row]
    slots: Sequence[Row]
    votes: Sequence[Row]
    jobs: Mapping[UUID, Row]
    # Each charge cycle of a replay, with what was refunded of it once it is settled.
    replays: Sequence[Row]

    def problems(self) -> Iterator[str]:
        yield from self._numbers()
        yield from self._slots()
        for candidate in self.candidates:
            for problem in (*self._family(candidate), *self._counts(candidate)):
                yield f"candidate {candidate['number']}: {problem}"
        yield from self._money()
        yield from self._ratings()

    def _numbers(self) -> Iterator[str]:
        if [each["number"] for each in self.candidates] != list(range(1, self.run["candidates"] + 1)):
            yield "numbers of candidates have gaps, or are not as many as the run says"
        if [each["draw"] for each in self.slots] != list(range(1, self.run["draws"] + 1)):
            yield "draws have gaps, or are not as many as the run says"
        images = Counter((each["job_id"], each["output_index"]) for each in self.candidates)
        yield from (f"one picture is a candidate twice: {key}" for key, count in images.items() if count > 1)
        mine = {each["job_id"] for each in self.slots}
        if mine != set(self.jobs):
            yield f"jobs without a slot, or slots without a job: {mine ^ set(self.jobs)}"

    def _slots(self) -> Iterator[str]:
        made = defaultdict(list)
        for candidate in self.candidates:
            made[candidate["job_id"]].append(candidate)
        for slot in self.slots:
            job, children = self.jobs.get(slot["job_id"]), made.pop(slot["job_id"], [])
            if job is None:
                continue
            if (slot["step_id"], slot["parent_id"]) != (job["step_id"], job["parent_candidate_id"]):
                yield f"slot {slot['draw']} and its job differ"
            if slot["status"] not in ENDS.get(job["status"], {"open"}):
                yield f"slot {slot['draw']} is {slot['status']}, its job {job['status']}"
            if bool(children) != (slot["status"] == "made"):
                yield f"slot {slot['draw']} is {slot['status']} and has {len(children)} candidates"
            for child in children:
                if any(child[name] != slot[name] for name in ("step_id", "position", "parent_id", "seed")):
                    yield f"candidate {child['number']} is not what its slot was for"
        yield from (f"an orphan, candidate {each['number']}" for left in made.values() for each in left)

    def _family(self, candidate: Row) -> Iterator[str]:
        children = [each for each in self.candidates if each["parent_id"] == candidate["id"]]
        if candidate["parent_id"] is not None:
            parent = next((each for each in self.candidates if each["id"] == candidate["parent_id"]), None)
            if parent is None:
                yield "its parent is not in the run"
            elif parent["position"] + 1 != candidate["position"]:
                yield "it is not of the step after its parent's"
            elif (parent["status"], candidate["status"]) == ("rejected", "active"):
                yield "it is active and its parent was rejected"
        # Images beyond N are created as rejected candidates, and do not count as children.
        wanted = [
            each
            for each in children
            if rejection_of(each["id"], each["rejected_with"], each["rejected_by"]) is not Rejection.SURPLUS
        ]
        if candidate["child_count"] != len(wanted):
            yield f"it counts {candidate['child_count']} children and has {len(wanted)}"
        if candidate["child_count"] + candidate["in_flight"] > candidate["max_children"]:
            yield "it has more children than N, with those under way"

    def _counts(self, candidate: Row) -> Iterator[str]:
        mine = [each for each in self.slots if each["parent_id"] == candidate["id"]]
        ends = Counter(each["status"] for each in mine)
        step = self.steps[candidate["position"]]
        max_children = (
            0 if candidate["position"] == len(self.steps) else self.run["max_children"] or step["max_children"]
        )
        if candidate["max_children"] != max_children:
            yield f"its N is {candidate['max_children']}, not {max_children}"
        # A job may bring several images; it counts as one while it is in progress, and then as all of them.
        if ends["made"] + ends["open"] > max_children:
            yield f"{ends['made'] + ends['open']} jobs for at most {max_children} children"
        if (candidate["slots"], candidate["in_flight"]) != (len(mine), ends["open"]):
            yield f"it counts {candidate['slots']} slots, {candidate['in_flight']} of them open: {dict(ends)}"
        if [each["ordinal"] for each in mine] != list(range(1, len(mine) + 1)):
            yield "the places below it have gaps"
        # A candidate whose image is gone is excluded at once; and resuming a run resets the failures of childless
        # candidates.
        forgiven = range(ends["failed"]) if ends["failed"] >= PipelineSettings().strikes else ()
        if candidate["failure_count"] not in (
            ends["failed"],
            max(ends["failed"], PipelineSettings().strikes),
            *forgiven,
        ):
            yield f"it counts {candidate['failure_count']} failures, there were {ends['failed']}"

    def _money(self) -> Iterator[str]:
        run = self.run
        kept = [each for each in self.slots if each["status"] in ("open", "made")]
        # Completed jobs are paid, even if they made no image.
        paid = [
            each
            for each in self.slots
            if each["status"] == "failed" and self.jobs[each["job_id"]]["status"] == "completed"
        ]
        spent = sum(each["cost"] for each in (*kept, *paid)) + self._replayed()
        if run["spent"] != spent:
            yield f"the run counts {run['spent']} tokens, its slots and replays say {spent}"
        if run["spent"] > run["budget"]:
            yield f"{run['spent']} tokens are spent of {run['budget']}"
        if any(self.jobs[each["job_id"]]["cost"] != each["cost"] for each in self.slots):
            yield "a slot has another price than its job"

    def _replayed(self) -> int:
        return sum(each["cost"] - each["refunded"] for each in self.replays)

    def _ratings(self) -> Iterator[str]:
        elo: Counter[UUID] = Counter()
        votes: Counter[UUID] = Counter()
        for vote in self.votes:
            elo.update({vote["winner_id"]: vote["elo_change"], vote["loser_id"]: -vote["elo_change"]})
            votes.update((vote["winner_id"], vote["loser_id"]))
        for candidate in self.candidates:
            counted = (candidate["elo"], candidate["votes"])
            if counted != (1000 + elo[candidate["id"]], votes[candidate["id"]]):
                yield f"candidate {candidate['number']} is rated {counted}, its votes say otherwise"

    def unsettled(self) -> Iterator[str]:
        """What must not exist after the end of the run."""
        yield from (f"slot {each['draw']} is open" for each in self.slots if each["status"] == "open")
        yield from (f"job {each['id']} is {each['status']}" for each in self.jobs.values() if each["status"] in ACTIVE)
        yield from (f"replay {each['job_id']} is open" for each in self.replays if each["settled_at"] is None)
        paid = sum(each["cost"] for each in self.jobs.values() if each["status"] == "completed") + self._replayed()
        if self.run["spent"] != paid:
            yield f"{self.run['spent']} tokens are spent, the completed jobs cost {paid}"


async def read_trees(pool: Database) -> list[Tree]:
    async with pool.connection() as connection, connection.transaction(isolation="repeatable_read"):
        rows = {
            name: await connection.fetch(query)
            for name, query in {
                "runs": "SELECT * FROM pipeline_runs ORDER BY id",
                "steps": "SELECT * FROM pipeline_steps",
                "candidates": "SELECT * FROM candidates ORDER BY number",
                "slots": "SELECT * FROM candidate_slots ORDER BY draw",
                "votes": "SELECT * FROM votes WHERE undone_at IS NULL",
                "jobs": "SELECT * FROM ai_jobs WHERE run_id IS NOT NULL",
                "replays": """SELECT run_id, job_id, cost, settled_at, CASE WHEN settled_at IS NULL THEN 0
                    ELSE wallet_refunded(tenant_id, job_id, charge_cycle) END AS refunded FROM run_replays""",
            }.items()
        }
    return [
        Tree(
            run=run,
            steps={
                each["position"]: each
                for each in rows["steps"]
                if (each["pipeline_id"], each["version"]) == (run["pipeline_id"], run["pipeline_version"])
            },
            candidates=[each for each in rows["candidates"] if each["run_id"] == run["id"]],
            slots=[each for each in rows["slots"] if each["run_id"] == run["id"]],
            votes=[each for each in rows["votes"] if each["run_id"] == run["id"]],
            jobs={each["id"]: each for each in rows["jobs"] if each["run_id"] == run["id"]},
            replays=[each for each in rows["replays"] if each["run_id"] == run["id"]],
        )
        for run in rows["runs"]
    ]


async def tree_problems(databases: Databases) -> list[str]:
    """The problems as sentences; empty if every tree is exact."""
    trees = [tree for pool in databases.pools for tree in await read_trees(pool)]
    return [f"run {tree.run['id']}: {problem}" for tree in trees for problem in tree.problems()]


async def image_problems(pool: Database, storage: Storage, *, deleted: bool = False) -> list[str]:
    """Every candidate has its image and its thumbnail, both can be shown, and the folders hold nothing else.

    `deleted`: users have deleted some of the images.
    """
    problems = []
    async with pool.connection() as connection:
        files = {row["id"]: row for row in await connection.fetch("SELECT * FROM files WHERE deleted_at IS NULL")}
    for tree in await read_trees(pool):
        prefix = f"tenants/{tree.run['tenant_id']}/runs/{tree.run['target_folder']}"
        wanted = set()
        for candidate in tree.candidates:
            for name in ("file_id", "thumbnail_file_id"):
                file = files.get(candidate[name])
                if file is None:
                    problems += [] if deleted else [f"candidate {candidate['number']} has no {name}"]
                    continue
                wanted.add(file["path"])
                if error := await _shown(storage, file):
                    problems.append(f"{name} of candidate {candidate['number']}: {error}")
            thumbnail = files.get(candidate["thumbnail_file_id"])
            key = thumbnail_key(tree.run["tenant_id"], tree.run["target_folder"], candidate["id"])
            if thumbnail is not None and thumbnail["path"] != key:
                problems.append(f"a thumbnail lies at {thumbnail['path']}")
        found = {entry.key async for entry in storage.list(prefix)}
        if found != wanted and not deleted:
            problems.append(f"{prefix} holds {found ^ wanted}")
    return problems


async def _shown(storage: Storage, file: Row) -> str | None:
    content = await storage.read(file["path"], LARGEST)
    if len(content) != file["size"]:
        return f"{len(content)} bytes, not {file['size']}"
    try:
        with Image.open(BytesIO(content)) as image:
            image.load()
    except OSError as error:
        return repr(error)
    return None
