"""Sign-in to a demo without its password: by a link that works once, then by one click in the browser that used it.

Both work on this machine only. They are stored only in the memory of the process that created them, so they end with
that process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from fastapi import Request

from callsheet.identity.access.keys import hash_secret
from callsheet.plumbing.http.client_address import was_forwarded
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.http.local_peers import Address, user_of_peer
from callsheet.toolbox.ids import secret_token
from callsheet.wire.errors import Forbidden, NotFound

LIFE: Final = timedelta(minutes=30)
# The token is in the fragment of the page's URL, which browsers do not send to servers: no log and no proxy gets it.
PAGE: Final = "/sign-in#once="


@dataclass(frozen=True, slots=True)
class Caller:
    """Both ends of the connection of a request, and its headers with names in lower case."""

    peer: Address | None
    own: Address | None
    headers: Mapping[str, str]

    @classmethod
    def of(cls, request: Request) -> Caller:
        return cls(_end(request.scope.get("client")), _end(request.scope.get("server")), request.headers)

    @property
    def is_here(self) -> bool:
        """Whether a program on this machine sent the request for itself, and not for a page of another site."""
        is_own_page = self.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        is_direct = self.peer is not None and is_loopback(self.peer[0]) and not was_forwarded(self.headers)
        return is_own_page and is_direct


@dataclass(slots=True)
class OneTimeLinks:
    clock: Clock = field(default_factory=SystemClock)
    # The account and the expiry, by the hash of the token.
    _open: dict[bytes, tuple[str, datetime]] = field(default_factory=dict)
    # The hashes of the proofs of browsers that used a link.
    _browsers: set[bytes] = field(default_factory=set)
    # The account that the sign-in page of a demo offers; None in every other installation.
    _offered: str | None = None
    _user_of: Callable[[Address, Address], int | None] = user_of_peer

    def create(self, email: str) -> str:
        """The token of a link for this account."""
        token = secret_token("once")
        self._open[hash_secret(token)] = (email, self.clock.now() + LIFE)
        return token

    def find(self, token: str) -> str:
        """The account of the link. Raises NotFound."""
        email, expires_at = self._open.get(hash_secret(token), (None, None))
        if email is None or expires_at is None or expires_at <= self.clock.now():
            raise NotFound("The link was used or has expired. Sign in with the password, or start the demo again.")
        return email

    def take(self, token: str) -> str:
        """Uses up the link and returns its account. Raises NotFound."""
        email = self.find(token)
        del self._open[hash_secret(token)]
        return email

    def know_browser(self) -> str:
        """The proof of a browser that used a link."""
        proof = secret_token("demo")
        self._browsers.add(hash_secret(proof))
        return proof

    def offer(self, email: str) -> None:
        """Lets people on this machine enter this account with one click from now on."""
        self._offered = email

    def offered_to(self, proof: str | None, caller: Caller) -> str | None:
        """The account that the caller may enter with one click; None if there is none.

        It is offered only in a browser that used the link of the demo: a tunnel can make another machine look like this
        one. And only to the user who runs the demo: other users of the same machine can reach the port, too, and the
        account may administer the installation.
        """
        if proof is None or hash_secret(proof) not in self._browsers:
            return None
        if self._offered is None or caller.peer is None or caller.own is None or not caller.is_here:
            return None
        return self._offered if self._user_of(caller.peer, caller.own) == os.geteuid() else None


def require_this_machine(caller: Caller) -> None:
    """Refuses forwarded requests and requests of other machines: a proxy or a tunnel may forward a request of
    another machine. Pages of other sites are refused too.
    """
    if not caller.is_here:
        raise Forbidden("This link works only in a browser on the machine that runs the demo.")


def _end(address: Sequence[Any] | None) -> Address | None:
    """One end of a connection. Servers write the port as a number or as text, and omit it for a Unix socket."""
    return (str(address[0]), int(address[1])) if address and address[1] is not None else None
