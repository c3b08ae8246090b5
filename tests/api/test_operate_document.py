"""docs/how-to/operate.md explains every loop."""

from __future__ import annotations

import re
from pathlib import Path

from callsheet.app.control_plane import ControlPlane

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"


def rows_under(heading: str) -> dict[str, str]:
    """The names in the first column of the section's table, each with its row."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for row in section.splitlines():
        if row.startswith("| `"):
            found |= dict.fromkeys(re.findall(r"`([a-z_0-9]+)`", row.split("|")[1]), row)
    return found


async def test_the_page_names_every_loop_and_how_often_it_runs(strict_plane: ControlPlane) -> None:
    rows = rows_under("What runs in the background")
    assert rows.keys() == {loop.name for loop in strict_plane.loops}
    for loop in strict_plane.loops:
        assert spoken(loop.interval_seconds) in rows[loop.name]


def spoken(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if seconds >= 600 else f"{seconds:g} s"
