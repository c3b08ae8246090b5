"""The rules for migrations of docs/sql.md, as far as they can be checked in a text. Violations are sentences.

The baseline has rules of its own: it is the schema of the first release, written to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from callsheet.plumbing.database.migrate import Migration
from callsheet.plumbing.database.sql import DatabaseKind, commands

# The last migration of the baseline. Until 0.1.0 is released, a change of the schema edits the baseline.
BASELINE: dict[DatabaseKind, int] = {"central": 10, "pool": 12}
# (a forbidden command, the reason and what to do instead). Commands are in capitals, with single spaces.
REFUSED = [
    (r"^(UPDATE|DELETE|TRUNCATE) ", "changes rows that are in use: change them later, in small steps of a loop"),
    (r"^(LOCK|VACUUM|CLUSTER|REINDEX) ", "holds a table for as long as it takes"),
    (r"^CREATE OR REPLACE ", "changes what the previous release calls: give the new version a name of its own"),
    (r"^ALTER TABLE .* ALTER (COLUMN )?\w+ (SET DATA )?TYPE ", "writes the whole table anew: add a column"),
    (r"^ALTER TABLE .* SET NOT NULL", "reads the whole table: add a CHECK (… IS NOT NULL) NOT VALID"),
    (r"^ALTER TABLE .* ADD (COLUMN )?[^(]* GENERATED ", "writes the whole table anew"),
    (r"^ALTER TABLE .* ADD COLUMN [^,]* DEFAULT [A-Z_]+ ?\(", "writes the whole table anew: use a constant default"),
    (
        r"^ALTER TABLE .* ADD COLUMN [^,]* (REFERENCES|CHECK|UNIQUE|PRIMARY KEY)\b",
        "reads the whole table: add it NOT VALID",
    ),
    (
        r"^ALTER TABLE .* ADD (CONSTRAINT \w+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)(?! USING INDEX)",
        "builds an index under a lock",
    ),
]
REMOVES = re.compile(r"^DROP (?!INDEX CONCURRENTLY)|^ALTER \w+ .* (DROP|RENAME) |^REVOKE ")
NEW_COLUMN = re.compile(r"ADD COLUMN (?:IF NOT EXISTS )?(\w+) ([^,]*)")
NEW_CONSTRAINT = re.compile(r"^ALTER TABLE .* ADD CONSTRAINT \w+ (?:CHECK|FOREIGN KEY)\b")
CREATED_TABLE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+) ON (\w+)")
TARGET = re.compile(r"^(?:ALTER TABLE (?:ONLY )?|UPDATE |DELETE FROM |TRUNCATE (?:TABLE )?)(\w+)")


NAMED = re.compile(r"CONSTRAINT \w+ (?:UNIQUE|CHECK|EXCLUDE|FOREIGN KEY \([^)]*\) REFERENCES)")
UNNAMED = re.compile(r"\b(UNIQUE|CHECK|EXCLUDE|REFERENCES)\b")
REPAIRS = re.compile(r"^(ALTER|DROP|UPDATE|DELETE|CREATE OR REPLACE) |CONCURRENTLY| IF (NOT )?EXISTS ")
VERSIONED = re.compile(r"^CREATE (?:FUNCTION|TRIGGER|VIEW|TABLE|INDEX) (\w+_[0-9]+)\b")


def broken_baseline_rules(migration: Migration) -> list[str]:
    texts = [plain(command) for command in commands(migration.sql)]
    found = [f"{text[:80]} … belongs into the command that creates it" for text in texts if REPAIRS.search(text)]
    found += [f"{match[1].lower()} has a number in its name" for text in texts if (match := VERSIONED.match(text))]
    for text in texts:
        if (table := CREATED_TABLE.match(text)) and (unnamed := UNNAMED.search(NAMED.sub("", text))):
            found.append(f"{table[1].lower()} has a constraint without a name ({unnamed[1]})")
    return found


def broken_rules(migration: Migration) -> list[str]:
    texts = [plain(command) for command in commands(migration.sql)]
    created = {match[1] for text in texts if (match := CREATED_TABLE.match(text))}
    # A table that the migration itself creates is not in use yet.
    in_use = [text for text in texts if not ((target := TARGET.match(text)) and target[1] in created)]
    found = [*_header(migration, in_use), *_transaction(migration, texts)]
    for text in in_use:
        found += [f"{text[:80]} … {reason}" for pattern, reason in REFUSED if re.search(pattern, text)]
        found += _columns(text)
        if NEW_CONSTRAINT.match(text) and not text.endswith("NOT VALID"):
            found.append(
                f"{text[:80]} … reads the whole table: add it NOT VALID, and VALIDATE it in the next migration"
            )
        if (index := INDEX.match(text)) and not index[1] and index[3] not in created:
            found.append(f"{text[:80]} … keeps writers waiting: CREATE INDEX CONCURRENTLY, outside a transaction")
    validated = {match[1] for text in texts if (match := re.search(r"VALIDATE CONSTRAINT (\w+)", text))}
    added = {match[1] for text in texts if (match := re.search(r"ADD CONSTRAINT (\w+)", text))}
    found += [f"{name} is added and validated in one transaction" for name in sorted(validated & added)]
    return found


def plain(command: str) -> str:
    """The text in capitals, without comments, strings and function bodies."""
    text = re.sub(
        r"--[^\n]*|\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'",
        lambda part: "" if part[0][0] == "-" else "''",
        command,
        flags=re.DOTALL,
    )
    return re.sub(r"\s+", " ", text).strip().upper()


def _header(migration: Migration, texts: list[str]) -> Iterator[str]:
    removing = [text for text in texts if REMOVES.search(text)]
    if migration.needs == migration.version:
        yield "says neither `-- needs code: any` nor `-- needs code: NNNN`"
    elif removing and migration.needs == 0:
        yield f"removes what earlier code may use ({removing[0][:60]}): name the migration whose code stopped using it"
    elif migration.needs > migration.version:
        yield "needs code that comes after it"


def _transaction(migration: Migration, texts: list[str]) -> Iterator[str]:
    concurrent = [text for text in texts if " CONCURRENTLY " in text]
    if migration.is_in_transaction:
        yield from (f"{text[:80]} … needs the line `-- outside a transaction`" for text in concurrent)
        return
    yield from (f"{text[:80]} … belongs into a transaction" for text in texts if text not in concurrent)
    for place, text in enumerate(texts):
        index = INDEX.match(text)
        if index and f"DROP INDEX CONCURRENTLY IF EXISTS {index[2]}" not in texts[:place]:
            yield f"{index[2]} may be there, invalid, after a crash: DROP INDEX CONCURRENTLY IF EXISTS it first"


def _columns(text: str) -> Iterator[str]:
    for name, rest in NEW_COLUMN.findall(text):
        if "NOT NULL" in rest and "DEFAULT" not in rest:
            yield f"column {name} is NOT NULL without a default: the previous release does not write it"
