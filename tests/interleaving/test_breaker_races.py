"""Two control planes and one provider that is half open: the second waits for the first, and finds the trial call
taken."""

from __future__ import annotations

import pytest

from callsheet.jobs.lease.provider_gate import ProviderPaused
from callsheet.settings import WebhookSettings
from callsheet.webhooks.breaker_rules import Call
from callsheet.webhooks.breakers import Breakers
from callsheet.webhooks.metrics import CallMetrics
from tests.support.jobs.core import Core, report
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import start_blocked

PROVIDER = "replicate"
HALF_OPEN = """INSERT INTO provider_breakers (provider, failures, open_until, pause_seconds)
               VALUES ($1, 5, clock_timestamp() - interval '1 s', 30)"""


def breakers(core: Core) -> Breakers:
    return Breakers(core.databases, WebhookSettings(), lambda *message: None, CallMetrics(), lambda provider: None)


async def leased(race: Race, core: Core) -> Call:
    await core.submit(race.ann, provider=PROVIDER)
    started = await core.start(criteria=core.criteria(providers=(PROVIDER,)))
    return Call(PROVIDER, started.lease.tenant_id, started.lease.dispatch_id, started.lease.lease_seq)


async def test_the_second_of_two_concurrent_calls_waits_and_is_refused(race: Race) -> None:
    await race.one.rows(race.one.databases.central, HALF_OPEN, PROVIDER)
    first, second = await leased(race, race.one), await leased(race, race.two)
    async with race.one.databases.central.transaction() as connection:
        await breakers(race.one).admit(connection, first)
        [task] = await start_blocked(race.central, breakers(race.two).permit(second))
    with pytest.raises(ProviderPaused):
        await task


async def test_a_call_that_waited_while_the_trial_closed_the_breaker_is_admitted(race: Race) -> None:
    await race.one.rows(race.one.databases.central, HALF_OPEN, PROVIDER)
    first, second = await leased(race, race.one), await leased(race, race.two)
    async with race.one.databases.central.transaction() as connection:
        one = breakers(race.one)
        await one.admit(connection, first)
        [task] = await start_blocked(race.central, breakers(race.two).permit(second))
        await connection.execute(
            """UPDATE provider_breakers SET failures = 0, open_until = NULL, pause_seconds = NULL,
               trial_dispatch_id = NULL, trial_lease_seq = NULL"""
        )
    assert await task is None


async def test_failures_that_are_reported_at_once_are_all_counted(race: Race) -> None:
    first, second = await leased(race, race.one), await leased(race, race.two)
    async with race.one.databases.central.transaction() as connection:
        await connection.execute("INSERT INTO provider_breakers (provider, failures) VALUES ($1, 1)", PROVIDER)
        tasks = await start_blocked(
            race.central, breakers(race.two).failed(first, "down"), breakers(race.two).failed(second, "down")
        )
    for task in tasks:
        await task
    [row] = await race.one.rows(race.central, "SELECT failures FROM provider_breakers")
    assert row["failures"] == 3


async def test_a_requeued_lease_frees_the_place_of_the_trial(race: Race) -> None:
    await race.one.rows(race.one.databases.central, HALF_OPEN, PROVIDER)
    await race.one.submit(race.ann, provider=PROVIDER)
    started = await race.one.start(criteria=race.one.criteria(providers=(PROVIDER,)))
    first = Call(PROVIDER, started.lease.tenant_id, started.lease.dispatch_id, started.lease.lease_seq)
    second = await leased(race, race.two)
    await breakers(race.one).permit(first)
    await race.one.room.leases.requeue(report(started), "spot notice")
    await breakers(race.two).permit(second)
    with pytest.raises(ProviderPaused):
        await breakers(race.one).permit(first)
