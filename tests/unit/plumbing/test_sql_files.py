"""SQL files: what is a parameter and what only looks like one, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.plumbing.database import sql
from callsheet.plumbing.database.sql import Statement, parse, positional, statements


@pytest.mark.parametrize(
    ("text", "expected", "parameters"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("WHERE a = :a AND b = :b", "WHERE a = $1 AND b = $2", ("a", "b")),
        ("WHERE a = :a OR b = :b OR c = :a", "WHERE a = $1 OR b = $2 OR c = $1", ("a", "b")),
        ("SELECT :ids::uuid[]", "SELECT $1::uuid[]", ("ids",)),
        ("SELECT now()::date, x::text", "SELECT now()::date, x::text", ()),
        ("SELECT ':no', :yes", "SELECT ':no', $1", ("yes",)),
        ("SELECT 'it''s :no', :yes", "SELECT 'it''s :no', $1", ("yes",)),
        ('SELECT ":no" FROM ":no" WHERE :yes', 'SELECT ":no" FROM ":no" WHERE $1', ("yes",)),
        ("SELECT 1 -- not :this\n, :that", "SELECT 1 -- not :this\n, $1", ("that",)),
        ("SELECT /* nor\n:this */ :that", "SELECT /* nor\n:this */ $1", ("that",)),
        ("SELECT $$ :no $$, $x$ :no $$ :no $x$, :yes", "SELECT $$ :no $$, $x$ :no $$ :no $x$, $1", ("yes",)),
        ("SELECT items[1:2], :yes", "SELECT items[1:2], $1", ("yes",)),
        ("SELECT make_interval(secs => :s)", "SELECT make_interval(secs => $1)", ("s",)),
        ("SELECT -- it's\n:yes -- isn't it", "SELECT -- it's\n$1 -- isn't it", ("yes",)),
    ],
)
def test_parameters_become_numbers_and_lookalikes_stay(text: str, expected: str, parameters: tuple[str, ...]) -> None:
    assert positional(text) == (expected, parameters)


def test_a_file_holds_named_statements_of_one_kind_of_database() -> None:
    text = "-- database: pool\n\n-- name: first\nSELECT 1;\n\n-- name: second\n-- a remark\nSELECT :x\n"
    assert list(parse(text)) == [
        Statement("first", "pool", "SELECT 1", ()),
        Statement("second", "pool", "-- a remark\nSELECT $1", ("x",)),
    ]


def test_a_part_replaces_its_name_in_the_statements_of_its_file() -> None:
    part = "-- part: is_mine\n-- a remark\nowner = :owner\n  AND name <> '{is_mine}'\n"
    text = f"-- database: pool\n{part}-- name: find\nSELECT '{{is_mine}}' FROM jobs WHERE id = :id AND {{is_mine}}\n"
    own = "owner = $2\n  AND name <> '{is_mine}'"
    expected = f"SELECT '{{is_mine}}' FROM jobs WHERE id = $1 AND {own}"
    assert list(parse(text)) == [Statement("find", "pool", expected, ("id", "owner"))]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: first\nSELECT 1", "must say once"),
        ("-- database: centre\n-- name: first\nSELECT 1", "must say once"),
        ("-- database: pool\n-- name: a\nSELECT 1\n-- database: central\n-- name: b\nSELECT 1", "must say once"),
        ("-- database: pool\n-- nmae: lost\nSELECT 1\n-- name: found\nSELECT 2", "SQL before its first"),
        (
            "-- database: pool\n-- name: empty\n-- only a remark\n-- name: full\nSELECT 2",
            "nothing below '-- name: empty'",
        ),
        ("-- database: pool\n-- name: find\nSELECT {lost}", "uses {lost}, but has no '-- part: lost'"),
        ("-- database: pool\n-- part: unused\n1\n-- name: find\nSELECT 1", "a part that is not used"),
        ("-- database: pool\n-- part: a\n1\n-- part: a\n2\n-- name: find\nSELECT {a}", "named twice"),
    ],
)
def test_a_file_in_which_a_statement_would_get_lost_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        list(parse(text, where="room/statements.sql"))
    assert "room/statements.sql" in str(refused.value)


def test_a_name_that_comes_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "statements.sql").write_text("-- database: pool\n-- name: same\nSELECT 1\n-- name: same\nSELECT 2\n")
    monkeypatch.setattr(sql.resources, "files", lambda package: tmp_path)
    with pytest.raises(ValueError, match=r"room/statements.sql names same twice"):
        statements("room")
