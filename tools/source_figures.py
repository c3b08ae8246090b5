"""Counts the source: code lines, modules per folder, long functions, long SQL statements, files that name a column.

It reads Python by patterns, because `ast` needs two seconds of processor time for the whole source, and this is part of
every `make lint`. A test compares the counts with `ast`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.check_sql import BLOCK, OPAQUE, REASON
from tools.check_words import STRING_OR_PYTHON_COMMENT

# A line inside a string that has several lines. It is code, whatever it contains.
INSIDE_STRING = "\0"
# The text of a string is replaced by this letter.
MASK = "x"
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+\S+[ \t]+)?import\b(?:[^\n(]*\([^)]*\)|[^\n]*)", re.MULTILINE)
# A string that is a statement of its own, below a header or at the beginning of the module.
DOCSTRING = re.compile(
    rf"(?:\A\s*|^[^\n]*:[ \t]*\n\s*)(?P<text>\"{MASK}*(?:\n{INSIDE_STRING})*\")[ \t]*$", re.MULTILINE
)
FUNCTION = re.compile(r"(?:async )?def (\w+)")


class Function(NamedTuple):
    name: str
    line: int
    lines: int


class Module(NamedTuple):
    path: Path
    lines: int
    # Without blank lines, comments, imports and docstrings.
    code_lines: int
    functions: tuple[Function, ...]


class SqlStatement(NamedTuple):
    path: Path
    name: str
    # Without blank lines and comments. A part counts as a statement of its own.
    lines: int
    # What its comment says if it is longer than the rule of `make lint` allows.
    reason: str


def modules_of(folder: Path) -> list[Module]:
    return [read_module(path) for path in sorted(folder.rglob("*.py"))]


def read_module(path: Path) -> Module:
    source = path.read_text(encoding="utf-8")
    masked = STRING_OR_PYTHON_COMMENT.sub(_mask, source)
    code = DOCSTRING.sub(_without_docstring, IMPORT.sub(_blank, masked))
    return Module(
        path,
        lines=len(source.splitlines()),
        code_lines=sum(bool(line.strip()) for line in code.split("\n")),
        functions=tuple(_functions(masked.split("\n"))),
    )


def _mask(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return ""
    return f'"{MASK}' + f"\n{INSIDE_STRING}" * match[0].count("\n") + '"'


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _without_docstring(match: re.Match[str]) -> str:
    start = match.start("text") - match.start()
    return match[0][:start] + "\n" * match["text"].count("\n")


def _functions(lines: list[str]) -> Iterator[Function]:
    """A function ends before the next line that is indented as far as its header, or less."""
    is_open: list[tuple[int, str, int]] = []
    last = 0
    for number, line in enumerate(lines, 1):
        if line.startswith(INSIDE_STRING):
            last = number
            continue
        text = line.lstrip()
        if not text:
            continue
        indent = len(line) - len(text)
        # The bracket that closes the parameters has the indentation of the header.
        while is_open and indent <= is_open[-1][0] and text[0] not in ")]}":
            _, name, first = is_open.pop()
            yield Function(name, first, last - first + 1)
        if match := FUNCTION.match(text):
            is_open.append((indent, match[1], number))
        last = number
    for _, name, first in is_open:
        yield Function(name, first, last - first + 1)


def statements_of(folder: Path) -> list[SqlStatement]:
    """All statements, the longest first."""
    paths = sorted(folder.rglob("*statements.sql"))
    found = [statement for path in paths for statement in _statements(path)]
    return sorted(found, key=lambda statement: -statement.lines)


def _statements(path: Path) -> Iterator[SqlStatement]:
    source = path.read_text(encoding="utf-8")
    starts = [*BLOCK.finditer(source)]
    for match, end in zip(starts, [*(each.start() for each in starts[1:]), len(source)], strict=True):
        block = source[match.end() : end]
        sql = OPAQUE.sub(lambda part: " " if part[0].startswith("--") else part[0], block)
        yield SqlStatement(path, match[1], sum(bool(line.strip()) for line in sql.splitlines()), _reason(block))


def _reason(block: str) -> str:
    """The comment from `-- one statement because:` on, with the lines that continue it."""
    match = REASON.search(block)
    if match is None:
        return ""
    lines = []
    for line in block[match.start() :].splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines).removeprefix("one statement because: ")


def modules_per_folder(modules: Iterable[Module]) -> Counter[Path]:
    """Modules that lie directly in each folder; `__init__.py` is the folder itself."""
    return Counter(module.path.parent for module in modules if module.path.name != "__init__.py")


def uses_of(word: str, paths: Iterable[Path]) -> dict[Path, int]:
    """The files that name a column, and the number of their lines that do."""
    pattern = re.compile(rf"^.*\b{word}\b", re.MULTILINE)
    counts = {path: len(pattern.findall(path.read_text(encoding="utf-8"))) for path in paths}
    return {path: count for path, count in counts.items() if count}
