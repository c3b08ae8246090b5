"""Callback URLs. Their id cannot be guessed: it is derived from the installation's secret and never stored.

The database has only the hash of the id, which reveals neither the URL nor the job that a URL belongs to.
"""

from __future__ import annotations

import hashlib
import re

from callsheet.dispatch.facts import JobCycle
from callsheet.toolbox.signing import Master, SigningKeys

PATH = "/api/webhooks"
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


class CallbackUrls:
    def __init__(self, secret: Master, public_url: str):
        self._keys = SigningKeys(secret, "provider callbacks")
        self._public_url = public_url

    def id_of(self, job: JobCycle) -> str:
        """Each charge cycle has its own id, so a callback of an earlier cycle changes nothing."""
        return self._keys.sign(*map(str, job))

    def url_of(self, provider: str, job: JobCycle, callback_hash: bytes) -> str:
        """The URL with the key that the call was recorded with: the provider may already have this URL."""
        ids = self._keys.signatures(*map(str, job))
        own = next((each for each in ids if hash_of(each) == callback_hash), ids[0])
        return f"{self._public_url}{PATH}/{provider}/{own}"


def hash_of(callback_id: str) -> bytes | None:
    """The hash of an id, or None if the text does not have the form of an id."""
    return hashlib.sha256(callback_id.encode()).digest() if _ID.fullmatch(callback_id) else None
