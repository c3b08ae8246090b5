"""Measures the source: how large it is, and how many files one change or one paid job touches.

`make lint` prints the table; it never fails. `--verbose` names what is over a target. `--traced` runs one paid job on a
real control plane with a real worker, and counts the modules that its requests enter.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.check_sql import MAX_LINES
from tools.source_figures import Module, SqlStatement, modules_of, modules_per_folder, statements_of, uses_of

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FOLDER_MODULES = 20
SMALL_LINES = 30
MODULE_LINES = 400
FUNCTION_LINES = 70
LISTED_STATEMENTS = 10
COLUMN_FILES = 6
# Columns of a job, each as an example of what another column would touch. The first one decides who gets a job. The
# second one is chosen by clients, and also in the lists of the library and of operators, in tasks and in commands.
COLUMNS = ("concurrency_identifier", "client_reference")
# What stores a column, returns it with the job and finds a user's jobs by it: the schema, the jobs room, its messages.
OF_THE_JOB = ("callsheet/plumbing/migrations/", "callsheet/jobs/", "callsheet/wire/jobs.py")


class Figure(NamedTuple):
    name: str
    value: str
    target: str = ""
    # What is over the target, for `--verbose`.
    details: tuple[str, ...] = ()


def figures(source: Path) -> list[Figure]:
    modules, statements = modules_of(source), statements_of(source)
    return [
        *_sizes(source, modules),
        *(_column(source, column) for column in COLUMNS),
        _longest_statement(source, statements),
    ]


def _sizes(source: Path, modules: Sequence[Module]) -> list[Figure]:
    folders = modules_per_folder(modules)
    full = [(folder, count) for folder, count in folders.most_common() if count > FOLDER_MODULES]
    small = [module for module in modules if module.lines < SMALL_LINES and module.path.name != "__init__.py"]
    large = [module for module in modules if module.lines > MODULE_LINES]
    functions = sorted(((each, module) for module in modules for each in module.functions), key=lambda f: -f[0].lines)
    long = [(function, module) for function, module in functions if function.lines > FUNCTION_LINES]
    longest = functions[0][0].lines if functions else 0
    return [
        Figure("modules", f"{len(modules):,}"),
        Figure("lines", f"{sum(module.lines for module in modules):,}"),
        Figure(
            "code lines: no blank lines, comments, imports, docstrings",
            f"{sum(module.code_lines for module in modules):,}",
        ),
        Figure(
            f"folders with more than {FOLDER_MODULES} modules",
            f"{len(full)} (most: {max(folders.values(), default=0)})",
            "0",
            tuple(f"{count:4} {folder.relative_to(source)}" for folder, count in full),
        ),
        Figure(f"modules under {SMALL_LINES} lines", str(len(small)), details=_named(source, small)),
        Figure(f"modules over {MODULE_LINES} lines", str(len(large)), "0", _named(source, large)),
        Figure(
            f"functions over {FUNCTION_LINES} lines",
            f"{len(long)} (longest: {longest})",
            "0",
            tuple(f"{f.lines:4} {module.path.relative_to(source)}:{f.line} {f.name}" for f, module in long),
        ),
    ]


def _named(source: Path, modules: Iterable[Module]) -> tuple[str, ...]:
    return tuple(f"{module.lines:4} {module.path.relative_to(source)}" for module in modules)


def _column(source: Path, column: str) -> Figure:
    paths = sorted(path for kind in ("py", "sql") for path in source.rglob(f"*.{kind}"))
    found = {path.relative_to(source).as_posix(): lines for path, lines in uses_of(column, paths).items()}
    of_job = [name for name in found if name.startswith(OF_THE_JOB)]
    others = [name for name in found if name not in of_job]
    return Figure(
        f"files with the job column {column}",
        f"{len(of_job)} of the job + {len(others)} others",
        f"{COLUMN_FILES} of the job",
        tuple(f"{found[name]:4} {name}" for name in (*of_job, *others)),
    )


def _longest_statement(source: Path, statements: Sequence[SqlStatement]) -> Figure:
    over = [statement for statement in statements if statement.lines > MAX_LINES]
    listed = statements[: max(len(over), LISTED_STATEMENTS)]
    return Figure(
        "longest SQL statement",
        f"{statements[0].lines if statements else 0} lines ({len(over)} over {MAX_LINES})",
        f"{MAX_LINES}, or a reason",
        tuple(
            f"{each.lines:4} {each.path.relative_to(source)}: {each.name}"
            + (f" ({each.reason})" if each.reason else "")
            for each in listed
        ),
    )


def table(figures: Sequence[Figure], *, is_verbose: bool) -> str:
    names, values = (max((len(figure[column]) for figure in figures), default=0) for column in (0, 1))
    lines = []
    for figure in figures:
        target = f"target {figure.target}" if figure.target else ""
        lines.append(f"{figure.name:<{names}}  {figure.value:>{values}}  {target}".rstrip())
        lines += [f"    {detail}" for detail in figure.details] if is_verbose else []
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.measure_house", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--verbose", action="store_true", help="name what each figure counts")
    parser.add_argument("--traced", action="store_true", help="also run one paid job and count the modules on its path")
    options = parser.parse_args(arguments)
    found = figures(SOURCE)
    if options.traced:
        # It imports the control plane, which takes a second.
        from tools.paid_path import traced_figures

        found += asyncio.run(traced_figures())
    sys.stdout.write(table(found, is_verbose=options.verbose) + "\n")


if __name__ == "__main__":
    main()
