"""The layout of SQL: what the check of `make lint` finds, and what it accepts."""

from __future__ import annotations

import pytest

from tools.check_sql import LINE_LENGTH, MAX_LINES, findings

GOOD = """-- database: pool
-- owns: jobs

-- name: find
SELECT id FROM jobs WHERE id = :id AND name <> 'where it is' -- from here

-- name: list
-- Newest first, from the table of jobs.
WITH page AS MATERIALIZED (
    SELECT id, name FROM jobs
    WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR id < :before)
    ORDER BY id DESC LIMIT :limit
), event_count (job_id, events) AS (
    SELECT e.job_id, count(*) FILTER (WHERE e.event <> 'x') FROM job_events e
    GROUP BY e.job_id
)
SELECT page.id, left(page.name, 10) AS name, (SELECT events FROM event_count WHERE job_id = page.id) AS events
FROM page
UNION ALL
SELECT id, name, 0 FROM old_jobs WHERE tenant_id = :tenant_id

-- part: after_deleted_jobs
(SELECT count(*) FROM deleted_jobs) >= 0

-- name: add
WITH new_jobs AS (
    SELECT * FROM unnest(:ids::uuid[], :names::text[]) AS job (id, name)
), deleted_jobs AS (
    DELETE FROM jobs USING new_jobs WHERE jobs.id = new_jobs.id
)
INSERT INTO jobs (id, name)
SELECT id, name || 2 * 3 FROM new_jobs
WHERE {after_deleted_jobs}
ON CONFLICT (id) WHERE name IS NOT NULL DO UPDATE SET name = excluded.name
"""


def texts(sql: str) -> list[str]:
    return [finding.text for finding in findings(f"-- database: pool\n\n-- name: one\n{sql}\n")]


def test_a_file_that_follows_the_rules_has_no_findings() -> None:
    assert list(findings(GOOD)) == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select id FROM jobs", "select is a keyword: write it in upper case."),
        ("SELECT COUNT(*) FROM jobs", "COUNT is not a keyword: write it in lower case."),
        ("SELECT id\nFROM jobs WHERE id = 1", "WHERE starts a line, because its query has several lines."),
        ("SELECT (\n    SELECT id\n    FROM jobs GROUP BY id\n)", "GROUP BY starts a line"),
        ("INSERT INTO jobs (id)\nVALUES (:id) ON CONFLICT DO NOTHING", "ON CONFLICT starts a line"),
        ("WITH x AS (SELECT 1)\nSELECT 1 FROM x", "Name the CTE x for the rows that it holds."),
        ("WITH t2 AS (SELECT 1)\nSELECT 1 FROM t2", "Name the CTE t2"),
        ("SELECT id FROM jobs\nWHERE (SELECT count(*) FROM charge) >= 0", "Write {after_charge} or {runs_charge}"),
        ("WITH job AS (SELECT 1), data AS (\n    SELECT 1\n)\nSELECT 1 FROM job", "Name the CTE data"),
        ("WITH request AS (SELECT 1)\nSELECT 1 FROM request", "Name the CTE request"),
        ("WITH deleted AS (SELECT 1)\nSELECT 1 FROM deleted", "Name the CTE deleted"),
        ("SELECT * FROM jobs", "Name the columns instead of `*`."),
        ("SELECT id FROM (SELECT DISTINCT * FROM jobs) job", "Name the columns"),
        ("SELECT job.* FROM jobs job", "Name the columns"),
        ("SELECT 1 AS one,\n    job.*\nFROM jobs job", "Name the columns"),
        ("DELETE FROM jobs RETURNING *", "Name the columns"),
        ("DELETE FROM jobs j RETURNING j.*", "Name the columns"),
        (f"SELECT '{'x' * LINE_LENGTH}'", f"The line has {LINE_LENGTH + 9} characters; the limit is {LINE_LENGTH}."),
        ("SELECT 1 ", "The line has a tab, or ends with a blank."),
    ],
)
def test_a_broken_rule_is_found(sql: str, found: str) -> None:
    [text] = texts(sql)
    assert text.startswith(found)


def test_a_long_statement_needs_a_reason() -> None:
    columns = ",\n".join("    id" for _ in range(MAX_LINES - 1))
    assert texts(f"SELECT\n{columns}") == []
    long = f"SELECT\n{columns},\n    id\nFROM jobs"
    [text] = texts(long)
    assert text.startswith(f"one has {MAX_LINES + 2} lines; the limit is {MAX_LINES}.")
    assert texts(f"-- one statement because: the locks must be taken together.\n{long}") == []
    assert texts(f"-- one statement because:\n{long}") != []


def test_a_finding_names_its_line() -> None:
    [finding] = findings("-- database: pool\n\n-- name: one\nSELECT 1\n    + 2 as three\n")
    assert finding.line == 5
