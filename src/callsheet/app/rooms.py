"""All rooms of a process. The control plane and the commands open the same rooms, and no other module opens one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

from callsheet.settings import Settings

if TYPE_CHECKING:
    from callsheet.app.in_process.runner import TaskRunner
    from callsheet.batches.room import BatchesRoom
    from callsheet.budgets.room import BudgetsRoom
    from callsheet.catalog.room import CatalogRoom
    from callsheet.deliveries.room import DeliveriesRoom
    from callsheet.dispatch.room import DispatchRoom
    from callsheet.effects.room import EffectsRoom
    from callsheet.fleet.operate.metrics import FleetOverview
    from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
    from callsheet.fleet.room import FleetRoom
    from callsheet.fleet.worker_api import WorkerApi
    from callsheet.identity.accounts.deletion import UserDeletion
    from callsheet.identity.room import AccountsRoom, IdentityRoom
    from callsheet.jobs.room import JobsApi, JobsRoom
    from callsheet.library.room import LibraryRoom
    from callsheet.media.free_space import FreeSpace
    from callsheet.media.room import MediaRoom
    from callsheet.media.storage import Storage
    from callsheet.media.storage.owner import StorageOwner
    from callsheet.media.usage import StorageUsage
    from callsheet.operate.alerts.room import AlertsRoom
    from callsheet.operate.all_jobs.room import AllJobsRoom
    from callsheet.operate.statistics.room import StatisticsRoom
    from callsheet.pipelines.room import PipelinesRoom
    from callsheet.plumbing.database.databases import Databases
    from callsheet.plumbing.database.notify import Notifier
    from callsheet.plumbing.room import Room
    from callsheet.providers.registry import ActorRegistry
    from callsheet.scaling.room import ScalingRoom
    from callsheet.tasks.room import TasksRoom
    from callsheet.toolbox.loops import Loop
    from callsheet.toolbox.signing import Master
    from callsheet.wallet.room import WalletRoom
    from callsheet.webhooks.room import WebhooksRoom


class Rooms:
    """Each room is opened once, when it is first used. So a command opens only the rooms that it needs, and the modules
    of the others are not imported (decision 0050). A room gets the functions of a higher room at construction.

    To open a room starts no loop, no listener and no server, and registers no metrics: the control plane does.
    """

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        read_secret: Callable[[], Master],
        providers: ActorRegistry | None = None,
        process_loops: Sequence[Loop] = (),
    ):
        """Default `providers`: those in the settings. `process_loops`: loops of the process, which the operators see
        with those of the rooms.
        """
        self.settings = settings
        self.databases = databases
        self._read_secret = read_secret
        self._given_providers = providers
        self._process_loops = process_loops
        self._undo = AsyncExitStack()

    async def close(self) -> None:
        """Closes what was opened."""
        await self._undo.aclose()

    @cached_property
    def secret(self) -> Master:
        """The secret key. A machine without it may run commands that need none."""
        return self._read_secret()

    @cached_property
    def storage_owner(self) -> StorageOwner:
        from callsheet.media.storage.owner import StorageOwner

        return StorageOwner(self.databases)

    @cached_property
    def storage(self) -> Storage:
        from callsheet.media.storage import open_storage

        storage = open_storage(self.settings, self.secret, self.storage_owner)
        self._undo.push_async_callback(storage.close)
        return storage

    @cached_property
    def notifier(self) -> Notifier:
        from callsheet.plumbing.database.notify import Notifier

        notifier = Notifier(self.databases.central)
        self._undo.push_async_callback(notifier.close)
        return notifier

    @cached_property
    def providers(self) -> ActorRegistry:
        from callsheet.providers.registry import open_registry

        chosen = self.settings
        providers = self._given_providers or open_registry(
            chosen.providers, allow_networks=chosen.outgoing.allow_networks
        )
        self._undo.push_async_callback(providers.close)
        return providers

    @cached_property
    def accounts(self) -> AccountsRoom:
        from callsheet.identity.room import open_accounts

        return open_accounts(self.databases, self.settings)

    @cached_property
    def identity(self) -> IdentityRoom:
        from callsheet.identity.room import open_identity

        return open_identity(self.databases, self.settings, self.secret, self.accounts)

    @cached_property
    def storage_usage(self) -> StorageUsage:
        from callsheet.media.usage import StorageUsage

        return StorageUsage(self.databases, self.accounts.quotas)

    @cached_property
    def free_space(self) -> FreeSpace:
        from callsheet.media.free_space import FreeSpace

        return FreeSpace(self.settings)

    @cached_property
    def media(self) -> MediaRoom:
        from callsheet.media.room import open_media

        return open_media(
            self.databases,
            self.storage,
            self.settings,
            self.secret,
            self.storage_owner,
            self.storage_usage,
            self.free_space,
        )

    @cached_property
    def catalog(self) -> CatalogRoom:
        from callsheet.catalog.room import open_catalog

        return open_catalog(
            self.databases,
            self.storage,
            self.storage_owner,
            self.settings,
            self.media.preview_urls,
            self.free_space.require_for,
        )

    @cached_property
    def dispatch(self) -> DispatchRoom:
        from callsheet.dispatch.room import open_dispatch

        return open_dispatch(self.databases.central, self.notifier.notify, self.settings.jobs)

    @cached_property
    def jobs(self) -> JobsRoom:
        from callsheet.fleet.registry.held_leases import ExpiredLeases
        from callsheet.jobs.room import open_jobs
        from callsheet.jobs.submit.active_limits import ActiveLimits
        from callsheet.tasks.scraped_products import with_product

        return open_jobs(
            self.databases,
            self.notifier.notify,
            self.settings.jobs,
            dispatch=self.dispatch,
            routing=self.accounts.routing,
            limits=ActiveLimits.from_settings(self.settings),
            usage=self.storage_usage,
            require_space=self.free_space.require,
            reaped=ExpiredLeases(self.databases).record,
            stored=with_product,
        )

    @cached_property
    def effects(self) -> EffectsRoom:
        from callsheet.effects.room import open_effects

        return open_effects(self.databases, self.catalog, self.media, self.jobs)

    @cached_property
    def fleet(self) -> FleetRoom:
        from callsheet.fleet.room import open_fleet

        return open_fleet(self.databases, self.settings.fleet, self.secret, self.jobs.leases)

    @cached_property
    def webhooks(self) -> WebhooksRoom:
        from callsheet.webhooks.room import open_webhooks

        webhooks = open_webhooks(
            self.databases,
            self.storage,
            self.jobs,
            self.notifier.notify,
            self.settings,
            self.secret,
            self.providers.media,
            self.providers.services,
        )
        self._undo.push_async_callback(webhooks.close)
        return webhooks

    @cached_property
    def deliveries(self) -> DeliveriesRoom:
        from callsheet.deliveries.room import open_deliveries

        deliveries = open_deliveries(self.databases, self.settings, self.secret)
        self._undo.push_async_callback(deliveries.close)
        return deliveries

    @cached_property
    def budgets(self) -> BudgetsRoom:
        from callsheet.budgets.room import open_budgets

        return open_budgets(self.databases, self.identity)

    @cached_property
    def protocol(self) -> WorkerProtocol:
        from callsheet.fleet.protocol.worker_protocol import open_protocol

        return open_protocol(self.databases, self.storage, self.jobs, self.fleet, self.settings, self.webhooks.gate)

    @cached_property
    def worker_api(self) -> WorkerApi:
        from callsheet.fleet.worker_api import open_worker_api

        return open_worker_api(self.settings, self.secret, self.identity, self.fleet, self.protocol)

    @cached_property
    def task_runner(self) -> TaskRunner | None:
        """None if tasks are left to other machines."""
        from callsheet.app.in_process.room import open_task_runner

        return open_task_runner(self.settings, self.fleet, self.protocol, self.providers)

    @cached_property
    def tasks(self) -> TasksRoom:
        from callsheet.tasks.room import open_tasks

        return open_tasks(
            self.databases,
            self.jobs,
            self.effects.effect_jobs,
            self.providers,
            self.settings.tasks,
            self.task_runner,
            self.webhooks.gate,
        )

    @cached_property
    def jobs_api(self) -> JobsApi:
        from callsheet.jobs.room import open_jobs_api

        return open_jobs_api(
            self.databases,
            self.jobs,
            self.identity,
            self.media,
            self.fleet.capacity.of,
            self.webhooks.gate,
            self.settings.jobs,
        )

    @cached_property
    def pipelines(self) -> PipelinesRoom:
        from callsheet.pipelines.room import open_pipelines

        return open_pipelines(
            self.databases, self.catalog, self.media, self.jobs, self.settings.pipelines, self.tasks.for_runs
        )

    @cached_property
    def user_deletion(self) -> UserDeletion:
        from callsheet.identity.accounts.deletion import UserDeletion
        from callsheet.pipelines.run.user_work import JobsAndRunsOfUser

        work = JobsAndRunsOfUser(self.databases, self.pipelines.runs, self.jobs.cancellation)
        return UserDeletion(self.databases, self.accounts.management, work)

    @cached_property
    def library(self) -> LibraryRoom:
        from callsheet.library.room import open_library

        return open_library(self.databases, self.catalog, self.media, self.jobs, self.jobs_api.reader, self.settings)

    @cached_property
    def batches(self) -> BatchesRoom:
        from callsheet.batches.room import open_batches

        return open_batches(
            self.databases,
            self.catalog.effects,
            self.effects.effect_jobs,
            self.jobs,
            self.library.downloads,
            self.settings.jobs,
        )

    @cached_property
    def wallet(self) -> WalletRoom:
        from callsheet.wallet.room import open_wallet

        return open_wallet(self.databases)

    @cached_property
    def scaling(self) -> ScalingRoom:
        from callsheet.scaling.room import open_scaling

        return open_scaling(self.databases, self.settings, self.fleet.fleet_tokens)

    @cached_property
    def statistics(self) -> StatisticsRoom:
        from callsheet.operate.statistics.room import open_statistics

        return open_statistics(self.databases, self.settings)

    @cached_property
    def all_jobs(self) -> AllJobsRoom:
        from callsheet.operate.all_jobs.room import open_all_jobs

        return open_all_jobs(self.databases, self.catalog.effects, self.jobs, self.jobs_api.dispatches)

    @cached_property
    def alerts(self) -> AlertsRoom:
        from callsheet.operate.alerts.room import open_alerts

        overview = self.overview_of((*self._process_loops, *_loops_of(self._watched)))
        return open_alerts(self.databases, self.settings, self.identity.links, self.fleet, self.media, overview)

    def overview_of(self, loops: Sequence[Loop]) -> FleetOverview:
        from callsheet.fleet.operate.metrics import FleetOverview

        return FleetOverview(self.databases, loops, self.jobs.reconciler.healed, self.pipelines.numbers.read)

    @property
    def _watched(self) -> tuple[Room, ...]:
        """The rooms whose loops raise an alert if they fail: all but the alerts themselves."""
        return (
            *(self.identity, self.media, self.catalog, self.dispatch, self.jobs, self.effects, self.fleet),
            *(self.webhooks, self.protocol, self.tasks, self.pipelines, self.library, self.wallet, self.scaling),
            *(self.statistics, self.all_jobs, self.deliveries, self.batches, self.budgets),
        )

    @property
    def all(self) -> tuple[Room, ...]:
        """Every room, from the lowest to the highest."""
        return (*self._watched, self.alerts)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (*self._process_loops, *_loops_of(self.all))


def _loops_of(rooms: Sequence[Room]) -> list[Loop]:
    return [loop for room in rooms for loop in room.loops]


@asynccontextmanager
async def open_installation_rooms(settings: Settings) -> AsyncIterator[Rooms]:
    """The rooms of an existing installation, for a command. Creates and migrates nothing."""
    from callsheet.plumbing.database.databases import open_installation
    from callsheet.plumbing.installation.secrets import master_secret

    databases = await open_installation(settings)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(databases.close)
        rooms = Rooms(settings, databases, partial(master_secret, settings, create=False))
        undo.push_async_callback(rooms.close)
        yield rooms
