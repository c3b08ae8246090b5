"""What `make audit` makes of a report: a vulnerability is never passed over, and silence is never taken for safety."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import Ran, judged, judged_npm

AUDIT = 'summary.run("audit", [sys.executable, "-m", "tools.audit"])'
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
def test_a_report_is_printed_unchanged(ran: Ran, lines: list[str]) -> None:
    assert judged(ran).lines == lines


@pytest.mark.parametrize(("ran", "code"), [(report(WELL), 0), (report(ILL), 1), (report(UNKNOWN), 0), (Ran(""), 0)])
def test_only_a_vulnerability_fails(monkeypatch: pytest.MonkeyPatch, ran: Ran, code: int) -> None:
    monkeypatch.setattr(audit, "run", lambda lock: ran)
    monkeypatch.setattr(audit, "run_npm", lambda lock: npm_report())
    assert audit.main() == code


FLAW = {"title": "Prototype pollution", "url": "https://github.com/advisories/GHSA-1", "severity": "high"}
NPM_ILL = {"ill": {"range": "<1.2.6", "via": [FLAW]}, "above": {"range": "*", "via": ["ill"]}}


def npm_report(**found: dict[str, Any]) -> Ran:
    """As npm 7 and later write it."""
    return Ran(json.dumps({"vulnerabilities": found, "metadata": {"dependencies": {"prod": 2, "total": 3}}}))


@pytest.mark.parametrize(
    ("ran", "lines"),
    [
        (npm_report(), ["No known vulnerability in 3 packages."]),
        (
            npm_report(**NPM_ILL),
            ["Vulnerable: ill <1.2.6: Prototype pollution (https://github.com/advisories/GHSA-1)"],
        ),
        (
            Ran(json.dumps({"message": "405 Method Not Allowed", "statusCode": 405}), "npm error audit endpoint …"),
            ["No advisories can be had here, so nothing was audited. 405 Method Not Allowed"],
        ),
        (
            Ran("", "npm error code ENOTFOUND\nnpm error network …\n"),
            ["No advisories can be had here, so nothing was audited. npm error code ENOTFOUND"],
        ),
        (Ran(""), ["No advisories can be had here, so nothing was audited. npm printed nothing."]),
    ],
    ids=["well", "vulnerable", "registry without advisories", "no network", "nothing"],
)
def test_a_report_of_npm_is_printed_unchanged(ran: Ran, lines: list[str]) -> None:
    assert judged_npm(ran).lines == lines


def test_a_vulnerability_of_npm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "run", lambda lock: report(WELL))
    monkeypatch.setattr(audit, "run_npm", lambda lock: npm_report(**NPM_ILL))
    assert audit.main() == 1


def test_the_audit_covers_every_lock_file() -> None:
    root = Path(__file__).parents[3]
    assert sorted(str(lock) for lock in audit.LOCKS) == sorted(
        f"locks/{each.name}" for each in root.glob("locks/*.txt")
    )
    found = {
        str(each.relative_to(root)) for each in root.glob("web/**/package-lock.json") if "node_modules" not in str(each)
    }
    assert {str(lock) for lock in audit.NPM_LOCKS} == found
    assert AUDIT in (root / "tools/test_all.py").read_text()
