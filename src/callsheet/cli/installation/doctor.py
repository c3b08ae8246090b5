"""`callsheet doctor`: checks every part and prints what to do about each problem."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec

import typer

from callsheet.cli.shared.console import out, print_json
from callsheet.settings import Settings, load_settings
from callsheet.settings.findings import SettingsFinding
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted

STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(
    worker: bool = typer.Option(
        False, "--worker", help="Check what a worker needs. Default if the server packages are not installed."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check settings, database, storage, clock, engine and providers, or what a worker needs. Exits 1 on a problem."""
    if worker or find_spec("asyncpg") is None:
        from callsheet.cli.fleet.worker_doctor import examine_worker

        findings = asyncio.run(examine_worker(load_settings()))
    else:
        findings = asyncio.run(_examine_installation(load_settings()))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(f"{finding.status:<8}", style=STYLES[finding.status], end=" ")
            out.print(f"{finding.part:<9}", style="bold", end=" ")
            out.print(finding.message)
            if finding.advice:
                out.print(f"{'':<18} → {finding.advice}")
        out.print(_summary(findings))
    if any(finding.status == "problem" for finding in findings):
        raise typer.Exit(1)


def _summary(findings: Sequence[SettingsFinding]) -> str:
    problems, warnings = (sum(each.status == status for each in findings) for status in ("problem", "warning"))
    if not problems and not warnings:
        return "Everything is healthy."
    parts = [counted(number, noun) for number, noun in ((problems, "problem"), (warnings, "warning")) if number]
    return f"Found {' and '.join(parts)}. The lines with → say what to do."


async def _examine_installation(settings: Settings) -> list[SettingsFinding]:
    from callsheet.operate.installation.examination import examine
    from callsheet.plumbing.installation.installation import NoInstallation, require_installation

    try:
        await require_installation(settings)
    except NoInstallation:
        raise
    except OperatorError:
        # The installation exists, or cannot be reached: the findings show which.
        pass
    return await examine(settings)
