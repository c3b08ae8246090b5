"""The alerts in `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.operate.alerts.keeper import AlertKeeper


class AlertMetrics(Collector):
    """The alerts of the last check. Every control plane exports the alerts of all, so one scrape is enough."""

    def __init__(self, keeper: AlertKeeper):
        self._keeper = keeper

    def collect(self) -> Iterable[Metric]:
        alerts = GaugeMetricFamily(
            "callsheet_alert", "1 for each alert that holds.", labels=["code", "severity", "subject", "process"]
        )
        for alert in self._keeper.kept:
            alerts.add_metric([alert.code, alert.severity, alert.subject, alert.process], 1)
        yield alerts
