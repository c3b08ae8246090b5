"""Starts the server under a keeper, on a stable port, and checks whether it responds."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import asyncpg

from callsheet.plumbing.embedded.account import Account
from callsheet.plumbing.embedded.binaries import Binaries
from callsheet.plumbing.embedded.cluster import is_ready
from callsheet.plumbing.embedded.layout import USER, EmbeddedPostgresError, Layout
from callsheet.plumbing.embedded.locks import FileLock

HOST = "127.0.0.1"
MAINTENANCE_DATABASE = "postgres"
CONNECT_SECONDS = 5.0
KEEPER_SECONDS = 30
# Below the range of outgoing ports. In that range, a client could take the port before a restart, and a client that
# keeps trying a closed port on its own machine can be connected to itself.
PORTS = range(15_000, 32_000)
KEEPER = Path(__file__).with_name("keeper.py")

OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "shared_preload_libraries": "pg_stat_statements",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A line every five minutes would hide the lines that matter.
    "log_checkpoints": "off",
}


class Setback(Enum):
    """Why a start failed, if another attempt may help."""

    PORT_TAKEN = "Address already in use"
    # Backends of a killed server, or a server that is still shutting down, hold the cluster for a moment longer.
    MEMORY_IN_USE = "pre-existing shared memory block"
    STILL_RUNNING = 'lock file "postmaster.pid" already exists'

    @classmethod
    def in_log(cls, log: str) -> Setback | None:
        return next((setback for setback in cls if setback.value in log), None)


def choose_port(preferred: int | None) -> int:
    """The preferred port if it is free, so that the DSNs in running processes stay valid."""
    if preferred is not None and _is_free(preferred):
        return preferred
    return next(port for port in random.sample(PORTS, len(PORTS)) if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        # As in PostgreSQL, old connections that wait for their timeout do not block the port.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError:
            return False
    return True


def spawn_keeper(layout: Layout, binaries: Binaries, account: Account, port: int, start_lock: FileLock) -> None:
    """Starts the keeper. Returns when the keeper holds its lock; the server is then starting."""
    options = [f"--{name}={value}" for name, value in {**OPTIONS, "port": str(port)}.items()]
    server = account.command(binaries.postgres, "-D", layout.data, *options)
    user, group = ("" if number is None else str(number) for number in account.switch)
    command = [sys.executable, "-I", "-S", str(KEEPER), str(layout.directory), user, group, *server]
    with layout.log.open("ab") as log:
        try:
            subprocess.run(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[start_lock.fileno()],
                start_new_session=True,
                timeout=KEEPER_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise layout.failure(f"The keeper of the PostgreSQL server did not start ({error}).") from error


async def connect(layout: Layout, port: int, database: str = MAINTENANCE_DATABASE) -> asyncpg.Connection[Any]:
    return await asyncpg.connect(
        host=HOST,
        port=port,
        user=USER,
        password=layout.password(),
        database=database,
        ssl=False,
        timeout=CONNECT_SECONDS,
    )


async def server_version(layout: Layout, port: int) -> str | None:
    """The version of our server on that port; None while it is not running.

    This connects only if our own server reports the port: another program there could ask for the password.
    """
    if not is_ready(layout, port):
        return None
    try:
        connection = await connect(layout, port)
    except asyncpg.InvalidPasswordError as error:
        raise EmbeddedPostgresError(
            f"The PostgreSQL server in {layout.data} refuses the password in {layout.passfile}. "
            "Put that file back from a backup."
        ) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
    try:
        row = await connection.fetchrow(
            "SELECT current_setting('data_directory') AS data_directory, current_setting('server_version') AS version"
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
    finally:
        connection.terminate()
    assert row is not None
    return str(row["version"]) if row["data_directory"] == str(layout.data) else None
