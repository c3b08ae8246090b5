"""The alerts: the parts that check and send them, and their routes."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from prometheus_client.registry import Collector

from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.fleet.room import FleetRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.room import AccountLinks
from callsheet.media.room import MediaRoom
from callsheet.operate.alerts.current import CurrentAlerts
from callsheet.operate.alerts.keeper import AlertKeeper
from callsheet.operate.alerts.metrics import AlertMetrics
from callsheet.operate.alerts.routes import alerts_router
from callsheet.operate.alerts.sender import AlertSender
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.servers.replication_watch import ReplicationMetrics, ReplicationWatch
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class AlertsRoom(Room):
    keeper: AlertKeeper
    sender: AlertSender
    alert_metrics: AlertMetrics
    replication: ReplicationWatch

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.keeper, self.sender, self.replication

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return self.alert_metrics, ReplicationMetrics(self.replication)


def open_alerts(
    databases: Databases,
    settings: Settings,
    links: AccountLinks,
    fleet: FleetRoom,
    media: MediaRoom,
    overview: FleetOverview,
) -> AlertsRoom:
    """Opens the room. An alert is raised if a loop of `overview` fails."""
    storage, replication = media.files.storage, ReplicationWatch(databases)
    current = CurrentAlerts(
        databases, overview, fleet.capacity, links.mails, storage, media.owner, media.free_space, replication, settings
    )
    process = f"{socket.gethostname()}:{os.getpid()}"
    keeper = AlertKeeper(databases, current, settings.alerts, process, settings.public_url)
    sender = AlertSender(databases, links.mailer, settings.alerts)
    return AlertsRoom(keeper, sender, AlertMetrics(keeper), replication)


def alerts_routers(alerts: AlertsRoom, authentication: Authentication) -> list[Router]:
    return [alerts_router(alerts.keeper, authentication)]
