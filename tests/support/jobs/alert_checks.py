"""The check of alerts, on real rows and a real storage. A test ticks it.

alert_checks = AlertChecks(core, tmp_path, storage)        # `storage` is an opened storage
assert await alert_checks.found("storage_failing") == []   # the alerts of these kinds after a check
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from callsheet.fleet.fleets.capacity import FleetCapacity
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.identity.links.links import Links
from callsheet.identity.links.mail import Mailer
from callsheet.identity.links.mail_sender import MailSender
from callsheet.media.free_space import FreeSpace
from callsheet.media.storage import Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.operate.alerts.current import CurrentAlerts
from callsheet.operate.alerts.keeper import AlertKeeper
from callsheet.plumbing.database.servers.replication_watch import ReplicationWatch
from callsheet.settings import AlertSettings, Settings
from callsheet.wire.operate.operations import Alert, RunsMetrics
from tests.support.jobs.core import Core

URL = "https://callsheet.example.com"


async def no_runs() -> list[RunsMetrics]:
    return []


class AlertChecks:
    def __init__(
        self, core: Core, home: Path, storage: Storage, runs: Callable[[], Awaitable[list[RunsMetrics]]] = no_runs
    ):
        settings = Settings.model_validate({"home": home, "server": {"public_url": URL}})
        self._core = core
        current = CurrentAlerts(
            core.databases,
            FleetOverview(core.databases, [], {}, runs),
            FleetCapacity(core.databases),
            MailSender(core.databases, Mailer(settings.mail), Links(settings)),
            storage,
            StorageOwner(core.databases),
            FreeSpace(settings),
            ReplicationWatch(core.databases),
            settings,
        )
        self._keeper = AlertKeeper(core.databases, current, AlertSettings(), "studio:1", URL)

    async def found(self, *codes: str) -> list[Alert]:
        """The alerts of these kinds after a check."""
        async with self._core.databases.central.connection() as connection:
            await connection.execute("UPDATE alert_checks SET started_at = '-infinity'")
        await self._keeper.tick(datetime.now(UTC))
        return [alert for alert in await self._keeper.last() if alert.code in codes]
