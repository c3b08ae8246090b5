"""The figures of a benchmark and its machine, and how they are printed and saved."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from callsheet import __version__
from callsheet.plumbing.embedded.binaries import ENVIRONMENT, find_binaries

PACKAGES = (
    "asyncpg",
    "botocore",
    "fastapi",
    "granian",
    "obstore",
    "pgqueuer",
    "procrastinate",
    "psycopg",
    "pydantic",
    "uvloop",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure. A ceiling or a peer was measured in the same run, in slices that take turns with ours.

    Other load on the machine affects both alike, so ratios can be compared between runs. The figures cannot.
    """

    name: str
    value: float
    unit: str
    ceiling: float | None = None
    """The same with nothing of ours in it."""
    peer: float | None = None
    """Another way to do the same."""
    target: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None

    def as_json(self) -> dict[str, Any]:
        ratios = {
            "ratio_to_ceiling": _ratio(self.value, self.ceiling),
            "ratio_to_peer": _ratio(self.value, self.peer),
            "ratio": _ratio(self.value, self.target),
        }
        return {
            name: _rounded(value) if isinstance(value, float) else value
            for name, value in {**asdict(self), **ratios}.items()
            if value is not None
        }


def machine() -> dict[str, Any]:
    postgres = subprocess.run(
        [find_binaries().postgres, "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    return {
        "callsheet": __version__,
        "python": platform.python_version(),
        "postgres": postgres.stdout.strip(),
        "cpu_count": os.cpu_count(),
        "platform": platform.platform(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write(file: Path, results: Sequence[Result]) -> None:
    report = {"machine": machine(), "results": [result.as_json() for result in results]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def show(results: Sequence[Result]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("benchmark")
    compared = (column for kind in ("ceiling", "peer", "target") for column in (kind, f"of {kind}"))
    for column in ("value", "unit", *compared, "p50 ms", "p99 ms"):
        table.add_column(column, justify="left" if column == "unit" else "right")
    for result in results:
        row = result.as_json()
        shown = ("ceiling", "ratio_to_ceiling", "peer", "ratio_to_peer", "target", "ratio", "p50_ms", "p99_ms")
        table.add_row(result.name, _text(row["value"]), result.unit, *(_text(row.get(name)) for name in shown))
    Console(width=max(Console().width, 140)).print(table)


def _ratio(value: float, other: float | None) -> float | None:
    return value / other if other else None


def _rounded(value: float) -> float:
    """Rounds to four digits, because the fifth is noise on any machine."""
    return float(f"{value:.4g}")


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
