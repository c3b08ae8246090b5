"""Checks that an installation exists. Only `serve`, `up`, `demo` and `db migrate --create` create one."""

from __future__ import annotations

import asyncio

from callsheet.plumbing.database.migrate import inspect
from callsheet.plumbing.embedded.layout import Layout
from callsheet.settings import Settings, find_place
from callsheet.toolbox.errors import OperatorError

CREATE = "callsheet db migrate --create"


class NoInstallation(OperatorError):
    """No installation exists at the place of the settings. The message contains the place and how to create an
    installation.
    """

    code = "no_installation"


async def require_installation(settings: Settings) -> None:
    """Checks that the installation exists. Writes nothing."""
    dsn = settings.database.server_dsn
    if dsn is None:
        if not await asyncio.to_thread(_has_cluster, settings):
            raise NoInstallation(_missing(settings))
    elif (await inspect(dsn.get_secret_value(), "central", "central")).version == 0:
        # The user, the password and the query, which may contain a password, are left out.
        address = dsn.get_secret_value().partition("?")[0].rpartition("@")[2]
        raise NoInstallation(
            f"There is no Callsheet installation in the database {address} (database.dsn): it has no schema yet. "
            f"To create it there, run: {CREATE}"
        )


def unfinished(settings: Settings) -> NoInstallation:
    return NoInstallation(
        f"The installation in {settings.home} was never finished: it has no database central. To finish it, run: "
        f"{CREATE}"
    )


def _has_cluster(settings: Settings) -> bool:
    layout = Layout.of(settings.home)
    with layout.accessible():
        try:
            # exists() is not used: newer versions of Python return False for a directory that may not be read.
            layout.data.stat()
        except FileNotFoundError:
            return False
    return True


def _missing(settings: Settings) -> str:
    place = find_place()
    if place.home != settings.home:
        where = f"in {settings.home}"
    elif place.is_found:
        where = f"in {settings.home} ({place.origin})"
    else:
        where = f"here. Looked in {', '.join(place.searched[:-1])} and {place.searched[-1]}"
    return (
        f"There is no Callsheet installation {where}. To create one in {settings.home}, run: callsheet serve. "
        "To work on another one, set CALLSHEET_HOME to its data directory."
    )
