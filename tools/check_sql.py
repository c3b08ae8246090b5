"""Checks the layout of the rooms' SQL: the rules of docs/sql.md. Part of `make lint`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "callsheet"
MAX_LINES = 60
LINE_LENGTH = 120
# A statement that must be longer says why, in its comment.
REASON = re.compile(r"^-- one statement because: \S", re.MULTILINE)
BLOCK = re.compile(r"^-- (?:name|part): (\w+)$", re.MULTILINE)
# Text whose letters are not SQL: quoted text, quoted names, comments.
OPAQUE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*")
WORD = re.compile(r"(?<![\w:.$])[A-Za-z_]\w*(?!\w)")
# Keywords that are never a name.
RESERVED = re.compile(
    r"AND|ARRAY|AS|ASC|BETWEEN|BY|CASE|COLLATE|CROSS|DELETE|DESC|DISTINCT|ELSE|EXCEPT|EXISTS|FOR|FROM|FULL|GROUP|HAVING"
    r"|ILIKE|IN|INNER|INSERT|INTERSECT|INTO|IS|JOIN|LATERAL|LIKE|LIMIT|NATURAL|NOT|NULL|ON|OR|ORDER|OUTER|RETURNING"
    r"|SELECT|SIMILAR|THEN|UNION|UPDATE|USING|WHEN|WHERE|WITH"
)
# Keywords that are names as well, like the column `first` and the function `left`.
OTHER_KEYWORD = re.compile(
    r"ALL|ANY|CONFLICT|CURRENT|DEFAULT|DO|END|ESCAPE|FILTER|FIRST|FOLLOWING|GROUPING|KEY|LAST|LEFT|LOCKED|MATERIALIZED|NO|NOTHING"
    r"|NOWAIT|NULLS|OF|OFFSET|ONLY|ORDINALITY|OVER|PARTITION|PRECEDING|RECURSIVE|RIGHT|ROW|ROWS|SET|SETS|SHARE|SKIP|TABLE|TO"
    r"|UNBOUNDED|VALUES|WINDOW|WITHIN"
)
# Each starts a line, unless its whole query is on one line.
STARTS_LINE = re.compile(r"\b(WHERE|GROUP BY|HAVING|ON CONFLICT)\b")
QUERY = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE)\b")
SET_OPERATION = re.compile(r"\b(UNION|EXCEPT|INTERSECT)\b")
CTE = re.compile(r"(?:\bWITH(?: RECURSIVE)?|\),)\s+(\w+)(?: \([^()]*\))? AS(?: NOT)?(?: MATERIALIZED)? \(")
# Names that say nothing about the rows, and adjectives without a noun, like `deleted`, `newest` and `found`.
VAGUE = re.compile(
    r"\w{1,2}|cte|data|entry|entries|guard|info|item|items|list|new|old|record|records|request|requests|result|results|row|rows"
    r"|temp|thing|things|tmp|value|values|[a-z]+ed|[a-z]+est|chosen|found|given|made|sent|taken|[a-z]+[0-9]+"
)
# Every column of a table, a CTE or a sub-select. A function that names its columns beside it may have `*`.
STAR = re.compile(r"(?:\bSELECT(?: DISTINCT)?|\bRETURNING|,)\s+(?:\w+\.)?\*(?!\s+FROM (?:unnest|jsonb_to_recordset)\()")

# A condition that is always true and runs a CTE to its end. A part with its name says what it is for.
RUNS = re.compile(r"count\(\*\) FROM (\w+)\)[^\n]*>= 0\b")


class Finding(NamedTuple):
    line: int
    text: str


def findings(source: str) -> list[Finding]:
    """Everything in a file of statements that breaks a rule."""
    sql = OPAQUE.sub(lambda match: re.sub(r"[^\n]", "x" if match[0][0] != "-" else " ", match[0]), source)
    return sorted(
        (
            *_lines(source),
            *_case(sql),
            *_clauses(sql),
            *_names(sql),
            *_stars(sql),
            *_runs(source, sql),
            *_too_long(source, sql),
        )
    )


def _lines(source: str) -> Iterator[Finding]:
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > LINE_LENGTH:
            yield Finding(number, f"The line has {len(line)} characters; the limit is {LINE_LENGTH}.")
        if "\t" in line or line != line.rstrip():
            yield Finding(number, "The line has a tab, or ends with a blank.")


def _case(sql: str) -> Iterator[Finding]:
    for match in WORD.finditer(sql):
        word = match[0]
        if len(word) > 1 and word.isupper() and not RESERVED.fullmatch(word) and not OTHER_KEYWORD.fullmatch(word):
            yield Finding(_line(sql, match.start()), f"{word} is not a keyword: write it in lower case.")
        if word.islower() and RESERVED.fullmatch(word.upper()):
            yield Finding(_line(sql, match.start()), f"{word} is a keyword: write it in upper case.")


def _clauses(sql: str) -> Iterator[Finding]:
    for match in STARTS_LINE.finditer(sql):
        before = sql[: match.start()].rpartition("\n")[2].strip()
        # Not a clause of a query: FILTER (WHERE …), ON CONFLICT (…) WHERE ….
        is_part = before.endswith("(") or before.startswith("ON CONFLICT")
        if before and not is_part and "\n" in _query_around(sql, match.start()):
            yield Finding(_line(sql, match.start()), f"{match[0]} starts a line, because its query has several lines.")


def _names(sql: str) -> Iterator[Finding]:
    for match in CTE.finditer(sql):
        if VAGUE.fullmatch(match[1]):
            yield Finding(_line(sql, match.start(1)), f"Name the CTE {match[1]} for the rows that it holds.")


def _stars(sql: str) -> Iterator[Finding]:
    for match in STAR.finditer(sql):
        yield Finding(_line(sql, match.end()), "Name the columns instead of `*`.")


def _runs(source: str, sql: str) -> Iterator[Finding]:
    for match in RUNS.finditer(sql):
        *_, block = BLOCK.finditer(source, 0, match.start())
        if block[0] not in (f"-- part: after_{match[1]}", f"-- part: runs_{match[1]}"):
            yield Finding(
                _line(sql, match.start()),
                f"Write {{after_{match[1]}}} or {{runs_{match[1]}}}, and this condition as the part of that name.",
            )


def _too_long(source: str, sql: str) -> Iterator[Finding]:
    starts = [*BLOCK.finditer(source)]
    for match, end in zip(starts, [*(each.start() for each in starts[1:]), len(source)], strict=True):
        lines = sum(bool(line.strip()) for line in sql[match.end() : end].splitlines())
        if lines > MAX_LINES and not REASON.search(source, match.end(), end):
            yield Finding(
                _line(source, match.start()),
                f"{match[1]} has {lines} lines; the limit is {MAX_LINES}. Split it, or say in its comment "
                "`-- one statement because: …`.",
            )


def _query_around(sql: str, place: int) -> str:
    """The query that a clause belongs to: from its SELECT, UPDATE, INSERT or DELETE to the end of the query."""
    depth, start = 0, place
    while start > 0 and not sql.startswith("\n\n", start - 1):
        start -= 1
        depth += {")": 1, "(": -1}.get(sql[start], 0)
        if depth < 0 or (depth == 0 and QUERY.match(sql, start)):
            break
    depth, end = 0, place + 1
    while end < len(sql) and not sql.startswith("\n\n", end):
        depth += {"(": 1, ")": -1}.get(sql[end], 0)
        if depth < 0 or (depth == 0 and SET_OPERATION.match(sql, end)):
            break
        end += 1
    return sql[start:end].strip("( \n")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def main() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{finding.line}: {finding.text}"
        for path in sorted(SOURCE.rglob("*statements.sql"))
        for finding in findings(path.read_text(encoding="utf-8"))
    ]
    for line in found:
        print(line)  # noqa: T201 - the report of a command
    if found:
        sys.exit(f"{len(found)} places break the layout of SQL (docs/sql.md)")


if __name__ == "__main__":
    main()
