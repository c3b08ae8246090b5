"""The modules of the product, by the names that tests use for them.

    for name, path in source_files().items(): ...

A module of the package `callsheet` is named from its room on, like `jobs/machine/states.py`. A module of a package
beside it has the package in its name, like `callsheet_demo/clip.py`.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "src"


def source_files() -> dict[str, Path]:
    return {
        path.relative_to(FOLDER).as_posix().removeprefix("callsheet/"): path for path in sorted(FOLDER.rglob("*.py"))
    }
