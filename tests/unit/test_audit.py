"""What `make audit` makes of a report: a vulnerability is never passed over, and silence is never taken for safety."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import Ran, judged

WELL: dict[str, Any] = {"name": "well", "version": "1.0", "vulns": []}
ILL: dict[str, Any] = {
    "name": "ill",
    "version": "2.4",
    "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7"], "aliases": [], "description": "…"}],
}
UNKNOWN: dict[str, Any] = {"name": "strange", "skip_reason": "Dependency not found on PyPI: strange (1.0)"}


def report(*packages: dict[str, Any]) -> Ran:
    return Ran(json.dumps({"dependencies": packages, "fixes": []}))


@pytest.mark.parametrize(
    ("ran", "lines"),
    [
        (report(WELL, WELL), ["No known vulnerability in 2 packages."]),
        (report(WELL, ILL), ["Vulnerable: ill 2.4: PYSEC-2014-8, fixed in 2.7"]),
        (
            report(WELL, UNKNOWN),
            [
                "Not audited: strange. Dependency not found on PyPI: strange (1.0)",
                "No known vulnerability in 1 packages.",
            ],
        ),
        (
            report(UNKNOWN, UNKNOWN),
            [
                "No advisories can be had here, so nothing was audited. Dependency not found on PyPI: strange (1.0)",
            ],
        ),
        (
            Ran("", "Traceback …\nConnectionError: no route\n"),
            ["No advisories can be had here, so nothing was audited. ConnectionError: no route"],
        ),
        (Ran(""), ["No advisories can be had here, so nothing was audited. pip-audit printed nothing."]),
    ],
    ids=["well", "vulnerable", "partly known", "unknown index", "no network", "nothing"],
)
def test_a_report_is_told_as_it_is(ran: Ran, lines: list[str]) -> None:
    assert judged(ran).lines == lines


@pytest.mark.parametrize(("ran", "code"), [(report(WELL), 0), (report(ILL), 1), (report(UNKNOWN), 0), (Ran(""), 0)])
def test_only_a_vulnerability_fails(monkeypatch: pytest.MonkeyPatch, ran: Ran, code: int) -> None:
    monkeypatch.setattr(audit, "run", lambda lock: ran)
    assert audit.main() == code


def test_it_audits_the_locks_that_are_installed() -> None:
    root = Path(__file__).parents[2]
    assert sorted(str(lock) for lock in audit.LOCKS) == sorted(
        f"locks/{each.name}" for each in root.glob("locks/*.txt")
    )
    assert "audit" in (root / "Makefile").read_text().partition("test-all:")[2].partition("\n\n")[0]
