"""Encrypts the DSNs in central again, with the first key, during a rotation of the secret key."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import CENTRAL
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.installation.secrets import SEAL, seal, unseal
from callsheet.toolbox.signing import Master, masters

DATABASE_SQL = statements("callsheet.plumbing.database")
SQL = statements("callsheet.plumbing.installation")


@dataclass(frozen=True, slots=True)
class Seals:
    """Pools by the key that decrypts their DSN. Pools on central's own server have no DSN."""

    first: list[str]
    second: list[str]
    neither: list[str]


async def read_seals(central_dsn: str, master: Master) -> Seals:
    seals = Seals([], [], [])
    async with connected(central_dsn, CENTRAL) as connection:
        for row in await DATABASE_SQL["list_pools"].rows(connection):
            if row["sealed_dsn"] is not None:
                _group(seals, master, row["sealed_dsn"]).append(row["name"])
    return seals


async def reseal(central_dsn: str, master: Master) -> list[str]:
    """Encrypts DSNs again that only the second key decrypts. Returns the pools. It can be repeated."""
    resealed = []
    async with connected(central_dsn, CENTRAL) as connection:
        for row in await DATABASE_SQL["list_pools"].rows(connection):
            sealed = row["sealed_dsn"]
            if sealed is None or unseal(masters(master)[0], SEAL, sealed) is not None:
                continue
            dsn = unseal(master, SEAL, sealed)
            if dsn is not None:
                values = {"name": row["name"], "before": sealed, "sealed_dsn": seal(master, SEAL, dsn)}
                if await SQL["reseal_pool"].run(connection, **values):
                    resealed.append(row["name"])
    return resealed


def _group(seals: Seals, master: Master, sealed: bytes) -> list[str]:
    if unseal(masters(master)[0], SEAL, sealed) is not None:
        return seals.first
    return seals.neither if unseal(master, SEAL, sealed) is None else seals.second
