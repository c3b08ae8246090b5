"""The one secret workers register with."""

from __future__ import annotations

import hashlib
import hmac

from callsheet.identity.attempts import Attempts
from callsheet.settings import FleetSettings
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import NotAuthenticated


def fleet_secret(settings: FleetSettings, secret: Master) -> str:
    """That of the settings, or one derived from the installation's: it works without being configured."""
    return _accepted(settings, secret)[0]


def _accepted(settings: FleetSettings, secret: Master) -> tuple[str, ...]:
    """The derived one of the key before too, while the installation's is rotated: workers out there have it."""
    if settings.secret is not None:
        return (settings.secret.get_secret_value(),)
    return SigningKeys(secret, "fleet secret").signatures("register")


class FleetSecret:
    """Wrong secrets are limited per address, the right one never is: a fleet may share one address."""

    def __init__(self, settings: FleetSettings, secret: Master, attempts: Attempts):
        self._digests = [_digest(each) for each in _accepted(settings, secret)]
        self._limit = settings.secret_attempts_per_address
        self._attempts = attempts

    async def check(self, given: str | None, address: str) -> None:
        # Digests have one length, whatever was given.
        if given is not None and any(hmac.compare_digest(_digest(given), each) for each in self._digests):
            return
        await self._attempts.count({self._attempts.address(address, "fleet secret"): self._limit})
        raise NotAuthenticated("Send the fleet's secret as X-Fleet-Secret; `callsheet fleets secret` prints it.")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
