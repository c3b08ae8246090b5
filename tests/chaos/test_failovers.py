"""The server of central or of a pool fails over under load, with two control planes: every accepted job ends once, and
writes go on soon after the new primary accepts them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.settings import Settings
from tests.chaos.failover import open_failover
from tests.support.database.installation import Which
from tests.support.database.replication import Pair
from tests.support.waiting import until

pytestmark = pytest.mark.thorough
DATABASES = pytest.mark.parametrize("which", ["central", "pool"])


@DATABASES
async def test_g1_g2_g12_the_primary_is_killed_and_its_standby_promoted(
    which: Which, pair: Pair, settings: Settings, tmp_path: Path
) -> None:
    await pair.make_synchronous()
    async with open_failover(which, pair.dsn, settings, tmp_path) as failover:
        await pair.primary.kill()
        await pair.standby.promote()
        await failover.goes_on("killed")
    await failover.lost_nothing()


@DATABASES
async def test_g1_g2_g12_the_primary_is_frozen_and_thawed_when_another_one_serves(
    which: Which, pair: Pair, settings: Settings, tmp_path: Path
) -> None:
    await pair.make_synchronous()
    async with open_failover(which, pair.dsn, settings, tmp_path) as failover:
        pair.primary.freeze()
        await pair.standby.promote()
        await failover.goes_on("frozen")
        pair.primary.thaw()
        await failover.goes_on("thawed")
        # The pulse also looks at the other hosts of the DSN, for a moment. A commit from before waits for its standby
        # forever, although its client has gone.
        users = """SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'callsheet' AND wait_event IS DISTINCT FROM 'SyncRep'"""

        async def has_no_users() -> bool:
            return await pair.primary.value(users) == 0

        await until(has_no_users)
    await failover.lost_nothing()


@DATABASES
async def test_g1_g2_g12_the_old_primary_stays_up_read_only_and_returns_as_a_standby(
    which: Which, pair: Pair, settings: Settings, tmp_path: Path
) -> None:
    await pair.make_synchronous()
    async with open_failover(which, pair.dsn, settings, tmp_path) as failover:
        await pair.primary.set("default_transaction_read_only", "'on'")
        await until(lambda: failover.load.statuses[503])
        if which == "pool":
            await failover.refuses_writes()
        await pair.standby.promote()
        await failover.goes_on("read-only")
        await pair.primary.stop()
        await pair.primary.rewind(pair.standby)
        await pair.primary.start()
        assert await pair.primary.value("SELECT pg_is_in_recovery()") is True
        await failover.goes_on("rewound")
    await failover.lost_nothing()


@DATABASES
async def test_g2_the_ledger_is_exact_after_a_failover_to_a_standby_that_lagged_behind(
    which: Which, pair: Pair, settings: Settings, tmp_path: Path
) -> None:
    async with open_failover(which, pair.dsn, settings, tmp_path) as failover:
        await pair.standby.stop()
        await failover.load.goes_on()
        await failover.load.goes_on()
        await pair.primary.kill()
        await pair.standby.start()
        await pair.standby.promote()
        await failover.goes_on("lagging")
    # What only the old primary had is lost, and what is left contradicts itself nowhere.
    await failover.ends()
