"""The shared secret, which opens every fleet; and the one of this machine, where no shared secret is set."""

from __future__ import annotations

import hashlib

from callsheet.settings import FleetSettings
from callsheet.toolbox.signing import Master, SigningKeys


def fleet_secret(settings: FleetSettings, secret: Master) -> str:
    """That of the settings, or the one of this machine, derived from the installation's key."""
    return accepted_secrets(settings, secret)[0]


def accepted_secrets(settings: FleetSettings, secret: Master) -> tuple[str, ...]:
    """The derived one of the key before too, while the installation's is rotated: workers have it."""
    if settings.secret is not None:
        return (settings.secret.get_secret_value(),)
    return SigningKeys(secret, "fleet secret").signatures("register")


def fingerprints(secret: Master, given: str) -> tuple[bytes, ...]:
    """What is kept of a secret that a worker registered with. Keyed: an operator's own secret may be weak enough to be
    guessed from a plain hash. The first one is to be stored; each of them may have been, while the key is rotated."""
    signatures = SigningKeys(secret, "fleet secret fingerprint").signatures(given)
    return tuple(digest(each) for each in signatures)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
