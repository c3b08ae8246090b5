"""Where a provider calls back: an id nobody can guess, derived from the installation's secret and kept nowhere.

Whoever reads the database finds its hash only, and can neither call nor tell which job an address belongs to.
"""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from callsheet.toolbox.signing import derive_key, sign

PATH = "/api/webhooks"
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


class CallbackAddresses:
    def __init__(self, secret: bytes, public_url: str):
        self._key = derive_key(secret, "provider callbacks")
        self._public_url = public_url

    def id_of(self, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> str:
        """Another one in every charge cycle: a callback of an earlier one changes nothing."""
        return sign(self._key, str(tenant_id), str(job_id), str(charge_cycle))

    def url_of(self, provider: str, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> str:
        return f"{self._public_url}{PATH}/{provider}/{self.id_of(tenant_id, job_id, charge_cycle)}"


def hash_of(callback_id: str) -> bytes | None:
    """None where it cannot be one of ours."""
    return hashlib.sha256(callback_id.encode()).digest() if _ID.fullmatch(callback_id) else None
