"""Which secret key an installation uses. Central has the fingerprint of the key, so that a control plane with another
key is refused when it starts: it could not open the DSNs of pools, and its signed URLs would be refused by the others.
"""

from __future__ import annotations

from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.installation.secrets import SEAL, SECRET_FILE, fingerprint, has_key, master_secret, unseal
from callsheet.settings import Settings
from callsheet.toolbox.signing import Master, masters

SQL = statements("callsheet.plumbing.installation")
DATABASE_SQL = statements("callsheet.plumbing.database")


class WrongKey(DatabaseError):
    """The key of this process is not the key of the installation. The message says what the operator has to do."""


async def read_fingerprint(connection: Connection) -> str | None:
    found: str | None = await SQL["read_secret_fingerprint"].value(connection)
    return found


async def ensure_key(connection: Connection, settings: Settings) -> None:
    """For a control plane. The first one records its key, and creates one where there is none."""
    expected = await read_fingerprint(connection)
    if expected is None:
        master = master_secret(settings)
        if await _opens_no_pool(connection, master):
            return  # It would be recorded instead of the right key; the pools say that it is the wrong one.
        mine = fingerprint(masters(master)[0])
        expected = await SQL["record_first_fingerprint"].value(connection, fingerprint=mine)
    _raise(key_problem(settings, expected))


async def check_key(connection: Connection, settings: Settings) -> None:
    """For a command. A machine without a key may run commands that need none."""
    if has_key(settings):
        _raise(key_problem(settings, await read_fingerprint(connection)))


async def record_key(connection: Connection, master: Master) -> None:
    """Makes the first key that of the installation, whatever was before."""
    await SQL["replace_fingerprint"].run(connection, fingerprint=fingerprint(masters(master)[0]))


def key_problem(settings: Settings, expected: str | None) -> WrongKey | None:
    mine = [fingerprint(each) for each in masters(master_secret(settings, create=False))]
    if expected is None or expected in mine:
        return None
    source = "CALLSHEET_SECRET_KEY" if settings.secret_key is not None else settings.home / SECRET_FILE
    return WrongKey(
        f"This installation has another secret key: the fingerprint of its key is {expected}, that of {source} is "
        f"{mine[0]}. Use the key of the other control planes (`callsheet secrets status` there shows its fingerprint). "
        "If you have rotated it, set CALLSHEET_SECOND_SECRET_KEY to the old key and run: callsheet secrets rotate. If "
        "the key is lost, run: callsheet secrets reset"
    )


async def _opens_no_pool(connection: Connection, master: Master) -> bool:
    sealed = [
        row["sealed_dsn"] for row in await DATABASE_SQL["list_pools"].rows(connection) if row["sealed_dsn"] is not None
    ]
    return bool(sealed) and all(unseal(master, SEAL, each) is None for each in sealed)


def _raise(error: WrongKey | None) -> None:
    if error is not None:
        raise error
