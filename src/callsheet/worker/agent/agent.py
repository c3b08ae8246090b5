"""The agent takes jobs, runs as many at once as its engines allow, and finishes or requeues them before it leaves.

While one job renders, the agent fetches the files of the next job and uploads those of the last. So it may hold two
leases for each slot of its engines.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from callsheet import __version__
from callsheet.providers.engine import Engine
from callsheet.toolbox.concurrently import all_of, first_of
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.private_files import read_private, write_private
from callsheet.wire.fleet import RegisterRequest
from callsheet.wire.worker.protocol import PollRequest, PollResponse, WorkerJob
from callsheet.worker.agent.config import AgentConfig
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.departure import DRAINED, Departure
from callsheet.worker.agent.ec2 import Ec2Instance, Identity, Protection
from callsheet.worker.agent.job_inputs import AssetCache
from callsheet.worker.agent.job_run import JobRun, RunContext
from callsheet.worker.agent.plane import RefusedRequest, Unreachable, named_leases
from callsheet.worker.agent.polls import PollFacts, WorkerOffer, offer_of
from callsheet.worker.agent.reports import QueuedReport, ReportBox, RunOf, claim, lease_of
from callsheet.worker.agent.transfers import Transfers
from callsheet.worker.engines.engine_choice import WarmModels
from callsheet.worker.engines.engines import DrivenEngine, Engines, end_run
from callsheet.worker.engines.environment import EnvironmentWatch
from callsheet.worker.engines.supervisor import UNSUPERVISED, EngineProcesses, supervision_of

log = get_logger(__name__)

# Pauses by the reason of a poll without a job: a poll that returns at once is not repeated at once.
PAUSE_SECONDS = {"at_capacity": 0.1, "empty": 0.2, "draining": 5.0, "not_approved": 10.0, "no_workflows": 10.0}
# Longest pause of a full agent between polls for a job to prefetch. The pause starts again at `at_capacity` when a job
# starts or ends, because the end of one job often creates the next; it doubles while a long run goes on.
MAX_FULL_SECONDS = 1.0
MAX_POLL_ID_LENGTH = 64
FIRST_CHECK_SECONDS = 5.0
# Timeout of the last requests before the agent leaves.
REPORT_SECONDS = 10.0


class Agent:
    def __init__(self, config: AgentConfig, engines: Sequence[Engine], supervised: EngineProcesses = UNSUPERVISED):
        self.config = config
        self.departure = Departure()
        self._changed = asyncio.Event()
        # Number of at_capacity responses in a row since a job started or ended.
        self._times_full = 0
        self._engines = Engines(
            [
                DrivenEngine(
                    name, engine, config.max_concurrency, config.probe_seconds, self._engines_changed, config.warm_up
                )
                for name, engine in zip(names_of(engines), engines, strict=True)
            ]
        )
        self._environment = EnvironmentWatch(self._engines.that_take_jobs, config.model_hashes)
        self._warm = WarmModels()
        self._supervision = supervision_of(list(self._engines), supervised)
        # Capacity in the last successful poll since registration; None before the first.
        self._reported_capacity: int | None = None
        self._facts = PollFacts(config.directory, self._engines, self._capabilities)
        self._identity = Identity()
        self._plane = ControlPlaneClient(
            config.api_url, config.secret, config.directory / "token.json", self._registration
        )
        self._runs: dict[JobRun, asyncio.Task[None]] = {}
        self._poll_file = config.directory / "poll.json"
        self._poll_id = ""
        self._is_draining = False
        self._machine = Ec2Instance(config.metadata_url, config.metadata_seconds, self.departure)
        self._protection = Protection(
            config.asg_name, config.asg_region, config.asg_endpoint_url, config.asg_lifecycle_hook
        )

    async def run(self) -> None:
        """Runs until the departure begins. Raises OperatorError if the agent cannot start."""
        lock = claim(self.config.directory)
        # Repeats the last poll of a killed agent: the control plane returns the lease that the killed agent missed.
        kept = (read_private(self._poll_file) or {}).get("poll_id")
        self._poll_id = kept if isinstance(kept, str) and 0 < len(kept) <= MAX_POLL_ID_LENGTH else ""
        if not self._poll_id:
            self._next_poll()
        context = self._open_context()
        background: list[asyncio.Task[None]] = []
        try:
            self._identity = await self._machine.identity()
            background = [asyncio.create_task(driven.health.keep()) for driven in self._engines]
            background.append(asyncio.create_task(self._machine.watch()))
            background.append(asyncio.create_task(self._protection.keep(self._identity.instance_id)))
            background.append(asyncio.create_task(self._environment.read_and_report(self._plane)))
            working = asyncio.create_task(self._work(context))
            leaving = asyncio.create_task(self.departure.wait())
            supervising = asyncio.create_task(self._supervision.keep())
            background += [working, leaving, supervising]
            await asyncio.wait({working, leaving, supervising}, return_when=asyncio.FIRST_COMPLETED)
            # From here on no engine is started. Running engines finish their jobs.
            for task in (working, supervising):
                task.cancel()
            ended = await asyncio.gather(working, supervising, return_exceptions=True)
            await self._leave(context)
            for error in ended:
                if isinstance(error, Exception):
                    raise error
        finally:
            await self._close(context, background)
            lock.close()

    async def _close(self, context: RunContext, background: Sequence[asyncio.Task[None]]) -> None:
        for task in (*background, *self._runs.values()):
            task.cancel()
        await asyncio.gather(*background, *self._runs.values(), return_exceptions=True)
        for driven in self._engines:
            await driven.engine.close()
        await self._supervision.stop()
        await context.transfers.close()
        await self._machine.close()
        await self._plane.close()

    def _open_context(self) -> RunContext:
        directory = self.config.directory
        # Removes files that a killed agent left.
        shutil.rmtree(directory / "work", ignore_errors=True)
        return RunContext(
            self.config,
            self._plane,
            self._engines,
            AssetCache(directory / "cache", self.config.cache_bytes),
            Transfers(),
            ReportBox(directory / "reports", self._plane),
            self._environment,
            self._warm,
            self._held,
        )

    async def _work(self, context: RunContext) -> None:
        left = await self._settle(context)
        while not self._engines.providers:
            await self._wait_until_healthy(context)
        await self._end_runs(left)
        await self._environment.read()
        if not self._plane.is_registered:
            await self._plane.enter()
        await self._environment.report(self._plane)
        capacity = self._engines.capacity
        log.info("worker.ready", worker_id=self.config.worker_id, providers=self._engines.providers, capacity=capacity)
        failures = 0
        while True:
            if not self._engines.providers:
                await self._wait_until_healthy(context)
                continue
            if not self._offer().wants and self._reported_capacity == self._engines.capacity:
                await self._wait_for_change(None)
                continue
            started_at = time.monotonic()
            try:
                response = await self._poll()
            except (Unreachable, RefusedRequest) as error:
                failures += 1
                note_failure(log, failures)("worker.poll_failed", reason=str(error), failures=failures)
                await asyncio.sleep(self._plane.pause(failures, error))
                continue
            failures = 0
            await self._take(response, context, time.monotonic() - started_at)

    def _engines_changed(self) -> None:
        """Handles that an engine stopped taking jobs, or takes jobs again, perhaps with other nodes and models."""
        self._environment.request_reading()
        self._warm.forget()
        self._engines.serve()
        self._changed.set()

    def _offer(self) -> WorkerOffer:
        """The jobs that the engines can take now."""
        held = Counter(run.job.provider for run in self._runs)
        return offer_of(self._engines.slots, held, prefetch=self.config.prefetch)

    async def _poll(self) -> PollResponse | None:
        """Returns None if the capacity or the providers changed during the poll. Only then is a poll abandoned, because
        its job may be on the way already. The next poll has the same id, so that job is not lost."""
        offer = self._offer()
        request = PollRequest(
            current_load=len(self._runs),
            max_concurrency=offer.capacity,
            providers=list(offer.providers),
            wait_seconds=self.config.wait_seconds if offer.wants else 0,
            poll_id=self._poll_id,
            active_leases=named_leases(self._held()),
            prefetch=offer.prefetch,
            loaded_models=self._warm.hashes() or None,
            **self._facts.due(),
        )
        polling = asyncio.create_task(self._plane.poll(request))
        try:
            while not polling.done():
                await first_of(polling, event=self._changed)
                self._changed.clear()
                now = self._offer()
                if not polling.done() and (now.capacity, now.providers) != (offer.capacity, offer.providers):
                    return None
            response = polling.result()
            self._facts.arrived()
            self._reported_capacity = offer.capacity
            return response
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    def _held(self) -> list[UUID]:
        return [run.job.lease_token for run in self._runs]

    def _next_poll(self) -> None:
        self._poll_id = uuid.uuid4().hex
        try:
            write_private(self._poll_file, {"poll_id": self._poll_id}, survives_machine_crash=False)
        except OSError as error:
            log.warning("worker.poll_not_kept", reason=str(error))

    async def _settle(self, context: RunContext) -> list[RunOf]:
        """Sends the reports of a killed agent first: its jobs must not wait until an engine is healthy."""
        if context.reports.is_empty:
            return []
        with suppress(TimeoutError):
            # A registration contains the engine's version. The jobs wait for it only briefly.
            async with asyncio.timeout(FIRST_CHECK_SECONDS):
                await all_of(driven.health.checked.wait() for driven in self._engines)
        await self._plane.enter()
        return await context.reports.send_left_over()

    async def _end_runs(self, runs: Sequence[RunOf]) -> None:
        """Ends the runs of a killed agent, because the engines are needed. The engine of a run is not known, so
        every engine of the provider gets the request. An engine without the run ignores it.
        """

        async def end(run: RunOf, driven: DrivenEngine) -> None:
            log.info("worker.ends_run_of_killed_agent", run=run.run_id, engine=driven.name)
            await end_run(driven.engine, run.run_id)

        await all_of(
            end(run, driven) for run in runs for driven in self._engines.of(run.provider) if driven.health.is_healthy
        )

    async def _take(self, response: PollResponse | None, context: RunContext, seconds: float) -> None:
        if response is None:
            return
        self._note_drain(is_draining=response.reason == "draining")
        if response.job is not None:
            self._start(response.job, context)
            # The fallback report is saved first: until then a poll with the same id gets the same job.
            self._next_poll()
            return
        self._next_poll()
        reason = response.reason or "empty"
        pause = PAUSE_SECONDS.get(reason, 1.0)
        if reason == "at_capacity":
            pause = min(MAX_FULL_SECONDS, pause * 2**self._times_full)
            self._times_full = min(self._times_full + 1, 10)
        if seconds < pause:
            await self._wait_for_change(pause)

    def _note_drain(self, *, is_draining: bool) -> None:
        if is_draining != self._is_draining:
            log.info("worker.drained" if is_draining else "worker.undrained", jobs=len(self._runs))
        self._is_draining = is_draining
        if is_draining and self.config.leaves_when_drained and not self._runs:
            self.departure.begin(DRAINED, None)

    def _start(self, job: WorkerJob, context: RunContext) -> None:
        if any(run.job.lease_token == job.lease_token for run in self._runs):
            return  # A poll and its repetition returned the same lease.
        log.info("job.leased", job_id=str(job.job_id), dispatch_id=job.dispatch_id, held=len(self._runs) + 1)
        self._times_full = 0
        run = JobRun(job, context)
        run.save_fallback_report()
        self._runs[run] = task = asyncio.create_task(run.execute())
        self._protection.want(True)
        task.add_done_callback(lambda _: self._ended(run))

    def _ended(self, run: JobRun) -> None:
        task = self._runs.pop(run)
        self._times_full = 0
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job.run_crashed", dispatch_id=run.job.dispatch_id, exc_info=error)
        if not self._runs:
            self._protection.want(False)
        self._changed.set()

    async def _wait_for_change(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    async def _wait_until_healthy(self, context: RunContext) -> None:
        """Takes no jobs. Deregisters when the agent holds no job, and registers again when an engine is healthy."""
        if not self._runs and self._plane.is_registered:
            reasons = self._engines.reasons
            await self._requeue_missed_job(context)
            await self._plane.leave(f"engine unhealthy: {reasons}")
            log.warning("worker.unhealthy", reason=reasons)
        if not self._engines.providers:
            await self._wait_for_change(None)
        if self._engines.providers and not self._plane.is_registered:
            await self._environment.read()
            await self._plane.enter()
            self._reported_capacity = None

    async def _requeue_missed_job(self, context: RunContext) -> None:
        """Requeues the job of a poll that was just abandoned; otherwise the job would wait until its lease expires.
        A poll with the same id and no providers gets that job and no other. If there is none yet, the control plane
        checks the worker again before it gives the abandoned poll a job."""
        request = PollRequest(wait_seconds=0, poll_id=self._poll_id, providers=[], current_load=len(self._runs))
        try:
            response = await self._plane.poll(request)
        except (Unreachable, RefusedRequest):
            return
        if response.job is not None:
            reason = self.departure.reason or "engine unhealthy"
            await context.reports.send(
                response.job, QueuedReport("requeue", {**lease_of(response.job), "reason": reason})
            )

    async def _leave(self, context: RunContext) -> None:
        reason = self.departure.reason or "stopped"
        log.info("worker.leaving", reason=reason, jobs=len(self._runs))
        for run in list(self._runs):
            if run.stage in ("preparing", "waiting"):
                run.interrupt(reason)
        await self.departure.finish(self._runs)
        for run in list(self._runs):
            run.interrupt(reason)
        if self._runs:
            await asyncio.wait(list(self._runs.values()), timeout=REPORT_SECONDS)
        # While reports are unsent, the token must stay valid: the next agent sends them with it.
        if self._plane.is_registered and context.reports.is_empty:
            with suppress(TimeoutError, OperatorError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._requeue_missed_job(context)
                    await self._plane.leave(reason)
        await self._protection.release()
        log.info("worker.left", reason=reason, reports_left=not context.reports.is_empty)

    def _described(self) -> dict[str, Any]:
        """The versions of this agent, its engines and their packages of custom nodes, for operators."""
        environment = self._environment
        custom = {"custom_nodes": environment.custom_nodes, "custom_node_versions": environment.custom_node_versions}
        known = {name: value for name, value in custom.items() if value}
        return {"agent": __version__, **self._engines.described(), **known}

    def _capabilities(self) -> dict[str, Any]:
        return {**self._described(), **self.config.capabilities}

    def _registration(self) -> RegisterRequest:
        config = self.config
        return RegisterRequest(
            worker_id=config.worker_id,
            max_concurrency=self._engines.all_slots,
            capabilities=self._facts.registered(),
            capacity_type=config.capacity_type or self._identity.capacity_type,
            instance_type=config.instance_type or self._identity.instance_type,
            providers=self._engines.all_providers,
            environment=self._environment.current,
            fleet_slug=config.fleet,
            stage=config.stage,
            workflow_slugs=list(config.workflows) if not config.fleet else None,
        )


def names_of(engines: Sequence[Engine]) -> list[str]:
    """Names for logs: the provider, with a number if it has several engines."""
    kinds = Counter(engine.provider for engine in engines)
    numbers: Counter[str] = Counter()
    names = []
    for engine in engines:
        numbers[engine.provider] += 1
        several = kinds[engine.provider] > 1
        names.append(f"{engine.provider}-{numbers[engine.provider]}" if several else engine.provider)
    return names
