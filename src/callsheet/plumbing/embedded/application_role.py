"""The role of Callsheet on the embedded server: it owns its databases, and is not a superuser.

A superuser can read files of the machine and run programs on it (`COPY … TO PROGRAM`), so a hole in one statement would
be a hole in the machine. The superuser of initdb is used only in this module, and by people who repair something.
"""

from __future__ import annotations

from callsheet.plumbing.embedded.launch import connect
from callsheet.plumbing.embedded.layout import APPLICATION, Layout


async def ensure_application_role(layout: Layout, port: int, *, is_fresh: bool) -> None:
    """Creates or updates the role, under the start lock.

    `is_fresh`: the server was just started. Then the password is set again, because its file may be from a backup.
    """
    password = layout.find_password(APPLICATION)
    has_password = password is not None
    # The file is written first: after a crash between the two, the next start gives this password to the role.
    password = password or layout.make_password(APPLICATION)
    connection = await connect(layout, port)
    try:
        exists = await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", APPLICATION)
        if not exists:
            await connection.execute(f"CREATE ROLE {APPLICATION} LOGIN CREATEDB PASSWORD '{password}'")
        elif is_fresh or not has_password:
            await connection.execute(f"ALTER ROLE {APPLICATION} LOGIN CREATEDB NOSUPERUSER PASSWORD '{password}'")
    finally:
        await connection.close()
