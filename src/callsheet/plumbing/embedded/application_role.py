"""The role of Callsheet on the embedded server: it owns its databases, and is not a superuser.

A superuser can read files of the machine and run programs on it (`COPY … TO PROGRAM`), so a hole in one statement would
be a hole in the machine. The superuser of initdb is used only in this module, and by people who repair something.
"""

from __future__ import annotations

import asyncpg

from callsheet.plumbing.embedded.launch import connect
from callsheet.plumbing.embedded.layout import APPLICATION, Layout

# The superuser of initdb. Its rights cannot be revoked.
SUPERUSER_OID = 10
_FOREIGN = f"""
SELECT datname FROM pg_database
WHERE datdba = {SUPERUSER_OID} AND NOT datistemplate AND datallowconn AND datname <> 'postgres'
"""  # noqa: S608
# REASSIGN OWNED refuses initdb's superuser, who owns objects of the system. Objects that depend on a table follow that
# table.
_GIVE_OBJECTS = f"""
DO $$
DECLARE command text;
BEGIN
    FOR command IN
        SELECT format('ALTER %s %s OWNER TO {APPLICATION}', found.kind, found.name) FROM (
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                    WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END AS kind,
                c.oid::regclass::text AS name, 'pg_class'::regclass AS class, c.oid, c.relnamespace AS namespace
            FROM pg_class c WHERE c.relowner = {SUPERUSER_OID} AND c.relkind IN ('r', 'p', 'S', 'v', 'm', 'f', 'c')
            UNION ALL
            SELECT 'ROUTINE', p.oid::regprocedure::text, 'pg_proc'::regclass, p.oid, p.pronamespace
            FROM pg_proc p WHERE p.proowner = {SUPERUSER_OID}
            UNION ALL
            SELECT 'TYPE', t.oid::regtype::text, 'pg_type'::regclass, t.oid, t.typnamespace
            FROM pg_type t WHERE t.typowner = {SUPERUSER_OID} AND t.typtype IN ('e', 'd', 'r')
            UNION ALL
            SELECT 'SCHEMA', quote_ident(n.nspname), 'pg_namespace'::regclass, n.oid, n.oid
            FROM pg_namespace n WHERE n.nspowner = {SUPERUSER_OID}
        ) found JOIN pg_namespace n ON n.oid = found.namespace
        WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (
            SELECT FROM pg_depend d
            WHERE d.classid = found.class AND d.objid = found.oid AND d.deptype IN ('a', 'i', 'e')
        )
    LOOP
        EXECUTE command;
    END LOOP;
END $$
"""  # noqa: S608


async def ensure_application_role(layout: Layout, port: int, *, is_fresh: bool) -> None:
    """Creates or updates the role, under the start lock. A cluster of an earlier version gets the role too, and its
    objects change their owner.

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
        for row in await connection.fetch(_FOREIGN):
            await _give(layout, port, connection, row["datname"])
    finally:
        await connection.close()


async def _give(layout: Layout, port: int, maintenance: asyncpg.Connection[asyncpg.Record], database: str) -> None:
    connection = await connect(layout, port, database)
    try:
        await connection.execute(_GIVE_OBJECTS)
    finally:
        await connection.close()
    # This is last, so that the next start hands over a database that still belongs to the superuser.
    quoted = await maintenance.fetchval("SELECT quote_ident($1)", database)
    await maintenance.execute(f"ALTER DATABASE {quoted} OWNER TO {APPLICATION}")
