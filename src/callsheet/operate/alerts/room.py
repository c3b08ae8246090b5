"""The alerts: the parts that check and send them, and their routes."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.links.mail import Mailer
from callsheet.operate.alerts.current import CurrentAlerts
from callsheet.operate.alerts.keeper import AlertKeeper
from callsheet.operate.alerts.metrics import AlertMetrics
from callsheet.operate.alerts.routes import alerts_router
from callsheet.operate.alerts.sender import AlertSender
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class AlertsRoom:
    keeper: AlertKeeper
    sender: AlertSender
    metrics: AlertMetrics

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.keeper, self.sender


def open_alerts(databases: Databases, current: CurrentAlerts, settings: Settings) -> AlertsRoom:
    process = f"{socket.gethostname()}:{os.getpid()}"
    keeper = AlertKeeper(databases, current, settings.alerts, process, settings.public_url)
    sender = AlertSender(databases, Mailer(settings.mail), settings.alerts)
    return AlertsRoom(keeper, sender, AlertMetrics(keeper))


def alerts_routers(alerts: AlertsRoom, authentication: Authentication) -> list[Router]:
    return [alerts_router(alerts.keeper, authentication)]
