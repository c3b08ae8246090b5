"""`callsheet pipelines` and `callsheet runs` beside a running demo, and the page about them, run as it stands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_try_it_with_curl import HOW_TO, in_second_terminal, steps_of
from tests.support.commands import Callsheet, Result

PIPELINE = """
slug = "sketches"
name = "Sketches"

[[steps]]
name = "Base"
workflow = "demo-imagine"
needs_run_prompt = true
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a demo is running."""
    directory = tmp_path_factory.mktemp("pipelines")
    with Callsheet(directory).running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        yield directory
        ended = demo.end(signal.SIGINT)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err


@pytest.fixture
def callsheet(directory: Path) -> Callsheet:
    """In this process: the page runs the real command."""
    return Callsheet(directory, HOME=str(directory / ".callsheet"))


def succeed(callsheet: Callsheet, *arguments: str) -> Result:
    result = callsheet.call(*arguments)
    assert result.code == 0, result
    return result


def refused(callsheet: Callsheet, *arguments: str) -> str:
    return callsheet.call(*arguments).sentence


def test_every_command_of_the_page_prints_what_the_page_says(directory: Path) -> None:
    page = (HOW_TO / "run-a-pipeline.md").read_text()
    first_terminal, *steps = steps_of(page)
    assert "callsheet demo" in first_terminal.commands
    printed = in_second_terminal(directory, [step.commands for step in steps])
    told = [(step.commands, step.printed) for step in steps if step.printed is not None]
    assert told == [
        (step.commands, text) for step, text in zip(steps, printed, strict=True) if step.printed is not None
    ]
    assert len(told) == page.count("```text")


def test_applying_shows_what_it_changes_and_writes_nothing_unasked(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "sketches.toml"
    file.write_text(PIPELINE)
    asked = callsheet.call("pipelines", "apply", str(file))
    assert asked.code == 1
    assert "+ pipeline sketches\n+ step Base" in asked.err
    assert "Nothing was written" in asked.err
    assert "sketches" not in succeed(callsheet, "pipelines", "list").out
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    assert succeed(callsheet, "pipelines", "apply", str(file), "--json").json["changes"] == []
    file.write_text(PIPELINE + "max_children = 3\n")
    changed = succeed(callsheet, "pipelines", "apply", str(file), "--yes", "--json")
    assert changed.json["changes"] == ["~ step Base: max_children: 5 → 3"]
    assert changed.json["pipeline"]["version"] == 2
    assert "Sketches" in succeed(callsheet, "pipelines", "list").out


def test_a_run_is_started_paused_and_gone_on_with(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "paused.toml"
    file.write_text(PIPELINE.replace("sketches", "paused"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    start = ("runs", "start", "paused", "--name", "Many", "--leaves", "500", "--budget", "900", "--prompt", "a hill")
    run = succeed(callsheet, *start, "--json").json
    assert "paused (by_user)" in succeed(callsheet, "runs", "pause", run["id"]).out
    assert "paused (by_user)" in succeed(callsheet, "runs", "list", "--pipeline", "paused").out
    file.write_text(PIPELINE.replace("sketches", "others"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    assert run["id"] not in succeed(callsheet, "runs", "list", "--pipeline", "others").out
    assert "no such pipeline" in refused(callsheet, "runs", "list", "--pipeline", "nowhere")
    assert f"Run {run['id']} is active" in succeed(callsheet, "runs", "resume", run["id"]).out
    succeed(callsheet, "runs", "pause", run["id"])


def test_what_cannot_be_done_is_told_in_one_sentence(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "wrong.toml"
    file.write_text(PIPELINE.replace("demo-imagine", "nowhere"))
    told = callsheet.call("pipelines", "apply", str(file), "--yes")
    assert told.code == 1
    assert "steps.0.workflow: there is no workflow 'nowhere'" in told.err
    assert "no such pipeline" in refused(callsheet, "runs", "start", "nowhere", "--name", "x", "--budget", "1")
    assert "budget" in refused(callsheet, "runs", "start", "nowhere", "--name", "x", "--budget", "0")
    assert "KEY=VALUE" in refused(callsheet, "runs", "start", "x", "--name", "x", "--budget", "1", "--set", "colour")
    assert refused(callsheet, "runs", "pause", "00000000-0000-7000-8000-000000000000")
