"""Temporary keys are renewed beside the event loop, and waited for only when they are about to die."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from botocore.credentials import RefreshableCredentials

from callsheet.media.storage.s3_credentials import ChainCredentials

START = datetime(2026, 1, 1, tzinfo=UTC)


class KeyService:
    """Hands out keys that are valid for an hour, when the test lets it respond."""

    def __init__(self) -> None:
        self.now = START
        self.issued = 0
        self.may_response = threading.Event()
        self.may_response.set()

    def issue(self) -> dict[str, str]:
        assert self.may_response.wait(30)
        self.issued += 1
        expiry = (self.now + timedelta(hours=1)).isoformat()
        return {"access_key": f"key-{self.issued}", "secret_key": "secret", "token": "token", "expiry_time": expiry}

    def open(self) -> ChainCredentials:
        first = self.issue()
        expiry = datetime.fromisoformat(first.pop("expiry_time"))
        return ChainCredentials(
            RefreshableCredentials(
                **first, expiry_time=expiry, refresh_using=self.issue, method="test", time_fetcher=lambda: self.now
            )
        )


def test_credentials_are_cached_while_they_are_valid() -> None:
    service = KeyService()
    credentials = service.open()
    service.now = START + timedelta(minutes=40)
    assert credentials.current().access_key == "key-1"
    assert service.issued == 1
    credentials.close()


def test_signing_does_not_wait_for_a_renewal_in_advance() -> None:
    service = KeyService()
    credentials = service.open()
    service.now = START + timedelta(minutes=50)
    service.may_response.clear()
    assert credentials.current().access_key == "key-1"
    assert credentials.current().access_key == "key-1"
    service.may_response.set()
    assert credentials._renewal is not None
    credentials._renewal.result(30)
    assert credentials.current().access_key == "key-2"
    assert service.issued == 2
    credentials.close()


def test_expired_credentials_are_never_used() -> None:
    service = KeyService()
    credentials = service.open()
    service.now = START + timedelta(minutes=90)
    assert credentials.current().access_key == "key-2"
    credentials.close()
