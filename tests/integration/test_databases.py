"""The databases of a process follow an embedded server that was killed and comes back elsewhere."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from callsheet.plumbing.databases import open_databases
from callsheet.plumbing.embedded.layout import Layout
from callsheet.plumbing.embedded.locks import is_held
from callsheet.plumbing.notify import Listener
from callsheet.settings import load_settings
from tests.support.waiting import until


async def test_g12_a_server_killed_under_us_comes_back_on_another_port_and_is_followed(tmp_path: Path) -> None:
    databases = await open_databases(load_settings(home=tmp_path / "home"))
    listener = Listener(databases.central)
    heard: list[str | None] = []
    listener.subscribe("news", heard.append)
    listener.start()
    try:
        await listener.connected.wait()
        assert databases.embedded is not None
        layout, port = Layout.of(tmp_path / "home"), databases.embedded.port
        os.kill(int((layout.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        await until(lambda: not is_held(layout.keeper_lock))
        with socket.create_server(("127.0.0.1", port), reuse_port=False):
            await databases.keep_embedded_running()
            await databases.refresh_pools()
            assert databases.embedded.port != port
            for database in (databases.central, *databases.pools):
                async with database.connection() as connection:
                    assert await connection.fetchval("SELECT current_database()") == database.name

            async def is_heard() -> bool:
                # Only a listener on the new port can hear what is sent there.
                async with databases.central.connection() as connection:
                    await connection.execute("NOTIFY news, 'from the new port'")
                return "from the new port" in heard

            await until(is_heard)
    finally:
        await listener.stop()
        await databases.close()
