"""What is printed about a simulation: percentiles, cost, idle share; policies from files and with changed rules."""

from __future__ import annotations

import json
import re
from array import array
from pathlib import Path

import pytest

from callsheet.cli.main import app
from callsheet.scaling.policy import Policy
from callsheet.toolbox.errors import OperatorError
from callsheet_simulation.conditions import Conditions
from callsheet_simulation.display import duration
from callsheet_simulation.policies import MAX_POLICIES, NamedPolicy, read_policy, variants
from callsheet_simulation.replay import ReplayOutcome
from callsheet_simulation.report import MachinePrices, percentile, report

HOUR = 3600.0


def an_outcome() -> ReplayOutcome:
    return ReplayOutcome(
        waits=array("d", [float(number) for number in range(1, 101)]),
        seconds=24 * HOUR,
        run_seconds=12 * HOUR,
        slots=2,
        paid_seconds={False: 4 * HOUR, True: 8 * HOUR},
        starting_seconds=1.2 * HOUR,
    )


def test_a_report_has_waits_by_percentile_cost_and_idle_share() -> None:
    found = report("mine", Policy(), an_outcome(), wait_limit=60.0, prices=MachinePrices(2.0, 0.5))
    waits = found.wait_seconds
    assert (waits.mean, waits.p50, waits.p90, waits.p95, waits.p99, waits.longest) == (50.5, 50, 90, 95, 99, 100)
    assert (waits.over_limit, waits.over_limit_share) == (40, 0.4)
    assert (found.on_demand_hours, found.spot_hours, found.worker_hours) == (4.0, 8.0, 12.0)
    assert (found.cost, found.cost_per_1000_jobs) == (4 * 2.0 + 8 * 0.5, 120.0)
    assert (found.idle_share, found.starting_share, found.mean_workers) == (0.5, pytest.approx(0.1), 0.5)


def test_without_a_price_there_is_no_cost_and_spot_costs_as_much_without_its_own() -> None:
    assert report("", Policy(), an_outcome(), 60.0).cost is None
    assert report("", Policy(), an_outcome(), 60.0, MachinePrices(1.0)).cost == 12.0
    with pytest.raises(OperatorError, match="--spot-price is -1: it should be 0 or more"):
        MachinePrices(1.0, -1.0)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert [percentile([1, 2, 3, 4], percent) for percent in (1, 25, 50, 75, 99, 100)] == [1, 1, 2, 3, 4, 4]
    assert percentile([7.0], 50) == 7.0


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "busy.toml"
    file.write_text("maximum = 4\ntarget_seconds = 30 # quick\nspot_share = 0.5\n")
    assert read_policy(file) == NamedPolicy("busy", Policy(maximum=4, target_seconds=30, spot_share=0.5))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("maximum = ", "is not TOML"),
        ("most = 3", "there is no rule 'most'. There are: minimum, maximum, target_seconds"),
        ("maximum = 3.5", "maximum is 3.5: it should be a whole number."),
        ("maximum = true", "maximum is True: it should be a whole number."),
        ('target_seconds = "x"', "target_seconds is 'x': it should be a number."),
        ("maximum = 0", "maximum is 0: The maximum must be between 1 and 1000."),
        ("target_seconds = nan", "target_seconds is nan: The value must be between 1 and"),
        ("#" * 70_000, "is larger than 65536 bytes"),
    ],
)
def test_a_wrong_policy_is_named_with_file_rule_and_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(OperatorError, match=rf"mine\.toml.*{re.escape(reason)}"):
        read_policy(file)


def test_every_combination_of_changed_rules_is_compared() -> None:
    base = [NamedPolicy("a", Policy()), NamedPolicy("a", Policy(minimum=1))]
    found = variants(base, {"maximum": [2, 4, 2], "target_seconds": [30.0], "minimum": []})
    assert [(each.name, each.policy.minimum, each.policy.maximum) for each in found] == [
        ("a, max 2, target 30", 0, 2),
        ("a, max 4, target 30", 0, 4),
        ("a, max 2, target 30 (2)", 1, 2),
        ("a, max 4, target 30 (2)", 1, 4),
    ]
    assert [each.name for each in variants([NamedPolicy("", Policy())], {})] == ["default"]
    with pytest.raises(OperatorError, match=r"max 1, min 2: The minimum must be between 0 and the maximum of 1\."):
        variants([NamedPolicy("", Policy())], {"maximum": [1], "minimum": [2]})
    with pytest.raises(OperatorError, match=f"compare at most {MAX_POLICIES} at once"):
        variants(base, {"maximum": range(1, 100)})


@pytest.mark.parametrize(("name", "value"), [("interval_seconds", 0), ("slots", 0), ("run_noise", -1), ("slots", -1)])
def test_impossible_conditions_are_refused(name: str, value: float) -> None:
    with pytest.raises(OperatorError, match=f"{name.replace('_', '-')} is {value}: it should be"):
        Conditions(**{name: value})  # type: ignore[arg-type]


def test_durations_have_the_digits_that_matter() -> None:
    shown = [duration(seconds) for seconds in (0, 4.21, 42.4, 119, 252, 7200, 86_400 * 365)]
    assert shown == ["0.0 s", "4.2 s", "42 s", "119 s", "4.2 min", "2.0 h", "365.0 d"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(["simulate", *arguments], standalone_mode=False)
    return capsys.readouterr().out


MADE = ("--jobs-per-day", "300", "--days", "1")


def test_the_command_compares_policies_in_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "kept.toml").write_text("minimum = 1\non_demand_minimum = 1\n")
    shown = run(capsys, *MADE, "--policy", str(tmp_path / "kept.toml"), "--max", "1", "--max", "2", "--price", "2")
    _, header, *rows = shown.splitlines()
    assert header.split()[:6] == ["policy", "mean", "p50", "p90", "p99", "longest"]
    assert "cost" in header
    assert [row.split("  ")[0] for row in rows] == ["kept, max 1", "kept, max 2"]


@pytest.mark.thorough
def test_the_command_prints_json_that_is_the_same_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*MADE, "--json", "--run-noise", "0.5", "--interruptions-per-hour", "1", "--seed", "7")
    first = run(capsys, *arguments)
    assert run(capsys, *arguments) == first
    found = json.loads(first)
    [policy] = found["policies"]
    assert policy["jobs"] == found["arrivals"]["jobs"] > 200
    assert policy["wait_seconds"]["p50"] <= policy["wait_seconds"]["p99"]
    assert policy["policy"]["maximum"] == 1


@pytest.mark.thorough
def test_a_trace_that_the_command_wrote_gives_the_same_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "trace.csv"
    assert re.match(r"Wrote \d+ jobs to ", run(capsys, *MADE, "--write-trace", str(file)))
    made, read = (
        json.loads(run(capsys, *arguments, "--json"))["policies"][0]["wait_seconds"]
        for arguments in (MADE, ("--trace", str(file)))
    )
    # Files have milliseconds.
    assert read == pytest.approx(made, rel=0.01, abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Give either --trace FILE, or --jobs-per-day N"),
        ((*MADE, "--trace", "x.csv"), "Give either --trace FILE, or --jobs-per-day N"),
        (("--trace", "/nowhere/x.csv"), "the file cannot be read"),
        ((*MADE, "--spot-price", "1"), "--spot-price needs --price"),
        ((*MADE, "--policy", "/nowhere/x.toml"), "cannot be read"),
        ((*MADE, "--curve", "x"), "--curve is 'x'"),
        ((*MADE, "--wait-limit", "nan"), "--wait-limit is nan"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(OperatorError, match=reason):
        app(["simulate", *arguments], standalone_mode=False)
