"""The secrets of endpoints: random, and encrypted in the database with the secret key of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from callsheet.plumbing.installation.secrets import fingerprint, seal, unseal
from callsheet.toolbox.signing import Master, masters
from callsheet.toolbox.webhook_signatures import new_secret

PURPOSE = "webhook endpoint"


class EndpointSecrets:
    def __init__(self, master: Master):
        self._master = master
        # To decrypt takes longer than to sign.
        self._unsealed = lru_cache(10_000)(self._unseal)

    @property
    def sealed_with(self) -> str:
        return fingerprint(masters(self._master)[0])

    def new(self) -> tuple[str, bytes]:
        """A new secret, and what the database keeps of it."""
        secret = new_secret()
        return secret, seal(self._master, PURPOSE, secret)

    def opened(self, *sealed: bytes | None) -> Sequence[str]:
        """The secrets that sign. Empty if the first one was encrypted with a key that is lost."""
        found = [self._unsealed(each) for each in sealed if each is not None]
        return [secret for secret in found if secret is not None] if found[0] is not None else []

    def sealed_again(self, sealed: bytes | None) -> bytes | None:
        """The same secret, encrypted with the first key. None if its key is lost."""
        secret = None if sealed is None else self._unsealed(sealed)
        return None if secret is None else seal(self._master, PURPOSE, secret)

    def _unseal(self, sealed: bytes) -> str | None:
        return unseal(self._master, PURPOSE, sealed)
