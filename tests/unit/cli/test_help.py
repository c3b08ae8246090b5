"""Help fits 80 columns and describes each command; showing it loads little."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet import __version__
from tests.support.programs.commands import Callsheet, whole_command

# What `callsheet -h` may load beside Python's own and ours: the command line itself, and the settings.
LIGHT = {
    "annotated_doc",
    "annotated_types",
    "attr",
    "dotenv",
    # Structlog looks for it, and the tests in a browser bring it.
    "greenlet",
    "markdown_it",
    "mdurl",
    "pydantic",
    "pydantic_core",
    "pydantic_settings",
    "pygments",
    "rich",
    "shellingham",
    "structlog",
    "typer",
    "click",
    "typing_extensions",
    "typing_inspection",
}
ROOMS = {
    "callsheet",
    "callsheet.cli",
    "callsheet.settings",
    "callsheet.toolbox",
    "callsheet.wire",
    "callsheet.providers",
    "callsheet_demo",
    "callsheet_simulation",
}


def commands(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield names, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, *names, name)


COMMANDS = dict(commands(whole_command()))


@pytest.fixture
def callsheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callsheet:
    monkeypatch.setenv("COLUMNS", "80")
    return Callsheet(tmp_path)


def shown(callsheet: Callsheet, *arguments: str) -> str:
    result = callsheet.call(*arguments)
    assert (result.code, result.err) == (0, "")
    return result.out


@pytest.mark.few_forms
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_has_no_type_beside_a_flag(callsheet: Callsheet, names: tuple[str, ...]) -> None:
    text = shown(callsheet, *names, "-h")
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text
    assert "--verbose" in text or hasattr(COMMANDS[names], "commands")


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_command_has_a_sentence(names: tuple[str, ...]) -> None:
    sentence = (COMMANDS[names].help or "").strip()
    assert sentence[:1].isupper(), sentence
    assert sentence.endswith("."), sentence


def test_help_is_a_command_too(callsheet: Callsheet) -> None:
    assert shown(callsheet, "help") == shown(callsheet, "-h")
    assert shown(callsheet, "help", "jobs", "show") == shown(callsheet, "jobs", "show", "-h")
    unknown = callsheet.call("help", "jobs", "shew").sentence
    assert unknown == "There is no command 'jobs shew'. To list them: callsheet help"


def test_quiet_leaves_results_and_errors(callsheet: Callsheet) -> None:
    for before, after in ((("--quiet",), ()), ((), ("-q",))):
        refused = callsheet.call(*before, "jobs", "show", "x", *after)
        assert refused.sentence == "'x' is not the id of a job or task."
    version = callsheet.call("-q", "--verbose", "version")
    assert (version.code, version.err) == (0, "")
    assert "callsheet: " in callsheet.call("--verbose", "version").err


def test_the_commands_are_grouped_by_what_they_are_for(callsheet: Callsheet) -> None:
    text = shown(callsheet, "-h")
    places = [text.index(f"─ {panel} ") for panel in ("Run", "Work with jobs", "Administer")]
    assert places == sorted(places)
    assert "─ Commands ─" not in text


def test_asking_for_help_loads_neither_server_nor_client() -> None:
    code = "import json, sys; import callsheet.cli.main; print(json.dumps(sorted(sys.modules)))"
    before = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    loaded, known = (
        set(json.loads(subprocess.run([sys.executable, "-c", each], capture_output=True, check=True).stdout))
        for each in (code, before)
    )
    packages = {name.partition(".")[0] for name in loaded - known} - set(sys.stdlib_module_names)
    assert {name for name in packages if not name.startswith(("_", "callsheet"))} <= LIGHT
    assert {
        ".".join(name.split(".")[: 2 if name.startswith("callsheet.") else 1])
        for name in loaded
        if name.startswith("callsheet")
    } <= ROOMS


@pytest.mark.thorough
def test_the_shell_completes_commands() -> None:
    script = Path(sys.executable).with_name("callsheet")
    words = {"COMP_WORDS": "callsheet jobs can", "COMP_CWORD": "2"}
    environment = {"PATH": "/usr/bin:/bin", "_CALLSHEET_COMPLETE": "complete_bash", **words}
    completed = subprocess.run([script], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert "cancel" in completed.stdout
    assert "list" not in completed.stdout


@pytest.mark.parametrize(("shell", "variables"), [("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})])
def test_other_shells_complete_commands_too(
    callsheet: Callsheet, monkeypatch: pytest.MonkeyPatch, shell: str, variables: dict[str, str]
) -> None:
    words = {"_TYPER_COMPLETE_ARGS": "callsheet jobs can"}
    for name, value in {"_CALLSHEET_COMPLETE": f"complete_{shell}", **words, **variables}.items():
        monkeypatch.setenv(name, value)
    completed = callsheet.call()
    assert "cancel" in completed.out
    assert "list" not in completed.out


def test_the_version_is_an_option_and_a_command(callsheet: Callsheet) -> None:
    for argument in ("--version", "version"):
        assert shown(callsheet, argument) == f"{__version__}\n"
