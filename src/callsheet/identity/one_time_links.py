"""A link that signs its reader in once, which `callsheet demo` prints. For browsers of this machine alone.

Kept in the memory of the process that made it and nowhere else: it ends with that process, and no database and no other
control plane can be asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from callsheet.identity.keys import hash_secret
from callsheet.toolbox.addresses import is_loopback
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.ids import secret_token
from callsheet.wire.errors import Forbidden, NotFound

LIFE: Final = timedelta(minutes=30)
# In the page's URL as its fragment, which browsers send to no server: no log and no proxy ever has it.
PAGE: Final = "/sign-in#once="


@dataclass(slots=True)
class OneTimeLinks:
    clock: Clock = field(default_factory=SystemClock)
    # By the hash of the token: whose it is, and until when.
    _open: dict[bytes, tuple[str, datetime]] = field(default_factory=dict)

    def create(self, email: str) -> str:
        """The token of a link for this account."""
        token = secret_token("once")
        self._open[hash_secret(token)] = (email, self.clock.now() + LIFE)
        return token

    def take(self, token: str) -> str:
        """The account of the link, which is used up by this. Raises NotFound."""
        email, expires_at = self._open.pop(hash_secret(token), (None, None))
        if email is None or expires_at is None or expires_at <= self.clock.now():
            raise NotFound("The link was used or has expired. Sign in with the password, or start the demo again.")
        return email


def require_this_machine(peer: str, forwarded_for: Sequence[str]) -> None:
    """A proxy or a tunnel that passes a request on may do so for a client on another machine."""
    if forwarded_for or not is_loopback(peer):
        raise Forbidden("This link works only in a browser on the machine that runs the demo.")
