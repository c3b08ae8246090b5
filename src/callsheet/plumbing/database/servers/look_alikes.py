"""Distinguishes PostgreSQL from servers that only speak its protocol, by the text of `version()`. Pure.

A service that returns the text of PostgreSQL, for example a proxy in front of it, cannot be recognised here.
"""

from __future__ import annotations

import re

MINIMUM_VERSION = 15

# Forks that report a number of PostgreSQL. Each has other locks, plans or notifications.
FORKS = {
    "-YB-": "YugabyteDB",
    "Redshift": "Amazon Redshift",
    "Greenplum": "Greenplum",
    "Cloudberry": "Cloudberry",
    "openGauss": "openGauss",
    "GaussDB": "GaussDB",
    "RisingWave": "RisingWave",
    "Materialize": "Materialize",
    "QuestDB": "QuestDB",
}
_POSTGRESQL = re.compile(r"PostgreSQL (\d+)")
_FIRST_WORD = re.compile(r"[\w.-]+")


class NotPostgreSQL(ConnectionError):
    """The server is not PostgreSQL, or its version is too old."""

    advice = f"Callsheet needs PostgreSQL itself, {MINIMUM_VERSION} or newer."


def require_postgresql(version: str) -> None:
    """Raises NotPostgreSQL unless the text is that of PostgreSQL, in a version that Callsheet works with."""
    product = look_alike(version)
    if product is not None:
        raise NotPostgreSQL(
            f"it is {product}, which speaks the protocol of PostgreSQL, but its locks, notifications and plans differ"
        )
    found = _POSTGRESQL.match(version)
    if found is not None and int(found[1]) < MINIMUM_VERSION:
        raise NotPostgreSQL(f"it is PostgreSQL {found[1]}")


def look_alike(version: str) -> str | None:
    """The product, if it is not PostgreSQL."""
    for sign, product in FORKS.items():
        if sign.lower() in version.lower():
            return product
    if _POSTGRESQL.match(version):
        return None
    name = _FIRST_WORD.match(version)
    return "an unknown product" if name is None else name[0]
