"""Metrics of providers: callbacks and calls by outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

CallbackOutcome = Literal["taken", "late", "duplicate", "refused", "progress"]
CallOutcome = Literal["answered", "failed", "paused"]


class CallMetrics(Collector):
    """Counts of this process. A callback with an unknown provider name counts as `unknown`."""

    def __init__(self) -> None:
        self._callbacks: Counter[tuple[str, CallbackOutcome]] = Counter()
        self._calls: Counter[tuple[str, CallOutcome]] = Counter()

    def callback(self, provider: str, outcome: CallbackOutcome) -> None:
        self._callbacks[provider, outcome] += 1

    def call(self, provider: str, outcome: CallOutcome) -> None:
        self._calls[provider, outcome] += 1

    def collect(self) -> Iterable[Metric]:
        callbacks = CounterMetricFamily(
            "callsheet_provider_callbacks",
            "Callbacks that were received, by outcome.",
            labels=["provider", "outcome"],
        )
        for (provider, outcome), count in sorted(self._callbacks.items()):
            callbacks.add_metric([provider, outcome], count)
        yield callbacks
        calls = CounterMetricFamily(
            "callsheet_provider_calls",
            "Calls to providers: succeeded, failed, or not made because the provider is paused.",
            labels=["provider", "outcome"],
        )
        for (provider, result), count in sorted(self._calls.items()):
            calls.add_metric([provider, result], count)
        yield calls
