"""The context that a provider or an actor gets at construction: its settings, HTTP clients, and the media providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from callsheet.providers.config import ProvidersConfig
from callsheet.providers.media import MediaProvider
from callsheet.toolbox.http.addresses import Network
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.client import GuardedClient

EVERYWHERE: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))


class Clients:
    """Creates HTTP clients, and closes all of them with `close`."""

    def __init__(self, allow_networks: Iterable[Network] = ()):
        self._allow_networks = tuple(allow_networks)
        self._made: list[GuardedClient] = []

    def guarded(self, *, timeout_seconds: float = 30.0, max_bytes: int = 104_857_600) -> GuardedClient:
        """For URLs from a user or a service. It refuses private networks, also after a redirect."""
        return self._client(self._allow_networks, timeout_seconds, max_bytes)

    def trusted(self, *, timeout_seconds: float = 30.0, max_bytes: int = 10_485_760) -> GuardedClient:
        """For URLs from the settings and of the installation's own storage, in any network. It follows no redirects:
        the response is the redirect itself.
        """
        return self._client(EVERYWHERE, timeout_seconds, max_bytes, follow_redirects=False)

    async def close(self) -> None:
        while self._made:
            await self._made.pop().aclose()

    def _client(
        self, networks: Iterable[Network], timeout_seconds: float, max_bytes: int, *, follow_redirects: bool = True
    ) -> GuardedClient:
        client = GuardedClient(
            allow_networks=networks,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
            follow_redirects=follow_redirects,
            ssl_context=certificates(),
        )
        self._made.append(client)
        return client


@dataclass(frozen=True, slots=True)
class BuiltInContext:
    """For built-in providers and actors. `media` is empty while the media providers are created."""

    config: ProvidersConfig
    clients: Clients
    media: Mapping[str, MediaProvider] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginContext:
    """For providers and actors of other packages. `settings` is the plugin's table, `[providers.plugins.NAME]`."""

    settings: Mapping[str, Any]
    clients: Clients
    media: Mapping[str, MediaProvider] = field(default_factory=dict)
