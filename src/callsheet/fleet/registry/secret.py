"""The shared secret, which is valid for every fleet, or the derived secret of this machine if no shared secret is
set.
"""

from __future__ import annotations

import hashlib

from callsheet.settings import FleetSettings
from callsheet.toolbox.signing import Master, SigningKeys


def fleet_secret(settings: FleetSettings, secret: Master) -> str:
    """The secret of the settings, or this machine's secret, which is derived from the installation's key."""
    return accepted_secrets(settings, secret)[0]


def accepted_secrets(settings: FleetSettings, secret: Master) -> tuple[str, ...]:
    """The accepted secrets. While the installation's key is rotated, they include the secret of the previous key,
    which workers still use.
    """
    if settings.secret is not None:
        return (settings.secret.get_secret_value(),)
    return SigningKeys(secret, "fleet secret").signatures("register")


def fingerprints(secret: Master, given: str) -> tuple[bytes, ...]:
    """Fingerprints of a secret that a worker registered with. They are keyed, because an operator's own secret may be
    weak enough to be guessed from a plain hash. New rows store the first one; during a rotation of the key any of them
    may be stored."""
    signatures = SigningKeys(secret, "fleet secret fingerprint").signatures(given)
    return tuple(digest(each) for each in signatures)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
