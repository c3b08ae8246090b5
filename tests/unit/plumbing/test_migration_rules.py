"""The baseline is a schema to be read; each later migration can run while the previous release serves: the rules of
docs/sql.md that a test can check.
"""

from __future__ import annotations

import pytest

from callsheet.plumbing.database.migrate import Migration, known_migrations
from callsheet.plumbing.database.sql import commands
from tests.support.database.migration_rules import BASELINE, broken_baseline_rules, broken_rules

ANY = "-- needs code: any\n"
OUTSIDE = "-- needs code: any\n-- outside a transaction\n"


def test_new_migrations_keep_the_rules() -> None:
    broken = {
        (kind, migration.label): broken_rules(migration)
        for kind, last in BASELINE.items()
        for migration in known_migrations(kind)[last:]
    }
    assert {label: rules for label, rules in broken.items() if rules} == {}


def test_the_baseline_keeps_its_rules() -> None:
    broken = {
        (kind, migration.label): broken_baseline_rules(migration)
        for kind, last in BASELINE.items()
        for migration in known_migrations(kind)[:last]
    }
    assert len(broken) == sum(BASELINE.values())
    assert {label: rules for label, rules in broken.items() if rules} == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ALTER TABLE files ADD COLUMN color text", "belongs into the command that creates it"),
        ("DROP INDEX files_by_age", "belongs into the command that creates it"),
        ("CREATE OR REPLACE FUNCTION wallet_move() RETURNS void AS ''", "belongs into the command that creates it"),
        ("CREATE FUNCTION wallet_move_2() RETURNS void AS ''", "wallet_move_2 has a number in its name"),
        ("CREATE TABLE notes (id uuid PRIMARY KEY, color text CHECK (color <> ''))", "without a name (CHECK)"),
        ("CREATE TABLE notes (id uuid, UNIQUE (id))", "without a name (UNIQUE)"),
        ("CREATE TABLE notes (id uuid REFERENCES files (id))", "without a name (REFERENCES)"),
        ("CREATE TABLE notes (id uuid, FOREIGN KEY (id) REFERENCES files (id))", "without a name (REFERENCES)"),
    ],
)
def test_what_does_not_belong_into_a_baseline_is_found(text: str, reason: str) -> None:
    [sentence] = broken_baseline_rules(Migration(1, "first", text))
    assert reason in sentence


