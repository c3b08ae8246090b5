"""Metrics of scaled fleets for `/metrics`. Only the control plane that leads exports the gauges of fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.scaling.driver import ScaledFleet

LABELS = ["fleet", "stage"]


class ScalingNumbers(Collector):
    def __init__(self) -> None:
        self._leads = False
        self._names: dict[int, tuple[str, str]] = {}
        self._wanted: dict[int, int] = {}
        self._actual: dict[int, int] = {}
        self._queued: dict[int, float] = {}
        self._decisions: Counter[tuple[str, str, str]] = Counter()
        self._failures: Counter[tuple[str, str]] = Counter()

    def clear(self) -> None:
        """Called if this control plane does not lead."""
        self._leads = False
        self.forget_others(())

    def forget_others(self, fleet_ids: Collection[int]) -> None:
        for fleet_id in self._names.keys() - set(fleet_ids):
            del self._names[fleet_id], self._queued[fleet_id]
            self._wanted.pop(fleet_id, None)
            self._actual.pop(fleet_id, None)

    def queued(self, fleet: ScaledFleet, seconds: float) -> None:
        self._leads = True
        self._names[fleet.id] = (fleet.slug, fleet.stage)
        self._queued[fleet.id] = seconds

    def saw(self, fleet: ScaledFleet, wanted: int, actual: int) -> None:
        self._wanted[fleet.id] = wanted
        self._actual[fleet.id] = actual

    def decided(self, fleet: ScaledFleet, cause: str) -> None:
        self._decisions[fleet.slug, fleet.stage, cause] += 1

    def failed(self, fleet: ScaledFleet) -> None:
        self._failures[fleet.slug, fleet.stage] += 1

    def collect(self) -> Iterable[Metric]:
        leads = GaugeMetricFamily("callsheet_autoscaler_leads", "Whether this process scales the fleets.")
        leads.add_metric([], float(self._leads))
        yield leads
        for name, text, values in (
            ("callsheet_fleet_wanted_workers", "Workers that a fleet should have.", self._wanted),
            ("callsheet_fleet_actual_workers", "Workers of a fleet that take work.", self._actual),
            ("callsheet_fleet_queue_seconds", "Seconds of work that wait for a fleet.", self._queued),
        ):
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            for fleet_id, value in values.items():
                gauge.add_metric(self._names[fleet_id], value)
            yield gauge
        decisions = CounterMetricFamily(
            "callsheet_scaling_decisions", "Decisions that this process recorded.", labels=[*LABELS, "cause"]
        )
        for labels, count in self._decisions.items():
            decisions.add_metric(labels, count)
        failures = CounterMetricFamily(
            "callsheet_scaling_driver_errors", "Calls of drivers that failed.", labels=LABELS
        )
        for fleet, count in self._failures.items():
            failures.add_metric(fleet, count)
        yield from (decisions, failures)
