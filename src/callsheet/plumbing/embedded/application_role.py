"""The role that Callsheet works as on the embedded server: owner of its databases, and no superuser.

A superuser reads files of the machine and runs programs on it (`COPY … TO PROGRAM`), so one hole in a statement would
be a hole in the machine. The superuser that initdb made is used here only, and by people who repair something.
"""

from __future__ import annotations

import asyncpg

from callsheet.plumbing.embedded.launch import connect
from callsheet.plumbing.embedded.layout import APPLICATION, Layout

# initdb's own; its rights cannot be taken away.
SUPERUSER_OID = 10
_FOREIGN = f"""
SELECT datname FROM pg_database
WHERE datdba = {SUPERUSER_OID} AND NOT datistemplate AND datallowconn AND datname <> 'postgres'
"""  # noqa: S608
# REASSIGN OWNED refuses initdb's superuser, who owns what the system needs. What follows its table is left to it.
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
    """Under the start lock. A cluster of an earlier version gets the role too, and what is in it changes its owner.

    `is_fresh`: the server was just started. Then the password is set again: its file may have been put back from a
    backup.
    """
    password = layout.find_password(APPLICATION)
    has_password = password is not None
    # Written first: a crash between the two leaves a password that the next start gives to the role.
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
    # Last, so that a database that still belongs to the superuser is handed over by the next start.
    quoted = await maintenance.fetchval("SELECT quote_ident($1)", database)
    await maintenance.execute(f"ALTER DATABASE {quoted} OWNER TO {APPLICATION}")
