"""The metrics of `/metrics`. Each application has its own registry, because a test process may have two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet import __version__
from callsheet.toolbox.loops import Loop

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class HttpMetrics:
    def __init__(self, registry: CollectorRegistry):
        self._requests = Counter(
            "callsheet_http_requests", "Requests served.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "callsheet_http_request_seconds",
            "Time until the response to a request.",
            ["method", "route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        # Clients may send any method, so unknown ones share one label: each label makes a series.
        method = method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
        series = self._series.get((method, route, status))
        if series is None:
            # A look-up by labels takes ten times as long as counting, so it is cached.
            series = (self._requests.labels(method, route, str(status)), self._seconds.labels(method, route))
            self._series[method, route, status] = series
        requests, duration = series
        requests.inc()
        duration.observe(seconds)


class ReconcilerMetrics(Collector):
    """Repairs of the reconciler by kind. All kinds start at 0, so that the first repair shows as an increase."""

    def __init__(self, healed: Mapping[str, int]):
        self._healed = healed

    def collect(self) -> Iterable[Metric]:
        reconciled = CounterMetricFamily(
            "callsheet_reconciled", "Discrepancies between jobs and dispatches that were repaired.", labels=["kind"]
        )
        for kind, count in self._healed.items():
            reconciled.add_metric([kind], count)
        yield reconciled


class ProcessMetrics(Collector):
    """Loops and database connections, read at each scrape."""

    def __init__(self, loops: Iterable[Loop], connections: Callable[[], Iterable[tuple[str, int, int]]]):
        self._loops = loops
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("callsheet_build", "Version of this process.", {"version": __version__})
        ticks = GaugeMetricFamily("callsheet_loop_ticks", "Ticks of a loop.", labels=["loop"])
        failures = GaugeMetricFamily("callsheet_loop_failures", "Failed ticks of a loop.", labels=["loop"])
        for loop in self._loops:
            ticks.add_metric([loop.name], loop.ticks)
            failures.add_metric([loop.name], loop.failures)
        open_connections = GaugeMetricFamily(
            "callsheet_database_connections", "Database connections of this process.", labels=["database", "state"]
        )
        for name, size, idle in self._connections():
            open_connections.add_metric([name, "idle"], idle)
            open_connections.add_metric([name, "busy"], size - idle)
        yield from (ticks, failures, open_connections)
