"""Traces: what files may hold, what is said about one that is wrong, and arrivals that are made."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.toolbox.errors import OperatorError
from callsheet_simulation.arrivals import CURVES, Arrivals, make_trace, read_curve
from callsheet_simulation.trace import QueueTrace, TraceLane
from callsheet_simulation.trace_files import MAX_LINE_LENGTH, TraceError, read_trace, write_trace

JOB = '{"seconds": 1, "run_seconds": 2}'


def read(folder: Path, text: str | bytes, name: str = "trace.csv") -> QueueTrace:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_trace(file)


def test_a_csv_is_read_in_the_order_of_arrival_with_its_first_job_as_the_start(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "\ufeffworkflow,submitted_at,run_seconds,tenant,user,priority,worker\r\n"
        "upscale,2026-03-31T09:30:10Z,12.5,acme,ann,-1,gpu-1\r\n"
        "\r\n"
        "upscale,2026-03-31T11:30:00+02:00,3,acme,bob,,gpu-2\r\n"
        '"a, b",2026-03-31 09:30:10.5,0,,,,\r\n',
    )
    assert trace.started_at == datetime(2026, 3, 31, 9, 30, tzinfo=UTC)
    assert list(trace.rows()) == [
        (0.0, 3.0, TraceLane("acme", "bob", 0, "upscale")),
        (10.0, 12.5, TraceLane("acme", "ann", -1, "upscale")),
        (10.5, 0.0, TraceLane("", "", 0, "a, b")),
    ]


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.ndjson", "trace"])
def test_json_lines_are_read(tmp_path: Path, name: str) -> None:
    trace = read(tmp_path, f'{JOB}\n\n{{"seconds": 0, "run_seconds": 1, "tenant": 7, "user": null, "more": [1]}}', name)
    assert trace.started_at is None
    assert list(trace.rows()) == [(0.0, 1.0, TraceLane("7")), (1.0, 2.0, TraceLane())]


@pytest.mark.parametrize("name", ["trace.csv", "trace.jsonl"])
@pytest.mark.parametrize("started_at", [None, datetime(2026, 3, 31, tzinfo=UTC)])
def test_a_written_trace_is_read_back_unchanged(tmp_path: Path, name: str, started_at: datetime | None) -> None:
    trace = QueueTrace(started_at)
    trace.add(0.0, 3.5, TraceLane("a, b", 'the "user"', -3, "ünï"))
    trace.add(1.25, 0.0, TraceLane())
    write_trace(tmp_path / name, trace)
    found = read_trace(tmp_path / name)
    assert (found.started_at, list(found.rows())) == (started_at, list(trace.rows()))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"should end in \.csv or \.jsonl"):
        write_trace(tmp_path / "trace.txt", QueueTrace())
    with pytest.raises(OperatorError, match="cannot be written: No such file or directory"):
        write_trace(tmp_path / "missing" / "trace.csv", QueueTrace())

    class Broken(QueueTrace):
        def rows(self) -> None:  # type: ignore[override]
            raise RuntimeError

    (tmp_path / "trace.csv").write_text("before")
    with pytest.raises(RuntimeError):
        write_trace(tmp_path / "trace.csv", Broken())
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("trace.csv", "before")]


HEADER = "seconds,run_seconds,priority,tenant\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the header needs run_seconds, and submitted_at or seconds. It has: nothing."),
        ("submitted_at,tenant\n", 1, "It has: submitted_at, tenant."),
        ("seconds,run_seconds,seconds\n", 1, "the header has seconds twice."),
        (HEADER + "1,2,0,a\n5,-1,0,a\n", 3, "run_seconds is '-1': it should be a number of seconds, 0 or more."),
        (HEADER + "1,,0,a\n", 2, "run_seconds is missing."),
        (HEADER + "1,nan,0,a\n", 2, "run_seconds is 'nan'"),
        (HEADER + "inf,1,0,a\n", 2, "seconds is 'inf'"),
        (HEADER + "1,2,1.5,a\n", 2, "priority is '1.5': it should be a whole number."),
        (HEADER + f"1,2,{2**40},a\n", 2, "priority is"),
        (HEADER + "1,2,0\n", 2, "the row has 3 cells, and the header has 4."),
        (HEADER + f"1,2,0,{'a' * 201}\n", 2, "tenant has 201 characters: it should have at most 200."),
        (HEADER + '1,2,0,"a\n', 2, "the row is not CSV"),
        (HEADER + "1,2,0,\0\n", 2, "the line has a NUL character."),
        (HEADER + "x" * (MAX_LINE_LENGTH + 2), 2, f"the line is longer than {MAX_LINE_LENGTH} bytes."),
        (HEADER.encode() + b"1,2,0,\xff\n", 2, "the line is not text in UTF-8."),
        ("submitted_at,run_seconds\n31.3.2026,1\n", 2, "submitted_at is '31.3.2026': it should be like 2026-03-31T"),
        ("submitted_at,run_seconds\n,1\n", 2, "submitted_at is missing."),
    ],
)
def test_a_wrong_row_is_named_by_line_field_and_reason(
    tmp_path: Path, text: str | bytes, line: int, reason: str
) -> None:
    with pytest.raises(TraceError, match=rf"trace\.csv, line {line}: .*{re.escape(reason)}"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (f"{JOB}\n{{", 2, "the line is not JSON."),
        (f"{JOB}\n[]", 2, "the line is not a JSON object."),
        ('{"run_seconds": 2}', 1, "submitted_at is missing. Each row needs submitted_at or seconds."),
        (f'{JOB}\n{{"submitted_at": "2026-03-31", "run_seconds": 2}}', 2, "seconds is missing."),
        ('{"seconds": true, "run_seconds": 2}', 1, "seconds is True"),
        ('{"seconds": 1, "run_seconds": 1e999}', 1, "run_seconds is inf"),
        ('{"seconds": 1, "run_seconds": [1]}', 1, "run_seconds is [1]"),
        ('{"seconds": 1, "run_seconds": 1, "tenant": {}}', 1, "tenant is {}: it should be text."),
        ("[" * 50_000, 1, "the line is not JSON."),
    ],
)
def test_a_wrong_line_of_json_is_named_too(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(TraceError, match=rf"trace\.jsonl, line {line}: {re.escape(reason)}"):
        read(tmp_path, text, "trace.jsonl")


def test_a_file_that_is_missing_or_has_no_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nothing\.csv: the file cannot be read: No such file"):
        read_trace(tmp_path / "nothing.csv")
    with pytest.raises(TraceError, match="the file cannot be read: Is a directory"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match="the file has no jobs"):
        read(tmp_path, HEADER)


def test_arrivals_follow_rate_curve_weekend_and_tenants() -> None:
    made = Arrivals(
        2000, days=14, curve=CURVES["office"], weekend=0.5, run_seconds=30, run_spread=0.4, tenants=3, seed=2
    )
    trace = make_trace(made)
    assert len(trace) == pytest.approx(2000 * (10 + 4 * 0.5), rel=0.03)
    assert trace.work_seconds / len(trace) == pytest.approx(30, rel=0.05)
    hours = [int(moment % 86_400 // 3600) for moment in trace.submitted]
    assert hours.count(10) == pytest.approx(16 * hours.count(3), rel=0.3)
    tenants = [key.tenant for _, _, key in trace.rows()]
    assert tenants.count("tenant-1") == pytest.approx(3 * tenants.count("tenant-3"), rel=0.1)
    assert list(trace.submitted) == sorted(trace.submitted)
    assert list(make_trace(made).rows()) == list(trace.rows())


def test_runs_without_a_spread_all_take_the_same_time() -> None:
    assert {round(seconds, 9) for seconds in make_trace(Arrivals(500, days=1, run_spread=0)).run_seconds} == {60.0}


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"jobs_per_day": 0}, "--jobs-per-day is 0: it should be greater than 0."),
        ({"jobs_per_day": float("nan")}, "--jobs-per-day is nan"),
        ({"days": -1}, "--days is -1"),
        ({"run_spread": -0.1}, "--run-spread is -0.1: it should be 0 or more."),
        ({"tenants": 0}, "--tenants is 0: it should be 1 or more."),
        ({"jobs_per_day": 1e9}, "at most 100,000,000 can be replayed at once"),
    ],
)
def test_impossible_arrivals_are_refused(rules: dict[str, float], reason: str) -> None:
    with pytest.raises(OperatorError, match=re.escape(reason)):
        Arrivals(**{"jobs_per_day": 1.0, **rules})  # type: ignore[arg-type]


def test_a_rate_that_brings_no_job_is_refused() -> None:
    with pytest.raises(OperatorError, match="No job arrives in this time"):
        make_trace(Arrivals(0.001, days=1))


def test_a_curve_is_a_name_or_24_numbers() -> None:
    assert read_curve("evening") == CURVES["evening"]
    assert read_curve(",".join(["1"] * 23 + ["0"])) == (1.0,) * 23 + (0.0,)
    for wrong in ("night", "1,2", ",".join(["0"] * 24), ",".join(["1"] * 23 + ["-1"]), ",".join(["1"] * 23 + ["nan"])):
        with pytest.raises(OperatorError, match="it should be flat, office, evening, or 24 numbers"):
            read_curve(wrong)
