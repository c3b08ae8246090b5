"""Finds every server of a DSN that accepts writes, for `callsheet doctor`. There may be only one."""

from __future__ import annotations

import asyncio

from callsheet.plumbing.database.errors import CANNOT_CONNECT
from callsheet.plumbing.database.servers.connecting import ServerState, connect_to
from callsheet.plumbing.database.servers.hosts import Host, read_servers


async def primaries(dsn: str) -> dict[Host, ServerState]:
    """Hosts that do not respond are left out. A server that has two names is listed once."""

    async def state_of(host: Host) -> ServerState | None:
        try:
            connection = await connect_to(dsn, host)
        except CANNOT_CONNECT:
            return None
        try:
            return connection.state
        finally:
            connection.terminate()

    hosts = read_servers(dsn).hosts
    states = await asyncio.gather(*map(state_of, hosts))
    found = {state.identity: (host, state) for host, state in zip(hosts, states, strict=True) if state is not None}
    return dict(found.values())


async def two_primaries(name: str, dsn: str) -> tuple[str, str] | None:
    """The finding and the advice if more than one server accepts writes."""
    if len(read_servers(dsn).hosts) == 1:
        return None
    found = await primaries(dsn)
    if len(found) < 2:
        return None
    latest = max(found, key=lambda host: found[host].timeline)
    others = " and ".join(str(host) for host in found if host != latest)
    return (
        f"Database {name} has {len(found)} primaries: {' and '.join(map(str, found))} accept writes. {latest} was "
        f"promoted last (timeline {found[latest].timeline}), and Callsheet uses it.",
        f"Stop {others}, and make it a standby of {latest} before it starts again.",
    )
