"""A Patroni cluster with etcd and HAProxy fails over under load. `make chaos-patroni` runs it where they are installed.

Patroni keeps the standby synchronous, so every accepted job ends once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.settings import Settings
from tests.chaos.failover import open_failover
from tests.support.database.installation import Which
from tests.support.database.patroni import Cluster, patroni_cluster
from tests.support.waiting import until

DATABASES = pytest.mark.parametrize("which", ["central", "pool"])
# A leader that does not answer loses its place after twenty seconds, and comes back as a standby after more.
RETURNS_SECONDS = 120.0


@pytest.fixture
async def cluster(pytestconfig: pytest.Config) -> AsyncIterator[Cluster]:
    async with patroni_cluster(pytestconfig.getoption("--patroni")) as cluster:
        yield cluster


@DATABASES
async def test_g1_g2_g12_the_machine_of_the_leader_fails_behind_haproxy(
    which: Which, cluster: Cluster, settings: Settings, tmp_path: Path
) -> None:
    async with open_failover(which, cluster.through_haproxy, settings, tmp_path) as failover:
        leader, standby = await cluster.roles()
        leader.kill()
        await cluster.is_led_by(standby)
        await failover.goes_on("killed, HAProxy")
    await failover.lost_nothing()


@DATABASES
async def test_g1_g2_g12_the_leader_is_frozen_and_thawed(
    which: Which, cluster: Cluster, settings: Settings, tmp_path: Path
) -> None:
    async with open_failover(which, cluster.by_hosts, settings, tmp_path) as failover:
        leader, standby = await cluster.roles()
        leader.freeze()
        await cluster.is_led_by(standby)
        await failover.goes_on("frozen, hosts")
        leader.thaw()
        await until(leader.is_standby, RETURNS_SECONDS)
        await failover.goes_on("thawed, hosts")
    await failover.lost_nothing()


@pytest.mark.parametrize("way", ["HAProxy", "hosts"])
async def test_g1_g2_g12_an_administrator_switches_over_and_back(
    way: str, cluster: Cluster, settings: Settings, tmp_path: Path
) -> None:
    dsn_of = cluster.through_haproxy if way == "HAProxy" else cluster.by_hosts
    async with open_failover("central", dsn_of, settings, tmp_path) as failover:
        for case in ("switched over", "switched back"):
            leader, standby = await cluster.roles()
            await cluster.switch_over(leader, standby)
            await cluster.is_led_by(standby)
            await failover.goes_on(f"{case}, {way}")
    await failover.lost_nothing()
