"""The files of deploy/ install as documented, and start commands that exist."""

from __future__ import annotations

import configparser
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from callsheet.cli.main import app
from callsheet.settings import SHORT_NAMES
from callsheet.worker.agent.departure import DRAINED_EXIT_CODE

SYSTEMD = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(path.stem for path in SYSTEMD.glob("*.service"))
# The directives that `systemd-analyze security` counts most; with all of them it says 1.7.
SWITCHED_ON = (
    *("NoNewPrivileges", "ProtectHome", "ProtectClock", "ProtectHostname", "ProtectKernelLogs"),
    *("ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "PrivateTmp", "PrivateDevices"),
    *("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality"),
)
HARDENING = dict.fromkeys(SWITCHED_ON, "true") | {
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectProc": "invisible",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
    "UMask": "0077",
}


def install(root: Path, *units: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "DESTDIR": str(root)}
    return subprocess.run(
        [SYSTEMD / "install", *units], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_the_install_command_writes_the_unit_and_a_private_file_of_settings(tmp_path: Path) -> None:
    assert install(tmp_path).returncode == 0
    assert (tmp_path / "etc/systemd/system/callsheet-tasks.service").read_text() == (
        SYSTEMD / "callsheet-tasks.service"
    ).read_text()
    settings = tmp_path / "etc/callsheet/tasks.env"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert "FLEET_SECRET=\n" in settings.read_text()


def test_a_control_plane_gets_settings_that_name_its_data_directory_for_commands(tmp_path: Path) -> None:
    assert install(tmp_path, "callsheet").returncode == 0
    settings = tmp_path / "etc/callsheet/callsheet.env"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert settings.read_text() == "CALLSHEET_HOME=/var/lib/callsheet\n"
    settings.write_text("CALLSHEET_HOME=/srv/callsheet\n")
    install(tmp_path, "callsheet")
    assert settings.read_text() == "CALLSHEET_HOME=/srv/callsheet\n"


def test_a_worker_beside_comfyui_gets_settings_to_fill_in(tmp_path: Path) -> None:
    assert install(tmp_path, "callsheet-worker").returncode == 0
    settings = tmp_path / "etc/callsheet/worker.env"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    names = [line.partition("=")[0] for line in settings.read_text().splitlines() if not line.startswith("#")]
    assert names == ["API_BASE_URL", "FLEET_SECRET", "COMFYUI_BASE_URL"]
    assert set(names) <= SHORT_NAMES.keys()
    assert not (tmp_path / "etc/callsheet/tasks.env").exists()


def test_installing_again_leaves_settings_alone(tmp_path: Path) -> None:
    install(tmp_path)
    settings = tmp_path / "etc/callsheet/tasks.env"
    settings.write_text("FLEET_SECRET=filled-in\n")
    assert install(tmp_path, "callsheet-tasks", "callsheet").returncode == 0
    assert settings.read_text() == "FLEET_SECRET=filled-in\n"
    assert (tmp_path / "etc/systemd/system/callsheet.service").exists()


def test_a_unit_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    refused = install(tmp_path, "callsheet-nothing")
    assert refused.returncode == 1
    assert "callsheet-tasks" in refused.stderr
    assert not list(tmp_path.iterdir())


def service_of(unit: str) -> configparser.SectionProxy:
    # Systemd's files repeat keys; the last one counts, as here.
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(SYSTEMD / f"{unit}.service")
    return parsed["Service"]


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_starts_a_command_that_exists(unit: str) -> None:
    service = service_of(unit)
    program, *arguments = service["ExecStart"].split()
    assert program.endswith("/bin/callsheet")
    shown = CliRunner().invoke(app, [*arguments, "--help"])
    assert shown.exit_code == 0, shown.output
    assert service["Restart"] == "always"


@pytest.mark.parametrize("unit", ["callsheet-tasks", "callsheet-worker"])
def test_a_drained_worker_exits_and_is_not_started_again(unit: str) -> None:
    service = service_of(unit)
    assert "CALLSHEET_WORKER__WHEN_DRAINED=exit" in (SYSTEMD / f"{unit}.service").read_text().replace(
        "Environment=", ""
    )
    assert service["RestartPreventExitStatus"] == service["SuccessExitStatus"] == str(DRAINED_EXIT_CODE)


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_is_hardened(unit: str) -> None:
    service = service_of(unit)
    assert {name: service.get(name) for name in HARDENING} == HARDENING
    assert service["User"] == "callsheet"
    assert "RemoveIPC" not in service, "another unit of the same user would end the embedded PostgreSQL"


def test_systemd_rates_the_hardening_as_little_exposed(tmp_path: Path) -> None:
    """All units have this hardening, so that the rating holds for them on machines without systemd too."""
    program = shutil.which("systemd-analyze")
    if program is None:
        assert shutil.which("systemctl") is None, "systemd is installed without systemd-analyze"
        assert not Path("/run/systemd/system").exists(), "systemd runs here, but systemd-analyze is not in PATH"
        return
    bare = tmp_path / "bare.service"
    lines = [f"{name}={value}" for name, value in (HARDENING | {"User": "callsheet"}).items()]
    bare.write_text("\n".join(["[Service]", "ExecStart=/bin/true", *lines, ""]))
    arguments = [program, "security", "--offline=true", "--no-pager", "--threshold=40"]
    for file in (bare, *(SYSTEMD / f"{unit}.service" for unit in UNITS)):
        verified = subprocess.run([*arguments, file], capture_output=True, text=True, check=False, timeout=60)
        assert verified.returncode == 0, verified.stdout + verified.stderr
