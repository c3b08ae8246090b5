"""Where a provider calls back: an id that cannot be guessed, derived from the installation's secret and kept nowhere.

A reader of the database finds only its hash, and can neither call nor know which job a URL belongs to.
"""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from callsheet.toolbox.signing import Master, SigningKeys

PATH = "/api/webhooks"
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


class CallbackAddresses:
    def __init__(self, secret: Master, public_url: str):
        self._keys = SigningKeys(secret, "provider callbacks")
        self._public_url = public_url

    def id_of(self, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> str:
        """Another one in every charge cycle: a callback of an earlier one changes nothing."""
        return self._keys.sign(str(tenant_id), str(job_id), str(charge_cycle))

    def url_of(self, provider: str, tenant_id: UUID, job_id: UUID, charge_cycle: int, callback_hash: bytes) -> str:
        """Under the key that the call was written down with: the provider may have this URL already."""
        ids = self._keys.signatures(str(tenant_id), str(job_id), str(charge_cycle))
        own = next((each for each in ids if hash_of(each) == callback_hash), ids[0])
        return f"{self._public_url}{PATH}/{provider}/{own}"


def hash_of(callback_id: str) -> bytes | None:
    """None where it cannot be one of ours."""
    return hashlib.sha256(callback_id.encode()).digest() if _ID.fullmatch(callback_id) else None
