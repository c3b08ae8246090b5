"""A provider that never calls back: it records the requests that it got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.providers.media import Callback, Concurrency, Finish, Generation, Prediction
from callsheet.wire.errors import FieldProblem


@dataclass
class RecordingProvider:
    name: str = "recording"
    finish: Finish = Finish.WEBHOOK
    actions: frozenset[str] = frozenset({"txt2img"})
    paid: bool = False
    run_limit_seconds: int = 60
    callback_seconds: float = 3600
    calls: list[str] = field(default_factory=list)
    taken: dict[str, Prediction] = field(default_factory=dict)

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        return ()

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return None

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {}

    async def submit(self, generation: Generation, callback: Callback) -> Prediction:
        self.calls.append("submit")
        prediction = Prediction(f"prediction-{len(self.taken) + 1}", "running")
        return self.taken.setdefault(callback.url, prediction)

    async def find(self, callback: Callback) -> Prediction | None:
        self.calls.append("find")
        return self.taken.get(callback.url)

    async def get(self, provider_job_id: str) -> Prediction:
        return Prediction(provider_job_id, "running")

    async def cancel(self, provider_job_id: str) -> None:
        self.calls.append("cancel")

    async def read_callback(self, headers: Mapping[str, str], body: bytes, now: float) -> Prediction:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to close."""
