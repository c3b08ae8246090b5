"""Tables that fit the terminal without breaking a word: a wrapped id cannot be copied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

# Space between columns, if there is room for it and if there is not.
GAPS = (2, 1)


def print_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table if each word fits into its column, otherwise each row as lines `column: value`.

    For a person, columns without a value are left out. A program counts columns.
    """
    if console.is_terminal and rows:
        filled = [place for place in range(len(columns)) if any(row[place] for row in rows)]
        columns, rows = [columns[place] for place in filled], [[row[place] for place in filled] for row in rows]
    cells = [[column, *(row[place] for row in rows)] for place, column in enumerate(columns)]
    for gap in GAPS:
        widths = fitted_widths(cells, console.width - gap * (len(columns) - 1))
        if widths is not None:
            console.print(_table(columns, rows, widths, gap))
            return
    _print_blocks(console, columns, rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], gap: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, width=width)
    for row in rows:
        table.add_row(*row)
    return table


def fitted_widths(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of each column: the widest are cut first, none below its longest word. None if they do not fit."""
    min_widths = [max(map(min_width, cells)) for cells in columns]
    widths = [max(map(cell_len, cells)) for cells in columns]
    if sum(min_widths) > room:
        return None
    while sum(widths) > room:
        spare = [width if width > low else 0 for width, low in zip(widths, min_widths, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def min_width(text: str) -> int:
    """Width of the longest word."""
    return max(map(cell_len, text.split()), default=0)


def _print_blocks(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(cell_len, columns), default=0)
    for number, row in enumerate(rows):
        if number:
            console.print("")
        for column, text in zip_longest(columns, row, fillvalue=""):
            if text:
                console.print(f"{column:<{width}}", style="bold", end="  ")
                console.print(text)
