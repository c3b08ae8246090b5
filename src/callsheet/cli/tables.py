"""Tables that fit the terminal without breaking a word: an id that is folded cannot be copied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

GAP = 2


def print_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """As a table where each word has room in its column, otherwise row after row as lines `column: value`."""
    cells = [[column, *(row[place] for row in rows)] for place, column in enumerate(columns)]
    widths = fitted_widths(cells, console.width - GAP * (len(columns) - 1))
    if widths is None:
        _print_blocks(console, columns, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, width=width)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def fitted_widths(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Width of each column: the widest are cut first, none below its longest word. None where they do not fit."""
    least = [max(map(least_width, cells)) for cells in columns]
    widths = [max(map(cell_len, cells)) for cells in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def least_width(text: str) -> int:
    """Of its longest word."""
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
