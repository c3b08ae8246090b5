"""The provider in memory of the tests, with predictions in files that outlive the process, as a real service has."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from callsheet.providers.media import Callback, Generation, Prediction
from tests.support.providers.memory_provider import MemoryProvider

Way = Literal["succeeded", "failed", "never"]
WAYS: tuple[Way, ...] = ("succeeded", "succeeded", "succeeded", "failed", "never")


@dataclass(slots=True)
class LastingProvider(MemoryProvider):
    """Each line of `book` is a prediction: its id and where it calls back."""

    book: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        self.book.touch()
        for line in self.book.read_text().rpartition("\n")[0].splitlines():
            prediction_id, url = line.split()
            self._begin(Prediction(prediction_id, "running", callback_url=url))

    async def submit(self, generation: Generation, callback: Callback) -> Prediction:
        # Number and process: two lives of the program never make the same.
        name = f"{os.getpid()}-{len(self.predictions)}-{callback.url}"
        made = Prediction(sha256(name.encode()).hexdigest()[:26], "running", callback_url=callback.url)
        with self.book.open("a") as book:
            book.write(f"{made.id} {callback.url}\n")
        return self._begin(made)

    def _begin(self, prediction: Prediction) -> Prediction:
        self.predictions[prediction.id] = prediction
        way = way_of(prediction.id)
        if way != "never":
            self.end(prediction.id, way)
        return prediction


def way_of(prediction_id: str) -> Way:
    return WAYS[int(prediction_id, 16) % len(WAYS)]
