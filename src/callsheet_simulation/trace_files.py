"""Trace files: CSV with a header, or JSON Lines. One row per job.

`submitted_at` (a date with time, ISO 8601) or `seconds` (since the start of the trace) and `run_seconds` are required;
`tenant`, `user`, `priority` and `workflow` are optional, and other fields are ignored.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted
from callsheet_simulation.trace import QueueTrace, TraceLane

DATE, SECONDS, RUN = "submitted_at", "seconds", "run_seconds"
OPTIONAL = ("tenant", "user", "priority", "workflow")
MAX_PRIORITY = 2**31 - 1
MAX_TEXT_LENGTH = 200
# A longer line is not a row of a trace, and is not read into memory.
MAX_LINE_LENGTH = 64 * 1024
# Called with the bytes read so far and the size of the file.
OnRead = Callable[[int, int], object]
READS_PER_CALL = 10_000


class TraceError(OperatorError):
    """The file is not a trace. The message names the line, the field and the reason."""

    code = "invalid_trace"

    def __init__(self, file: Path, line: int | None, reason: str):
        super().__init__(f"{file}, line {line}: {reason}" if line is not None else f"{file}: {reason}")


def read_trace(file: Path, on_read: OnRead = lambda done, size: None) -> QueueTrace:
    """Reads the whole file, sorted by arrival; raises TraceError for the first invalid row."""
    try:
        with file.open("rb") as content:
            trace = _Reading(file, content, on_read).trace()
    except OSError as error:
        raise TraceError(file, None, f"the file cannot be read: {error.strerror}.") from None
    if not len(trace):
        raise TraceError(file, None, "the file has no jobs.")
    return trace.in_order()


def check_name(file: Path) -> None:
    if file.suffix not in (".csv", ".jsonl"):
        raise OperatorError(f"{file} should end in .csv or .jsonl, so that its format is known.")


def write_trace(file: Path, trace: QueueTrace) -> None:
    """Writes the file atomically: it gets its name when it is complete."""
    check_name(file)
    part = file.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as content:
            _write_csv(content, trace) if file.suffix == ".csv" else _write_lines(content, trace)
        part.replace(file)
    except OSError as error:
        raise OperatorError(f"{file} cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


class _Reading:
    def __init__(self, file: Path, content: IO[bytes], on_read: OnRead):
        self._file = file
        self._content = content
        self._on_read = on_read
        self._size = os.fstat(content.fileno()).st_size
        self._line = 0

    def trace(self) -> QueueTrace:
        trace = QueueTrace()
        moment_field: str | None = None
        for row in self._rows():
            if moment_field is None:
                moment_field = self._moment_field(row)
            moment = self._date(row) if moment_field == DATE else self._seconds(row, moment_field)
            trace.add(moment, self._seconds(row, RUN), self._key(row))
        if moment_field == DATE:
            self._count_from_first(trace)
        return trace

    def _count_from_first(self, trace: QueueTrace) -> None:
        first = min(trace.submitted)
        trace.started_at = datetime.fromtimestamp(first, UTC)
        for place, moment in enumerate(trace.submitted):
            trace.submitted[place] = moment - first

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        if self._is_json():
            return self._json_rows()
        return self._csv_rows()

    def _is_json(self) -> bool:
        if self._file.suffix in (".jsonl", ".ndjson"):
            return True
        start = self._content.peek(1)[:1] if hasattr(self._content, "peek") else b""
        return self._file.suffix != ".csv" and start == b"{"

    def _lines(self) -> Iterator[str]:
        while line := self._content.readline(MAX_LINE_LENGTH + 1):
            self._line += 1
            if len(line) > MAX_LINE_LENGTH:
                raise self._wrong(f"the line is longer than {MAX_LINE_LENGTH} bytes.")
            if self._line % READS_PER_CALL == 0:
                self._on_read(self._content.tell(), self._size)
            try:
                text = line.decode("utf-8-sig" if self._line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise self._wrong("the line is not text in UTF-8.") from None
            if "\0" in text:
                raise self._wrong("the line has a NUL character.")
            yield text

    def _json_rows(self) -> Iterator[Mapping[str, Any]]:
        for line in self._lines():
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise self._wrong("the line is not JSON.") from None
            if not isinstance(row, dict):
                raise self._wrong("the line is not a JSON object.")
            yield row

    def _csv_rows(self) -> Iterator[Mapping[str, Any]]:
        reader = csv.reader(self._lines(), strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            self._check_header(header)
            width = len(header)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != width:
                    raise self._wrong(f"the row has {counted(len(cells), 'cell')}, and the header has {width}.")
                yield dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise self._wrong(f"the row is not CSV: {error}.") from None

    def _check_header(self, header: list[str]) -> None:
        for name in (DATE, SECONDS, RUN, *OPTIONAL):
            if header.count(name) > 1:
                raise self._wrong(f"the header has {name} twice.")
        if RUN not in header or not {DATE, SECONDS} & set(header):
            found = ", ".join(header)[:MAX_TEXT_LENGTH] or "nothing"
            raise self._wrong(f"the header needs {RUN}, and {DATE} or {SECONDS}. It has: {found}.")

    def _moment_field(self, row: Mapping[str, Any]) -> str:
        for name in (DATE, SECONDS):
            if name in row:
                return name
        raise self._wrong(f"{DATE} is missing. Each row needs {DATE} or {SECONDS}.")

    def _date(self, row: Mapping[str, Any]) -> float:
        text = row.get(DATE)
        if text in (None, ""):
            raise self._wrong(f"{DATE} is missing.")
        try:
            moment = datetime.fromisoformat(str(text).strip())
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            shown = _shown(text)
            raise self._wrong(f"{DATE} is {shown}: it should be like 2026-03-31T09:30:00Z.") from None

    def _seconds(self, row: Mapping[str, Any], name: str) -> float:
        value = row.get(name)
        if value in (None, ""):
            raise self._wrong(f"{name} is missing.")
        try:
            seconds = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        # NaN fails this comparison too.
        if not 0 <= seconds < math.inf:
            raise self._wrong(f"{name} is {_shown(value)}: it should be a number of seconds, 0 or more.")
        return seconds

    def _key(self, row: Mapping[str, Any]) -> TraceLane:
        tenant, user, workflow = (self._text(row, name) for name in ("tenant", "user", "workflow"))
        return TraceLane(tenant, user, self._priority(row), workflow)

    def _text(self, row: Mapping[str, Any], name: str) -> str:
        value = row.get(name)
        if value is None:
            return ""
        if isinstance(value, bool | dict | list | float):
            raise self._wrong(f"{name} is {_shown(value)}: it should be text.")
        text = str(value)
        if len(text) > MAX_TEXT_LENGTH:
            raise self._wrong(
                f"{name} has {counted(len(text), 'character')}: it should have at most {MAX_TEXT_LENGTH}."
            )
        # One string object per name: a year has millions of rows and some thousand names.
        return sys.intern(text)

    def _priority(self, row: Mapping[str, Any]) -> int:
        value = row.get("priority")
        if value in (None, ""):
            return 0
        try:
            priority = None if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError):
            priority = None
        if priority is None or abs(priority) > MAX_PRIORITY:
            raise self._wrong(f"priority is {_shown(value)}: it should be a whole number.")
        return priority

    def _wrong(self, reason: str) -> TraceError:
        return TraceError(self._file, max(1, self._line), reason)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 50 else f"{text[:47]}..."


def _write_csv(content: IO[str], trace: QueueTrace) -> None:
    writer = csv.writer(content, lineterminator="\n")
    for number, row in enumerate(_written_rows(trace)):
        if not number:
            writer.writerow(row)
        writer.writerow(row.values())


def _write_lines(content: IO[str], trace: QueueTrace) -> None:
    for row in _written_rows(trace):
        content.write(json.dumps(row, ensure_ascii=False) + "\n")


def _written_rows(trace: QueueTrace) -> Iterable[dict[str, object]]:
    start = trace.started_at
    for submitted, run_seconds, key in trace.rows():
        moment: dict[str, object] = (
            {SECONDS: round(submitted, 3)}
            if start is None
            else {DATE: _date_text(start + timedelta(seconds=submitted))}
        )
        yield {**moment, RUN: round(run_seconds, 3), **key._asdict()}


def _date_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
