"""Calls of a provider that calls back, without HTTP routes: a core, the room of webhooks, and the tests' Replicate.

Nothing happens that the test does not do: `work` is the loop's tick, `hurry` makes everything due.

async with open_call_harness(core, ann, tmp_path, replicate) as calls:
    handed, prediction = await calls.waiting()             # submitted, leased, called, deferred
    await calls.call_back(handed, prediction.id, Scenario())   # the prediction ends; signed as Replicate does
    await calls.work()                                     # the loop collects the result
    assert await calls.consumed(handed.job_id)
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from callsheet.jobs.lease.long_poll import LongPoll
from callsheet.jobs.lease.outcomes import Failure, ReportOutcome, StartedLease
from callsheet.jobs.lease.provider_gate import CallReport
from callsheet.media.storage import Storage, open_storage
from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import Callback, Generation, Prediction, WebhookProvider
from callsheet.providers.registry import ActorRegistry, open_registry
from callsheet.settings import Settings
from callsheet.webhooks.room import WebhooksRoom
from callsheet.wire.errors import Refusal
from callsheet.wire.worker.protocol import CallbackAddress
from tests.support.jobs.core import Core, Member, Row, report
from tests.support.providers.provider_services import LOCAL, service_settings
from tests.support.providers.replicate_server import ReplicateServer, Scenario, signed_headers
from tests.support.rooms import webhooks_room

SECRET = b"a secret of at least thirty-two bytes"
PROVIDER = "replicate"
HELD = Scenario(held=True)
COST = 10


@dataclass(frozen=True, slots=True)
class SubmittedCall:
    """A leased job, with the URL for its callback."""

    started: StartedLease
    callback: CallbackAddress

    @property
    def job_id(self) -> UUID:
        return self.started.lease.job_id

    @property
    def callback_id(self) -> str:
        return self.callback.url.rpartition("/")[2]


@dataclass(slots=True)
class CallHarness:
    core: Core
    room: WebhooksRoom
    storage: Storage
    registry: ActorRegistry
    replicate: ReplicateServer
    ann: Member

    @property
    def long_poll(self) -> LongPoll:
        return LongPoll(self.core.room.starter, self.core.room.dispatch.waiters, self.room.gate)

    @property
    def provider(self) -> WebhookProvider:
        return cast("WebhookProvider", self.registry.media[PROVIDER])

    async def submit(self, **changes: Any) -> UUID:
        job = await self.core.submit(self.ann, **{"provider": PROVIDER, "kind": "task", "cost": COST, **changes})
        return job.id

    async def lease(self, worker: str = "worker-1") -> StartedLease:
        return await self.core.start(worker, self.core.criteria(providers=(PROVIDER,)))

    async def hand_over(self, started: StartedLease | None = None) -> SubmittedCall:
        """Hands the next job to a worker, with the URL for the callback."""
        leased = started or await self.lease()
        address = await self.room.gate.admit(leased.lease)
        assert address is not None
        return SubmittedCall(leased, address)

    async def new_call(self, **changes: Any) -> SubmittedCall:
        await self.submit(**changes)
        return await self.hand_over()

    async def call(self, handed: SubmittedCall) -> Prediction:
        """Does what the actor does: checks for an earlier submit, and submits."""
        callback = Callback(handed.callback.url, handed.callback.may_exist)
        found = await self.provider.find(callback) if callback.may_exist else None
        return found or await self.provider.submit(Generation("txt2img", "a cat"), callback)

    async def defer(self, handed: SubmittedCall, prediction_id: str, expires_in: float = 3600) -> ReportOutcome:
        expires = datetime.now(UTC) + timedelta(seconds=expires_in)
        outcome = await self.core.room.leases.defer(report(handed.started), prediction_id, expires)
        if outcome.settled is not None:
            await self.room.gate.record(CallReport("deferred", outcome.settled))
        return outcome

    async def waiting(self, **changes: Any) -> tuple[SubmittedCall, Prediction]:
        """A job whose prediction is in progress."""
        self.replicate.scenario, self.replicate.deliver = HELD, "never"
        handed = await self.new_call(**changes)
        prediction = await self.call(handed)
        await self.defer(handed, prediction.id)
        return handed, prediction

    async def fail(self, handed: SubmittedCall, error_type: str = ProviderUnavailable.TYPE) -> ReportOutcome:
        failure = Failure(error_type, "It did not respond.", retryable=True)
        outcome = await self.core.room.leases.fail(report(handed.started), failure)
        if outcome.settled is not None:
            await self.room.gate.record(CallReport("failed", outcome.settled, failure.type, failure.message))
        return outcome

    async def call_back(
        self,
        handed: SubmittedCall,
        prediction_id: str,
        scenario: Scenario | None = None,
        *,
        message_id: str | None = None,
        age_seconds: float = 0.0,
        secret: str | None = None,
        callback_id: str | None = None,
        provider: str = PROVIDER,
        body: Mapping[str, Any] | bytes | None = None,
    ) -> None:
        """A callback as Replicate signs it; `scenario` ends the prediction first."""
        if scenario is not None:
            self.replicate.end(prediction_id, scenario)
        given = self.replicate.predictions[prediction_id] if body is None else body
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        message = message_id or f"msg_{prediction_id}"
        headers = signed_headers(content, secret or self.replicate.secret, time.time() - age_seconds, message)
        await self.room.callbacks.receive(provider, callback_id or handed.callback_id, headers, content)

    async def refused(self, handed: SubmittedCall, prediction_id: str, **options: Any) -> str:
        """The code of the refusal that a callback must get."""
        with pytest.raises(Refusal) as refused:
            await self.call_back(handed, prediction_id, **options)
        assert refused.value.detail is None, "it tells what was wrong"
        return refused.value.code

    async def work(self) -> None:
        """Does everything that is due, and what results from it."""
        for _ in range(4):
            await self.room.calls.tick(datetime.now(UTC))
            await self.room.calls.settled()

    async def hurry(self) -> None:
        query = "UPDATE provider_calls SET next_at = clock_timestamp() WHERE work IS NOT NULL"
        await self.core.rows(self.core.databases.central, query)

    async def finished(self, handed: SubmittedCall) -> str:
        """The job's status after the loop did what is due."""
        await self.hurry()
        await self.work()
        return await self.core.status(self.ann, handed.job_id)

    async def row(self, handed: SubmittedCall) -> Row:
        query = "SELECT * FROM provider_calls WHERE job_id = $1 ORDER BY charge_cycle DESC LIMIT 1"
        return (await self.core.rows(self.core.databases.central, query, handed.job_id))[0]

    async def lines(self, handed: SubmittedCall) -> list[tuple[str, str, int]]:
        """The recorded callbacks: status, outcome and number of deliveries."""
        query = """SELECT b.status, b.outcome, b.deliveries
                   FROM provider_callbacks b JOIN provider_calls USING (call_id)
                   WHERE job_id = $1 ORDER BY b.received_at"""
        rows = await self.core.rows(self.core.databases.central, query, handed.job_id)
        return [(row["status"], row["outcome"], row["deliveries"]) for row in rows]

    async def breaker(self) -> Row:
        rows = await self.core.rows(
            self.core.databases.central,
            "SELECT *, open_until > clock_timestamp() AS is_open FROM provider_breakers WHERE provider = $1",
            PROVIDER,
        )
        return rows[0] if rows else {"failures": 0, "open_until": None, "is_open": None}

    async def pause_is_over(self) -> None:
        query = (
            "UPDATE provider_breakers SET open_until = clock_timestamp() - interval '1 s' WHERE open_until IS NOT NULL"
        )
        await self.core.rows(self.core.databases.central, query)

    async def objects(self) -> set[str]:
        return {entry.key async for entry in self.storage.list(f"tenants/{self.ann.tenant_id}")}

    async def files(self, job_id: UUID) -> list[Row]:
        query = "SELECT * FROM files WHERE tenant_id = $1 AND job_id = $2 ORDER BY name"
        return await self.core.rows(self.ann.pool, query, self.ann.tenant_id, job_id)

    async def refunded(self, job_id: UUID) -> bool:
        return [line[1] for line in await self.core.ledger(self.ann, job_id)] == ["JOB_RESERVE", "JOB_REFUND"]

    async def consumed(self, job_id: UUID) -> bool:
        return [line[1] for line in await self.core.ledger(self.ann, job_id)] == ["JOB_RESERVE", "JOB_CONSUME"]


def call_settings(home: Path, server: ReplicateServer, **webhooks: Any) -> Settings:
    chosen = {"first_poll_seconds": 600, "fetch_seconds": 5, "breaker_failures": 3, **webhooks}
    return Settings.model_validate(
        {
            "home": home,
            "providers": service_settings(server),
            "outgoing": {"allow_networks": [str(LOCAL)], "max_bytes": 1_000_000},
            "webhooks": chosen,
        }
    )


@asynccontextmanager
async def open_call_harness(
    core: Core, ann: Member, home: Path, server: ReplicateServer, **webhooks: Any
) -> AsyncIterator[CallHarness]:
    """Open two over the same home for two control planes."""
    settings = call_settings(home, server, **webhooks)
    storage = open_storage(settings, SECRET, None)
    registry = open_registry(settings.providers, allow_networks=settings.outgoing.allow_networks)
    room = webhooks_room(
        core.databases,
        storage,
        core.room,
        settings,
        registry.media,
        lambda *message: core.notifications.append(message),
        SECRET,
    )
    try:
        yield CallHarness(core, room, storage, registry, server, ann)
    finally:
        await room.close()
        await registry.close()
        await storage.close()
