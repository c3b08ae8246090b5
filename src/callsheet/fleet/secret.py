"""The one secret workers register with."""

from __future__ import annotations

import hashlib
import hmac

from callsheet.identity.attempts import Attempts
from callsheet.settings import FleetSettings
from callsheet.toolbox.signing import derive_key, sign
from callsheet.wire.errors import NotAuthenticated


def fleet_secret(settings: FleetSettings, secret: bytes) -> str:
    """That of the settings, or one derived from the installation's: it works without being configured."""
    if settings.secret is not None:
        return settings.secret.get_secret_value()
    return sign(derive_key(secret, "fleet secret"), "register")


class FleetSecret:
    """Wrong secrets are limited per address, the right one never is: a fleet may share one address."""

    def __init__(self, settings: FleetSettings, secret: bytes, attempts: Attempts):
        self._digest = _digest(fleet_secret(settings, secret))
        self._limit = settings.secret_attempts_per_address
        self._attempts = attempts

    async def check(self, given: str | None, address: str) -> None:
        # Digests have one length, whatever was given.
        if given is not None and hmac.compare_digest(_digest(given), self._digest):
            return
        await self._attempts.count({self._attempts.address(address, "fleet secret"): self._limit})
        raise NotAuthenticated("Send the fleet's secret as X-Fleet-Secret; `callsheet fleets secret` prints it.")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
