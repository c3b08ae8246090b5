"""Brings a database to the schema this version knows, and refuses one it does not know.

There are two kinds of database, `central` and `pool`, and any number of pools. Each records which migrations it has
and which database it is, so that a DSN given by mistake (a pool twice, central as a pool, a foreign database)
is refused before anything is written.

The first migrations are the schema of release 0.1.0, one file for each room that owns tables. A migration of a later
release runs while control planes serve, those of the previous release too. The rules that make this safe are in
docs/sql.md. Two of them are lines at the top of a migration: `-- needs code: any` and `-- outside a transaction`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.privileges import require_privileges
from callsheet.plumbing.database.sql import DatabaseKind, commands
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Any constant works, if it is the same in every process that migrates.
LOCK = 0x63616C6C
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_NEEDS = re.compile(r"^-- needs code: (any|\d{4})$", re.MULTILINE)
_OUTSIDE = re.compile(r"^-- outside a transaction$", re.MULTILINE)

# A migration that waits for a lock on a table blocks every later statement on that table. So it waits for this time,
# lets the others go first, and tries again.
LOCK_SECONDS = 2.0
PAUSE_SECONDS = 1.0
LOCK_ATTEMPTS = 200

BOOKKEEPING = """
CREATE TABLE schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    needs       integer NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE schema_migrations IS 'A migration that this database has.';
COMMENT ON COLUMN schema_migrations.checksum IS 'SHA-256 of its text. A released migration is never changed.';
COMMENT ON COLUMN schema_migrations.needs IS
    'The last migration that code must know to work on this schema. 0: all earlier code works on it.';

CREATE TABLE database_identity (
    is_only  boolean PRIMARY KEY DEFAULT true,
    kind     text NOT NULL,
    name     text NOT NULL,
    CONSTRAINT there_is_one_identity CHECK (is_only),
    CONSTRAINT kind_is_known CHECK (kind IN ('central', 'pool'))
);
COMMENT ON TABLE database_identity IS
    'Which database this is, in one row, so that a DSN that was given by mistake is refused.';
COMMENT ON COLUMN database_identity.name IS '`central`, or the name of the pool.';
"""


class SchemaUnknown(DatabaseError):
    """This version of Callsheet cannot work with the schema of a database."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def needs(self) -> int:
        """The last migration that code must know to work on this schema; 0 if all earlier code works on it."""
        found = _NEEDS.search(self.sql)
        if found is None:
            return self.version
        return 0 if found[1] == "any" else int(found[1])

    @property
    def is_in_transaction(self) -> bool:
        return _OUTSIDE.search(self.sql) is None

    @property
    def label(self) -> str:
        return f"{self.version:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class SchemaState:
    version: int
    pending: tuple[Migration, ...]


def known_migrations(kind: DatabaseKind) -> list[Migration]:
    found = []
    for file in resources.files("callsheet.plumbing.migrations").joinpath(kind).iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the {kind} migrations are not numbered 1, 2, 3, …")
    return found


async def migrate(dsn: str, kind: DatabaseKind, name: str, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Applies the missing migrations, each in its own transaction, and returns them.

    Any number of processes may call it at once: they take turns under an advisory lock.
    """
    known = known_migrations(kind) if known is None else known
    async with connected(dsn, name) as connection:
        await connection.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        await _take_turn(connection)
        state = await _state(connection, kind, name, known)
        if state is None:
            await _identify(connection, kind, name)
            state = SchemaState(0, tuple(known))
        for migration in state.pending:
            await _apply(connection, name, migration)
        return list(state.pending)


async def inspect(dsn: str, kind: DatabaseKind, name: str) -> SchemaState:
    """The applied and the missing migrations of the database. Raises SchemaUnknown if it is not ours or is newer."""
    known = known_migrations(kind)
    async with connected(dsn, name) as connection:
        return await _state(connection, kind, name, known) or SchemaState(0, tuple(known))


async def require_current(dsn: str, kind: DatabaseKind, name: str) -> None:
    state = await inspect(dsn, kind, name)
    if state.pending:
        labels = ", ".join(migration.label for migration in state.pending)
        raise SchemaUnknown(f"Database {name} lacks the migrations {labels}. Run: callsheet db migrate")


async def require_right_to_migrate(connection: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    """Checks whether the user of the connection may create tables, or alter those that there are."""
    owner = await connection.fetchval("SELECT tableowner FROM pg_tables WHERE tablename = 'database_identity'")
    if owner is None:
        if not await connection.fetchval("SELECT has_schema_privilege(current_schema(), 'CREATE')"):
            raise _may_not_create_tables(name, "permission denied")
    elif not await connection.fetchval("SELECT pg_has_role($1::name, 'USAGE')", owner):
        raise _may_not_migrate(name, "permission denied", owner)


async def _identify(connection: asyncpg.Connection[asyncpg.Record], kind: DatabaseKind, name: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(BOOKKEEPING)
            await connection.execute("INSERT INTO database_identity (kind, name) VALUES ($1, $2)", kind, name)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        # Since PostgreSQL 15 only the owner of a database may create tables in its schema `public`.
        raise _may_not_create_tables(name, str(error)) from error


def _may_not_create_tables(name: str, reason: str) -> DatabaseError:
    return DatabaseError(
        f"The user of database {name} may not create tables there ({reason}). Make it the owner: ALTER DATABASE … "
        "OWNER TO …"
    )


def _may_not_migrate(name: str, reason: str, owner: str) -> DatabaseError:
    return DatabaseError(
        f"The user of database {name} may not change its schema ({reason}). Run `callsheet db migrate` with a DSN of "
        f"the owner of its tables, {owner}."
    )


async def _take_turn(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Takes the advisory lock by polling: a session that waits for the lock would hold a snapshot, and CREATE INDEX
    CONCURRENTLY of the session that has the lock waits for all snapshots.
    """
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):  # noqa: ASYNC110 - nothing reports it
        await asyncio.sleep(0.1)


