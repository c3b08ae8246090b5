"""Sign-in to a demo without its password: by a link that works once, or by one click on the sign-in page.

Both work on this machine only. They are stored only in the memory of the process that created them, so they end with
that process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from callsheet.identity.keys import hash_secret
from callsheet.toolbox.addresses import is_loopback
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.ids import secret_token
from callsheet.toolbox.local_peers import Address, user_of_peer
from callsheet.wire.errors import Forbidden, NotFound

LIFE: Final = timedelta(minutes=30)
# The token is in the fragment of the page's URL, which browsers do not send to servers: no log and no proxy gets it.
PAGE: Final = "/sign-in#once="


@dataclass(slots=True)
class OneTimeLinks:
    clock: Clock = field(default_factory=SystemClock)
    # By the hash of the token: the account, and the expiry.
    _open: dict[bytes, tuple[str, datetime]] = field(default_factory=dict)
    # The account that the sign-in page of a demo offers; None in every other installation.
    _offered: str | None = None
    _user_of: Callable[[Address, Address], int | None] = user_of_peer

    def create(self, email: str) -> str:
        """The token of a link for this account."""
        token = secret_token("once")
        self._open[hash_secret(token)] = (email, self.clock.now() + LIFE)
        return token

    def take(self, token: str) -> str:
        """Uses up the link and returns its account. Raises NotFound."""
        email, expires_at = self._open.pop(hash_secret(token), (None, None))
        if email is None or expires_at is None or expires_at <= self.clock.now():
            raise NotFound("The link was used or has expired. Sign in with the password, or start the demo again.")
        return email

    def offer(self, email: str) -> None:
        """Lets people on this machine enter this account with one click from now on."""
        self._offered = email

    def offered_to(self, peer: Address | None, own: Address | None, forwarded_for: Sequence[str]) -> str | None:
        """The account that the caller may enter with one click; None if there is none.

        It is offered only to the user who runs the demo: other users of the same machine can reach the port, too, and
        the account may administer the installation.
        """
        if self._offered is None or peer is None or own is None or forwarded_for or not is_loopback(peer[0]):
            return None
        return self._offered if self._user_of(peer, own) == os.geteuid() else None


def require_this_machine(peer: str, forwarded_for: Sequence[str]) -> None:
    """Refuses forwarded requests and requests of other machines: a proxy or a tunnel may forward a request of
    another machine.
    """
    if forwarded_for or not is_loopback(peer):
        raise Forbidden("This link works only in a browser on the machine that runs the demo.")
