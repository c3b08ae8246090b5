"""Files on their way to storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from callsheet.providers.engine import EngineError
from callsheet.wire.worker.protocol import MAX_ANNOUNCED, AnnouncedOutput, HeartbeatResponse, Upload
from callsheet.worker.agent import transfers as deliveries
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.transfers import Deliverable, TransferFailed, Transfers, deliver


class Keeper:
    ending = None

    def __init__(self) -> None:
        self.announced: list[int] = []

    async def announce(self, outputs: Sequence[AnnouncedOutput]) -> HeartbeatResponse:
        self.announced.append(len(outputs))
        uploads = [Upload(name=each.name, url=f"http://store/{each.name}", headers={}) for each in outputs]
        return HeartbeatResponse(
            lease_expires_at=datetime.now(UTC), lease_ttl_seconds=9, cancel_requested=False, uploads=uploads
        )


class Store:
    """Returns these statuses in turn, then takes everything."""

    def __init__(self, *statuses: int | None):
        self.statuses = list(statuses)
        self.taken: list[str] = []

    async def upload(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        if self.statuses:
            raise TransferFailed("no", self.statuses.pop(0))
        self.taken.append(url.rpartition("/")[2])


def files(count: int) -> list[Deliverable]:
    return [Deliverable(Path(str(n)), f"{n}.png", "image/png", 1, "0" * 64) for n in range(count)]


async def delivered(count: int, store: Store) -> tuple[Keeper, list[dict[str, Any]]]:
    keeper = Keeper()
    found = await deliver(files(count), cast("LeaseKeeper", keeper), cast("Transfers", store))
    return keeper, found


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "backoff_seconds", lambda *_: 0.0)


async def test_many_files_are_announced_in_messages_of_the_maximum_size() -> None:
    store = Store()
    keeper, found = await delivered(2 * MAX_ANNOUNCED + 5, store)
    assert keeper.announced == [MAX_ANNOUNCED, MAX_ANNOUNCED, 5]
    assert len(found) == len(set(store.taken)) == 2 * MAX_ANNOUNCED + 5


async def test_uploads_are_retried_until_storage_is_back_and_only_for_missing_files() -> None:
    store = Store(*[None, 503, 429] * 10)
    keeper, found = await delivered(3, store)
    assert len(keeper.announced) > 10
    assert sorted(store.taken) == ["0.png", "1.png", "2.png"]
    assert [file["name"] for file in found] == ["0.png", "1.png", "2.png"]


async def test_uploads_that_storage_refuses_are_retried_a_limited_number_of_times() -> None:
    with pytest.raises(EngineError) as failed:
        await delivered(1, Store(*[403] * 100))
    assert (failed.value.type, failed.value.retryable) == ("upload_failed", True)
