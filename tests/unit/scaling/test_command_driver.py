"""The driver that runs a program of the operator's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.scaling.driver import Actual, DriverError, OptionError, ScaledFleet
from callsheet.scaling.drivers.command import CommandDriver
from callsheet.scaling.policy import Policy
from callsheet.settings import ScalingSettings

SCRIPT = """#!/bin/sh
echo "$CALLSHEET_FLEET $CALLSHEET_STAGE $CALLSHEET_MAXIMUM $CALLSHEET_SECRET_KEY" "$@" >> "$(dirname "$0")/calls"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "rent gpus"
    file.write_text(SCRIPT)
    file.chmod(0o755)
    return file


def driver(script: Path, **changes: object) -> CommandDriver:
    return CommandDriver(ScalingSettings.model_validate({"commands": {"rent": (str(script), "-v")}, **changes}))


def a_fleet(**options: object) -> ScaledFleet:
    return ScaledFleet(1, "gpu", "production", Policy(maximum=3), "command", options or {"command": "rent"})


async def test_the_program_is_called_with_the_wanted_number_and_without_a_shell(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_SECRET_KEY", "must not leak")
    rent = driver(script)
    await rent.want(a_fleet(), 3, 1)
    await rent.end(a_fleet(), ["gpu-2", "$(touch x)"])
    calls = (script.parent / "calls").read_text().splitlines()
    assert calls == ["gpu production 3  -v want 3 1", "gpu production 3  -v end gpu-2 $(touch x)"]


async def test_list_prints_the_workers_that_exist() -> None:
    program = (sys.executable, "-c", "print('gpu-1\\n\\n gpu-2 \\ngpu-1')")
    rent = CommandDriver(ScalingSettings(commands={"rent": program}))
    assert await rent.actual(a_fleet()) == Actual(2, frozenset({"gpu-1", "gpu-2"}))


async def test_output_that_is_not_an_id_is_refused() -> None:
    rent = CommandDriver(ScalingSettings(commands={"rent": (sys.executable, "-c", "print('Found 2 workers:')")}))
    with pytest.raises(DriverError, match="printed 'Found 2 workers:' for list, which is not the id of a worker"):
        await rent.actual(a_fleet())


async def test_a_failure_has_the_output_of_the_program_without_secrets() -> None:
    program = (sys.executable, "-c", "import sys; sys.exit('the cloud refused\\nwith password=hunter2')")
    rent = CommandDriver(ScalingSettings(commands={"rent": program}))
    with pytest.raises(DriverError) as failed:
        await rent.want(a_fleet(), 3, 0)
    assert "with want ended with exit code 1: the cloud refused with password=" in str(failed.value)
    assert "hunter2" not in str(failed.value)


async def test_a_program_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    file = tmp_path / "slow"
    file.write_text('#!/bin/sh\nsleep 600 & echo $! > "$(dirname "$0")/child"\nwait\n')
    file.chmod(0o755)
    slow = CommandDriver(ScalingSettings(commands={"rent": (str(file),)}, driver_seconds=1))
    with pytest.raises(DriverError, match="did not finish within 1 second and was ended"):
        await slow.end(a_fleet(), ["gpu-1"])
    assert _state_of((tmp_path / "child").read_text().strip()) in ("", "Z")


def _state_of(process: str) -> str:
    """Empty if there is no such process, Z if it has ended and its parent has not read its exit code."""
    return subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True).stdout[:1]


async def test_a_missing_program_is_a_failure_of_the_driver(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="The command 'rent' cannot be run"):
        await driver(tmp_path / "missing").actual(a_fleet())
    with pytest.raises(DriverError, match="no command 'gone' in the settings"):
        await driver(tmp_path / "missing").actual(a_fleet(command="gone"))


def test_a_fleet_names_a_command_of_the_settings_and_never_a_program(script: Path) -> None:
    rent = driver(script)
    assert rent.checked({"command": "rent"}) == {"command": "rent"}
    for options, option in [
        ({"command": str(script)}, "command"),
        ({}, "command"),
        ({"command": ["sh", "-c", "id"]}, "command"),
        ({"command": "rent", "arguments": ["x"]}, "arguments"),
    ]:
        with pytest.raises(OptionError) as refused:
            rent.checked(options)
        assert refused.value.option == option


@pytest.mark.parametrize("commands", [{"Rent!": ["x"]}, {"rent": []}, {"rent": [""]}, {"rent": ["a\0b"]}])
def test_commands_in_the_settings_have_a_name_and_a_program(commands: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="must be a"):
        ScalingSettings.model_validate({"commands": commands})
