"""The URLs of this control plane: the hosts that it serves, and the pages that are its own. Pure."""

from __future__ import annotations

from functools import lru_cache

from callsheet.settings import Settings
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.http.origins import authority_in, is_ip_or_localhost, name_in


class OwnAddresses:
    def __init__(self, settings: Settings):
        server = settings.server
        self._origins = frozenset(origin.lower() for origin in (settings.public_url, *server.allowed_origins))
        self._names = {name_in(authority_in(origin)) for origin in self._origins} | {server.host.lower()}
        # In a network the server may have several names, but a cookie belongs to one name only.
        self._is_local = is_loopback(server.host)
        self.is_https = settings.public_url.startswith("https://")
        # A cache, because nearly all requests have the same host.
        self.accepts_host = lru_cache(256)(self._accepts_host)

    def _accepts_host(self, host: str) -> bool:
        """Whether this control plane serves this Host. A request without Host is not from a browser."""
        if not host or not self._is_local:
            return True
        name = name_in(host)
        return name is not None and (name in self._names or is_loopback(name))

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a request with these headers, Origin and Host, comes from a page of this control plane."""
        if origin.lower() in self._origins:
            return True
        authority = authority_in(origin)
        return authority == host.lower() and is_ip_or_localhost(name_in(authority) or "")