def test_a_baseline_of_tables_with_named_constraints_is_accepted() -> None:
    text = """
        CREATE TABLE notes (
            id    uuid PRIMARY KEY,
            file  uuid,
            CONSTRAINT one_note_per_file UNIQUE (file),
            CONSTRAINT file_exists FOREIGN KEY (file) REFERENCES files (id) ON DELETE CASCADE,
            CONSTRAINT file_is_not_the_note CHECK (file <> id)
        );
        COMMENT ON TABLE notes IS 'CHECK it, UNIQUE as it is.';
        CREATE UNIQUE INDEX notes_by_file ON notes (file);
    """
    assert broken_baseline_rules(Migration(1, "notes", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        ANY + "CREATE TABLE notes (id uuid PRIMARY KEY, at timestamptz NOT NULL); CREATE INDEX notes_at ON notes (at);",
        ANY + "CREATE TABLE notes (id uuid); ALTER TABLE notes ADD PRIMARY KEY (id); INSERT INTO notes VALUES (NULL)",
        ANY + "ALTER TABLE ai_jobs ADD COLUMN color text, ADD COLUMN weight integer NOT NULL DEFAULT 0",
        ANY + "ALTER TABLE ai_jobs ADD CONSTRAINT weighs CHECK (weight > 0) NOT VALID",
        ANY + "ALTER TABLE ai_jobs VALIDATE CONSTRAINT weighs",
        ANY + "CREATE FUNCTION wallet_move_2() RETURNS void LANGUAGE sql AS $$ UPDATE token_wallets SET balance = 0 $$",
        ANY + "-- The room's.\nCREATE FUNCTION f() RETURNS void AS $$ -- It isn't one.\nUPDATE files SET a = 1 $$",
        ANY + "-- An UPDATE of rows; in a comment.\nALTER TABLE ai_jobs SET (fillfactor = 60)",
        OUTSIDE + "DROP INDEX CONCURRENTLY IF EXISTS by_color;\nCREATE INDEX CONCURRENTLY by_color ON ai_jobs (color);",
        "-- needs code: 0090\nALTER TABLE ai_jobs DROP COLUMN color",
    ],
)
def test_allowed_migration_forms_are_accepted(text: str) -> None:
    assert broken_rules(Migration(99, "next", text)) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1", "says neither"),
        ("-- needs code: 0100\nSELECT 1", "needs code that comes after it"),
        (ANY + "ALTER TABLE ai_jobs DROP COLUMN color", "removes what earlier code may use"),
        (ANY + "ALTER TABLE ai_jobs RENAME COLUMN color TO colour", "removes what earlier code may use"),
        (ANY + "DROP FUNCTION wallet_move", "removes what earlier code may use"),
        (ANY + "CREATE INDEX by_color ON ai_jobs (color)", "keeps writers waiting"),
        (ANY + "CREATE INDEX CONCURRENTLY by_color ON ai_jobs (color)", "needs the line `-- outside a transaction`"),
        (OUTSIDE + "CREATE INDEX CONCURRENTLY by_color ON ai_jobs (color)", "may be there, invalid, after a crash"),
        (OUTSIDE + "ALTER TABLE ai_jobs ADD COLUMN color text", "belongs into a transaction"),
        (ANY + "ALTER TABLE ai_jobs ADD COLUMN color text NOT NULL", "NOT NULL without a default"),
        (ANY + "ALTER TABLE ai_jobs ADD COLUMN at timestamptz DEFAULT clock_timestamp()", "use a constant default"),
        (ANY + "ALTER TABLE ai_jobs ADD COLUMN run uuid REFERENCES runs (id)", "add it NOT VALID"),
        (ANY + "ALTER TABLE ai_jobs ADD CONSTRAINT weighs CHECK (weight > 0)", "VALIDATE it in the next migration"),
        (
            ANY + "ALTER TABLE a ADD CONSTRAINT b CHECK (c > 0) NOT VALID; ALTER TABLE a VALIDATE CONSTRAINT b",
            "added and validated in one transaction",
        ),
        (ANY + "ALTER TABLE ai_jobs ADD UNIQUE (color)", "builds an index under a lock"),
        (ANY + "ALTER TABLE ai_jobs ALTER COLUMN color TYPE integer", "add a column"),
        (ANY + "ALTER TABLE ai_jobs ALTER COLUMN color SET NOT NULL", "NOT VALID"),
        (ANY + "UPDATE ai_jobs SET color = 'red'", "change them later, in small steps of a loop"),
        (ANY + "CREATE OR REPLACE FUNCTION wallet_move() RETURNS void AS ''", "a name of its own"),
        (ANY + "LOCK TABLE ai_jobs", "holds a table"),
    ],
)
def test_forms_that_would_stop_the_previous_release_are_refused(text: str, reason: str) -> None:
    [sentence] = broken_rules(Migration(99, "next", text))
    assert reason in sentence


def test_a_migration_without_a_header_needs_the_code_that_knows_it() -> None:
    assert [Migration(7, "a", text).needs for text in ("SELECT 1", ANY, "-- needs code: 0005\n")] == [7, 0, 5]


def test_commands_end_at_semicolons_outside_of_quotes_comments_and_bodies() -> None:
    text = "-- a; b\nSELECT ';', \"x;y\";\n\nDO $body$ BEGIN; END $body$; /* ; */ SELECT 2"
    assert commands(text) == ["-- a; b\nSELECT ';', \"x;y\"", "DO $body$ BEGIN; END $body$", "/* ; */ SELECT 2"]
    assert commands("-- nothing;\n ; ") == []
