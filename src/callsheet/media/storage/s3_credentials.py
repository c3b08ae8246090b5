"""Who we are to the object store: keys from the settings, or whatever the AWS chain finds and renews."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.session import get_session

from callsheet.settings import S3Settings, SettingsError

if TYPE_CHECKING:
    from obstore.store import S3Credential

# obstore asks again five minutes before this is over, so it never holds keys for longer than that.
_HOLD = timedelta(minutes=10)
_TOO_LATE_SECONDS = 60


class CredentialSource(Protocol):
    def current(self) -> ReadOnlyCredentials: ...

    def close(self) -> None: ...


class StaticCredentials:
    def __init__(self, access_key_id: str, secret_access_key: str) -> None:
        self._credentials = ReadOnlyCredentials(access_key_id, secret_access_key, None)

    def current(self) -> ReadOnlyCredentials:
        return self._credentials

    def close(self) -> None:
        pass


class ChainCredentials:
    """botocore renews temporary keys over the network, in the thread that asks, from 15 minutes before their end.

    Signing happens on the event loop and must not wait for that: the renewal runs beside it, and only keys about to
    die are waited for. A URL signed with temporary keys dies with them, whatever its own expiry says.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._frozen: ReadOnlyCredentials = credentials.get_frozen_credentials()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="s3-credentials")
        self._renewal: Future[None] | None = None

    def current(self) -> ReadOnlyCredentials:
        # Only temporary keys have it.
        needs_renewal = getattr(self._credentials, "refresh_needed", None)
        if needs_renewal is not None and needs_renewal():
            if self._renewal is None or self._renewal.done():
                self._renewal = self._executor.submit(self._renew)
            if needs_renewal(_TOO_LATE_SECONDS):
                self._renewal.result()
        return self._frozen

    def _renew(self) -> None:
        self._frozen = self._credentials.get_frozen_credentials()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def open_credentials(settings: S3Settings) -> CredentialSource:
    if settings.access_key_id is not None and settings.secret_access_key is not None:
        return StaticCredentials(settings.access_key_id, settings.secret_access_key.get_secret_value())
    found = get_session().get_credentials()
    if found is None:
        raise SettingsError(
            "storage.s3.access_key_id is not set, and the AWS chain (environment, profile, instance role) has no "
            "credentials either; set storage.s3.access_key_id and storage.s3.secret_access_key"
        )
    return ChainCredentials(found)


def as_obstore_provider(source: CredentialSource) -> S3Credential:
    credentials = source.current()
    return {
        "access_key_id": credentials.access_key or "",
        "secret_access_key": credentials.secret_key or "",
        "token": credentials.token,
        "expires_at": datetime.now(UTC) + _HOLD,
    }
