"""Checks whether the role of a connection may use Callsheet's tables, and names the missing GRANTs.

An account that serves need not own the tables: another account may have migrated them.
"""

from __future__ import annotations

import asyncpg

from callsheet.plumbing.database.errors import DatabaseError

# Read from the catalog: without USAGE on a schema its tables seem not to exist, and the database looks empty.
PRIVILEGES = """
SELECT quote_ident(n.nspname) AS schema, quote_ident(current_user) AS role,
    quote_ident(pg_get_userbyid(identity.relowner)) AS owner,
    has_schema_privilege(n.oid, 'USAGE') AND NOT EXISTS (
        SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND CASE c.relkind
            WHEN 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                               AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
            WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE')
            ELSE false END
    ) AND NOT EXISTS (
        SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND NOT has_function_privilege(p.oid, 'EXECUTE')
    ) AS is_enough
FROM pg_class identity JOIN pg_namespace n ON n.oid = identity.relnamespace
WHERE identity.relname = 'database_identity' AND identity.relkind = 'r'
ORDER BY n.nspname = current_schema() DESC NULLS LAST, n.nspname = 'public' DESC
LIMIT 1
"""


async def require_privileges(connection: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    """Raises if a privilege is missing. A database without Callsheet's tables needs none."""
    found = await connection.fetchrow(PRIVILEGES)
    if found is not None and not found["is_enough"]:
        grants = " ".join(grants_for(found["role"], found["owner"], found["schema"]))
        raise DatabaseError(
            f"Role {found['role']} may not use all tables of database {name}. Run this in that database as their owner "
            f"{found['owner']}: {grants}"
        )


def grants_for(role: str, owner: str, schema: str) -> list[str]:
    """Grants for existing tables and for tables of later migrations. Names are quoted by the caller."""
    later = f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}"
    return [
        f"GRANT USAGE ON SCHEMA {schema} TO {role};",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};",
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};",
        f"{later} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role};",
        f"{later} GRANT USAGE ON SEQUENCES TO {role};",
    ]
