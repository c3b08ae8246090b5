"""A provider in memory that calls back. It is reliable, so every error is the product's. It makes texts only."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import Callback, CallbackRefused, Concurrency, Finish, Generation, Prediction
from callsheet.wire.errors import FieldProblem

NAME = "oracle"


@dataclass(slots=True)
class MemoryProvider:
    name: str = NAME
    finish: Finish = Finish.WEBHOOK
    actions: frozenset[str] = frozenset({"say"})
    run_limit_seconds: int = 600
    callback_seconds: float = 3600.0
    is_down: bool = False
    predictions: dict[str, Prediction] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        return ()

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return None

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {}

    async def close(self) -> None:
        return

    async def submit(self, generation: Generation, callback: Callback) -> Prediction:
        self._response()
        made = Prediction(f"p{next(self._numbers)}", "running", callback_url=callback.url)
        self.predictions[made.id] = made
        return made

    async def find(self, callback: Callback) -> Prediction | None:
        self._response()
        return next((each for each in self.predictions.values() if each.callback_url == callback.url), None)

    async def get(self, provider_job_id: str) -> Prediction:
        self._response()
        return self.predictions[provider_job_id]

    async def cancel(self, provider_job_id: str) -> None:
        self._response()
        self.end(provider_job_id, "canceled")

    async def read_callback(self, headers: Mapping[str, str], body: bytes, now: float) -> Prediction:
        if headers.get("signed") != "yes":
            raise CallbackRefused("it is not signed")
        return self.predictions[json.loads(body)]

    def end(self, prediction_id: str, status: Literal["succeeded", "failed", "canceled"]) -> None:
        """Ends the job. A job that has ended does not change."""
        found = self.predictions[prediction_id]
        if found.status == "running":
            text = "forty-two" if status == "succeeded" else None
            self.predictions[prediction_id] = replace(found, status=status, text=text)

    def _response(self) -> None:
        if self.is_down:
            raise ProviderUnavailable(NAME, "The provider does not respond.")