async def _apply(connection: asyncpg.Connection[asyncpg.Record], name: str, migration: Migration) -> None:
    try:
        for attempt in range(1, LOCK_ATTEMPTS + 1):
            try:
                return await (_apply_whole if migration.is_in_transaction else _apply_apart)(connection, migration)
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                if attempt == LOCK_ATTEMPTS:
                    raise
                log.info("migration.waits_for_lock", database=name, migration=migration.label, attempt=attempt)
                await asyncio.sleep(PAUSE_SECONDS)
    except asyncpg.InsufficientPrivilegeError as error:
        owner = await connection.fetchval("SELECT tableowner FROM pg_tables WHERE tablename = 'database_identity'")
        raise _may_not_migrate(name, str(error), owner) from error
    except asyncpg.LockNotAvailableError as error:
        raise DatabaseError(
            f"Migration {migration.label} of database {name} did not get its lock in {LOCK_ATTEMPTS} attempts: a "
            "session keeps a transaction open. Nothing was changed. Find the session in pg_stat_activity, end it and "
            "run: callsheet db migrate"
        ) from error
    except asyncpg.PostgresError as error:
        left = "nothing behind" if migration.is_in_transaction else "what ran before, which running it again replaces"
        raise DatabaseError(
            f"Migration {migration.label} of database {name} failed and left {left}: {error}. Correct the cause and "
            "run: callsheet db migrate"
        ) from error


async def _apply_whole(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        await connection.execute(migration.sql)
        await _record(connection, migration)


async def _apply_apart(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    """Applies a migration outside a transaction. There is no lock timeout: CREATE INDEX CONCURRENTLY waits for
    others and delays none.
    """
    for command in commands(migration.sql):
        await connection.execute(command)
    async with connection.transaction():
        await _record(connection, migration)


async def _record(connection: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    await connection.execute(
        "INSERT INTO schema_migrations (version, name, checksum, needs) VALUES ($1, $2, $3, $4)",
        migration.version,
        migration.name,
        migration.checksum,
        migration.needs,
    )


async def _state(
    connection: asyncpg.Connection[asyncpg.Record], kind: DatabaseKind, name: str, known: Sequence[Migration]
) -> SchemaState | None:
    """The state of a database that is ours, or None for an empty one."""
    await require_privileges(connection, name)
    if await connection.fetchval("SELECT to_regclass('database_identity')") is None:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename LIMIT 3"
        )
        if tables:
            names = ", ".join(row["tablename"] for row in tables)
            raise SchemaUnknown(
                f"Database {name} is not empty and not Callsheet's (it has {names}). Name an empty database."
            )
        return None
    identity = await connection.fetchrow("SELECT kind, name FROM database_identity")
    if identity is not None and (identity["kind"], identity["name"]) != (kind, name):
        raise SchemaUnknown(
            f"That database is {identity['kind']} {identity['name']!r} already. It cannot be {kind} {name!r} too."
        )
    # All columns: a database of an unreleased build may lack one, and must still be refused with a clear sentence.
    return _compare(name, known, await connection.fetch("SELECT * FROM schema_migrations ORDER BY version"))


def _compare(name: str, known: Sequence[Migration], rows: Sequence[asyncpg.Record]) -> SchemaState:
    by_version = {migration.version: migration for migration in known}
    for row in rows:
        migration = by_version.get(row["version"])
        label = f"{row['version']:04}_{row['name']}"
        if migration is not None and migration.checksum != row["checksum"]:
            # A released migration is never changed.
            raise SchemaUnknown(
                f"Database {name} was made by an unreleased build of Callsheet: it has another text of the migration "
                f"{label}. It cannot be upgraded. Create a new one: name an empty database in its DSN, or, if "
                "Callsheet runs PostgreSQL itself, start with another data directory (CALLSHEET_HOME)."
            )
        if migration is None:
            if row["needs"] <= max(by_version, default=0):
                continue
            raise SchemaUnknown(
                f"Database {name} has the migration {label}, which this version of Callsheet cannot work with: a "
                "newer version wrote it. Upgrade Callsheet; a schema never goes back."
            )
    applied = {row["version"] for row in rows}
    pending = tuple(migration for migration in known if migration.version not in applied)
    return SchemaState(max(applied, default=0), pending)
