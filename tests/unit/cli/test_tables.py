"""Tables fit the terminal and never break a word; times are relative for people and exact for programs."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from rich.console import Console

from callsheet.cli.shared import console
from callsheet.cli.shared.console import moment, relative, seconds_text
from callsheet.cli.shared.tables import print_rows

ID = str(UUID(int=2**127))
SENTENCE = "No worker that can run it is online, so it waits for one to come"


def shown(width: int, columns: tuple[str, ...], *rows: tuple[str, ...], terminal: bool = False) -> list[str]:
    stream = io.StringIO()
    target = Console(
        file=stream,
        width=width,
        highlight=False,
        markup=False,
        soft_wrap=True,
        force_terminal=terminal,
        color_system=None,
        _environ={},
    )
    print_rows(target, columns, rows)
    return stream.getvalue().splitlines()


def test_other_columns_wrap_between_words_and_ids_stay_whole() -> None:
    lines = shown(80, ("id", "status", "why"), (ID, "queued", SENTENCE), (ID, "queued", ""))
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith(ID)]) == 2
    assert " ".join(line[46:].strip() for line in lines[1:-1]).split() == SENTENCE.split()


def test_rows_that_do_not_fit_a_table_are_shown_line_by_line() -> None:
    address = "https://storage.example/" + "x" * 100
    lines = shown(80, ("id", "address", "note"), (ID, address, "two words"), (ID, address, ""))
    assert lines == [
        f"id       {ID}",
        f"address  {address}",
        "note     two words",
        "",
        f"id       {ID}",
        f"address  {address}",
    ]


def test_a_terminal_shows_no_empty_column_and_a_narrow_one_smaller_gaps() -> None:
    columns, row = ("email", "name", "id"), ("ann@example.com", "", ID)
    assert shown(53, columns, row, terminal=True)[1] == f"ann@example.com  {ID}"
    assert shown(52, columns, row, terminal=True)[1] == f"ann@example.com {ID}"
    assert len(shown(51, columns, row, terminal=True)) == 2
    assert shown(51, columns, row, terminal=True)[0].split() == ["email", "ann@example.com"]
    assert shown(10_000, columns, row)[0].split() == ["email", "name", "id"]


def test_each_row_is_one_line_in_a_pipe() -> None:
    assert len(shown(10_000, ("id", "why"), (ID, SENTENCE * 20))) == 2


def test_wide_characters_count_with_their_width() -> None:
    lines = shown(21, ("name", "id"), ("写真 写真 写真", "0123456789"))
    assert all("0123456789" in line for line in lines[1:2])
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d"), (1e8, "3 y")],
)
def test_a_duration_is_shown_in_its_largest_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_time_is_relative_on_a_terminal_and_exact_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    then = datetime.now(UTC) - timedelta(minutes=3, seconds=5)
    assert moment(then) == then.isoformat(timespec="seconds")
    monkeypatch.setattr(console, "out", Console(file=io.StringIO(), force_terminal=True))
    assert moment(then) == "3 min ago"
    assert moment(None) == ""
    assert (relative(7205), relative(0.5), relative(-0.5)) == ("in 2 h", "now", "now")
