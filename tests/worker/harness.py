"""An agent at work: a real control plane, an engine that replays what ComfyUI said, and jobs of real people.

ann = await agent_harness.person()                         # the fixture `agent_harness`
job_id = await agent_harness.submit(ann)
agent = agent_harness.agent()                              # the real agent beside a replaying engine, started
await agent_harness.ends(ann, job_id)                      # waits for `completed`
await agent_harness.leave(agent)
assert agent_harness.left_over() == []                     # no file of a job stays on the machine
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.engine import Engine
from callsheet.worker.agent.agent import Agent
from callsheet.worker.agent.config import AgentConfig
from callsheet.worker.engines.supervisor import UNSUPERVISED, EngineProcesses
from tests.support.comfyui.replaying_engine import ReplayingEngine, replaying
from tests.support.http.accounts import Person
from tests.support.http.worker_harness import WorkerHarness, open_worker_harness
from tests.support.waiting import until

_numbers = itertools.count(1)
QUICK = Patience(stall=3600, absent=120, poll=0.05)
GRAPH: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "__INPUT_PATH__"}},
    "3": {"class_type": "ProbeSleep", "inputs": {"image": ["1", 0], "seconds": 1.0}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "mine"}},
}


@dataclass
class AgentHarness:
    """Agents of a control plane, with an engine that replays recordings."""

    worker_harness: WorkerHarness
    engine: ReplayingEngine
    directory: Path
    agents: list[asyncio.Task[None]] = field(default_factory=list)

    def config(self, **changes: Any) -> AgentConfig:
        given: dict[str, Any] = {
            "api_url": self.worker_harness.plane.settings.public_url,
            "worker_id": f"agent-{next(_numbers)}",
            "secret": self.worker_harness.secret,
            "directory": self.directory,
            "workflows": (self.worker_harness.jobs_api.workflow,),
            "heartbeat_seconds": 0.2,
            "progress_seconds": 0.05,
            "stop_seconds": 0.0,
            "wait_seconds": 5.0,
            "probe_seconds": 0.2,
        }
        return AgentConfig(**{**given, **changes})

    def agent(
        self,
        *,
        patience: Patience = QUICK,
        engines: Sequence[Engine] | None = None,
        supervised: EngineProcesses = UNSUPERVISED,
        **changes: Any,
    ) -> Agent:
        """Started; stopped at the end of the test at the latest."""
        agent = Agent(self.config(**changes), engines or [ComfyUI(self.engine.url, patience=patience)], supervised)
        agent.task = asyncio.create_task(agent.run())  # type: ignore[attr-defined]
        self.agents.append(agent.task)  # type: ignore[attr-defined]
        return agent

    async def leave(self, agent: Agent, reason: str = "test") -> None:
        agent.departure.begin(reason, 0)
        await agent.task  # type: ignore[attr-defined]

    async def person(self) -> Person:
        return await self.worker_harness.jobs_api.person(tokens=1000)

    async def submit(self, person: Person, **payload: Any) -> str:
        job = await self.worker_harness.engine_job(person, **{"workflow": GRAPH, "output_node_id": "2", **payload})
        return str(job["id"])

    async def ends(
        self, person: Person, job_id: str, status: str = "completed", *, hurry: bool = False
    ) -> dict[str, Any]:
        """Waits for the job's end; in a hurry no delay between two of its attempts is waited for."""

        async def is_there() -> bool:
            if hurry:
                await self.worker_harness.plane.rooms.jobs.dispatch.queue.promote(datetime.now(UTC) + timedelta(days=1))
            shown = await self.worker_harness.shown(person, job_id)
            assert shown["status"] not in {"completed", "failed", "canceled", "expired"} - {status}, shown
            return bool(shown["status"] == status)

        await until(is_there)
        return await self.worker_harness.shown(person, job_id)

    async def reported(self, person: Person, job: dict[str, Any]) -> str:
        """What operators read about a failed job."""
        return str((await self.worker_harness.jobs_api.full_error(person, job["id"]))["message"])

    async def closed(self, job_id: str) -> dict[str, Any]:
        """The queue's record of an ended job, as soon as there is one: the job itself is updated first."""
        found: list[Any] = []

        async def is_closed() -> bool:
            query = "SELECT * FROM dispatch_history WHERE tenant_job_id = $1"
            found[:] = await self.worker_harness.central(query, UUID(job_id))
            return bool(found)

        await until(is_closed)
        [row] = found
        return dict(row)

    async def waterfall(self, job_id: str) -> list[dict[str, Any]]:
        """The spans of a job, as an operator sees them."""
        harness = self.worker_harness
        path = f"/api/admin/jobs/{job_id}/waterfall"
        response = await harness.client.get(path, headers=harness.jobs_api.admin.headers)
        assert response.status_code == 200, response.text
        return list(response.json()["spans"])

    async def polls(self, number: int = 1) -> None:
        """Waits until that many polls of workers of this harness wait. A poll of the test before may still be there."""
        waiting, workflow = (
            self.worker_harness.plane.rooms.jobs.dispatch.waiters._waiting,
            self.worker_harness.jobs_api.core.workflow,
        )

        def own() -> int:
            return sum(len(polls) for criteria, polls in waiting.items() if workflow in criteria.workflow_ids)

        await until(lambda: own() == number)

    async def workers(self) -> list[Any]:
        return await self.worker_harness.central("SELECT * FROM comfyui_workers WHERE revoked_at IS NULL")

    async def leases(self) -> int:
        return len(await self.worker_harness.central("SELECT 1 FROM ai_job_dispatches WHERE status = 'leased'"))

    async def all_leased(self, number: int) -> None:
        """Waits until exactly so many leases are held."""

        async def are_held() -> bool:
            return await self.leases() == number

        await until(are_held)

    def left_over(self) -> list[Path]:
        """Files of jobs, which must not stay; cache, token and lock may."""
        # Not rglob, which stumbles over folders that go away meanwhile.
        found = [os.walk(self.directory / name) for name in ("work", "reports")]
        return [Path(folder) / name for walk in found for folder, _, names in walk for name in names]


@asynccontextmanager
async def open_agent_harness(plane: ControlPlane, directory: Path) -> AsyncIterator[AgentHarness]:
    async with open_worker_harness(plane) as worker_harness, replaying() as engine:
        agent_harness = AgentHarness(worker_harness, engine, directory)
        try:
            yield agent_harness
        finally:
            for task in agent_harness.agents:
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
