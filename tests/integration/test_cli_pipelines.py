"""`callsheet pipelines` and `callsheet runs` beside a running demo."""

from __future__ import annotations

import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.commands import Callsheet, Result

pytestmark = pytest.mark.thorough

ACTOR_PIPELINE = """
slug = "asked"
name = "Asked"

[[steps]]
name = "Base"
workflow = "actor:media"
needs_run_prompt = true

[steps.payload]
provider = "lightbox"
action_type = "txt2img"
prompt = "{{prompt}}"
params = { width = 64, height = 64, seed = "{{seed}}" }
"""
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
    with Callsheet(directory, MEDIA__PREVIEWS="false").running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        yield directory
        ended = demo.end(signal.SIGINT)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err


@pytest.fixture
def callsheet(directory: Path) -> Callsheet:
    """In this process: the test of the page runs the real command."""
    return Callsheet(directory, HOME=str(directory / ".callsheet"))


def succeed(callsheet: Callsheet, *arguments: str) -> Result:
    result = callsheet.call(*arguments)
    assert result.code == 0, result
    return result


def refused(callsheet: Callsheet, *arguments: str) -> str:
    return callsheet.call(*arguments).sentence


def test_applying_shows_its_changes_and_writes_only_after_confirmation(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "sketches.toml"
    file.write_text(PIPELINE)
    dry = succeed(callsheet, "pipelines", "apply", str(file), "--dry-run")
    assert "+ pipeline sketches\n+ step Base" in dry.err
    assert "would be at version 1" in dry.out
    unconfirmed = callsheet.call("pipelines", "apply", str(file))
    assert unconfirmed.code == 1
    assert "+ pipeline sketches\n+ step Base" in unconfirmed.err
    assert "Nothing was written" in unconfirmed.err
    assert "sketches" not in succeed(callsheet, "pipelines", "list").out
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    assert succeed(callsheet, "pipelines", "apply", str(file), "--json").json["changes"] == []
    file.write_text(PIPELINE + "max_children = 3\n")
    changed = succeed(callsheet, "pipelines", "apply", str(file), "--yes", "--json")
    assert changed.json["changes"] == ["~ step Base: max_children: 5 → 3"]
    dry = succeed(callsheet, "pipelines", "apply", str(file), "--dry-run", "--json")
    assert (dry.json["changes"], dry.json["pipeline"]["version"]) == ([], 2)
    assert changed.json["pipeline"]["version"] == 2
    assert "Sketches" in succeed(callsheet, "pipelines", "list").out


def test_a_step_that_is_an_actor_is_applied_compared_and_refused_like_the_others(
    directory: Path, callsheet: Callsheet
) -> None:
    file = directory / "asked.toml"
    file.write_text(ACTOR_PIPELINE)
    printed = callsheet.call("pipelines", "apply", str(file))
    assert '+ step Base {"workflow": "actor:media", "payload": {' in printed.err
    assert '"provider": "lightbox"' in printed.err
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    assert succeed(callsheet, "pipelines", "apply", str(file), "--json").json["changes"] == []
    file.write_text(ACTOR_PIPELINE.replace("width = 64", "width = 128"))
    [change] = succeed(callsheet, "pipelines", "apply", str(file), "--yes", "--json").json["changes"]
    assert change.startswith("~ step Base: payload: ")
    assert '"width": 64' in change.partition(" → ")[0]
    file.write_text(ACTOR_PIPELINE.replace("width = 64", "width = 1"))
    refused_size = callsheet.call("pipelines", "apply", str(file), "--yes")
    assert "steps.0.payload.params.width: The value must be 16 or more" in refused_size.err


def test_a_run_is_started_paused_and_resumed(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "paused.toml"
    file.write_text(PIPELINE.replace("sketches", "paused"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    start = ("runs", "start", "paused", "--name", "Many", "--leaves", "500", "--budget", "900", "--prompt", "a hill")
    run = succeed(callsheet, *start, "--json").json
    assert "paused (by_user)" in succeed(callsheet, "runs", "pause", run["id"]).out
    file.write_text(PIPELINE.replace("sketches", "without-runs"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    assert succeed(callsheet, "runs", "list", "--pipeline", "without-runs", "--json").json == []
    listed = succeed(callsheet, "runs", "list", "--pipeline", "paused", "--json").json
    assert [(one["id"], one["reason"]) for one in listed] == [(run["id"], "by_user")]
    assert "no such pipeline" in refused(callsheet, "runs", "list", "--pipeline", "nowhere")
    assert f"Run {run['id']} is active" in succeed(callsheet, "runs", "resume", run["id"]).out
    succeed(callsheet, "runs", "pause", run["id"])


def test_a_run_is_watched_to_its_end_and_exported(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "watched.toml"
    file.write_text(PIPELINE.replace("sketches", "watched"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    start = ("runs", "start", "watched", "--name", "Three", "--leaves", "3", "--budget", "9", "--prompt", "a hill")
    watched = succeed(callsheet, *start, "--folder", "three-hills", "--watch")
    assert "3 candidates, 3 of 3 leaves, 3 of 9 tokens: target_reached" in watched.err
    assert "(Three) is completed (target_reached): 3 of 9 tokens." in watched.out
    run = succeed(callsheet, "runs", "list", "--pipeline", "watched", "--json").json[0]["id"]
    assert "completed (target_reached)" in succeed(callsheet, "runs", "show", run).out
    assert [one["number"] for one in succeed(callsheet, "runs", "winners", run, "--json").json] == [1, 2, 3]
    assert "1000" in succeed(callsheet, "runs", "winners", run, "--limit", "1").out
    target = directory / "hills.zip"
    succeed(callsheet, "runs", "export", run, "--to", str(target))
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert len([name for name in archive.namelist() if name.endswith(".png")]) == 3
    nowhere = callsheet.call("runs", "export", run, "--to", str(directory / "no" / "x.zip"))
    assert nowhere.code == 1
    assert "x.zip cannot be written: No such file" in nowhere.err
    assert "The run is completed." in refused(callsheet, "runs", "cancel", run)
    unconfirmed = callsheet.call("runs", "delete", run)
    assert (
        unconfirmed.code,
        "3 candidates with their images, previews and votes" in unconfirmed.err + unconfirmed.out,
    ) == (1, True)
    assert f"Run {run} (Three) is deleted." in succeed(callsheet, "runs", "delete", run, "--yes").out
    assert "There is no such run." in refused(callsheet, "runs", "delete", run, "--yes")


def test_watching_ends_where_the_run_waits_for_a_person(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "poor.toml"
    file.write_text(PIPELINE.replace("sketches", "poor"))
    succeed(callsheet, "pipelines", "apply", str(file), "--yes")
    start = ("runs", "start", "poor", "--name", "Poor", "--leaves", "3", "--budget", "2", "--prompt", "a hill")
    shown = succeed(callsheet, *start, "--watch", "--json").json
    assert (shown["status"], shown["reason"], shown["candidates"]) == ("active", "budget_spent", 2)
    assert "Cancel it, then delete it." in refused(callsheet, "runs", "delete", shown["id"], "--yes")
    assert f"Run {shown['id']} is canceled" in succeed(callsheet, "runs", "cancel", shown["id"]).out
    assert "canceled" in succeed(callsheet, "runs", "watch", shown["id"]).out


def test_a_refused_command_prints_one_sentence(directory: Path, callsheet: Callsheet) -> None:
    file = directory / "wrong.toml"
    file.write_text(PIPELINE.replace("demo-imagine", "nowhere"))
    for how in ("--yes", "--dry-run"):
        printed = callsheet.call("pipelines", "apply", str(file), how)
        assert printed.code == 1
        assert "steps.0.workflow: There is no workflow 'nowhere'" in printed.err
    assert "no such pipeline" in refused(callsheet, "runs", "start", "nowhere", "--name", "x", "--budget", "1")
    assert "budget" in refused(callsheet, "runs", "start", "nowhere", "--name", "x", "--budget", "0")
    assert "KEY=VALUE" in refused(callsheet, "runs", "start", "x", "--name", "x", "--budget", "1", "--set", "colour")
    assert refused(callsheet, "runs", "pause", "00000000-0000-7000-8000-000000000000")
