"""The web application of a released wheel: built, whole, and served where there is no Node."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import httpx
import pytest

from callsheet.settings import Settings
from tests.support.programs.control_plane_process import variables
from tests.support.programs.wheels import ROOT, fresh_environment

LOCKS = (ROOT / "web/package-lock.json", ROOT / "web/browser/package-lock.json")
BROWSER = {"accept": "text/html"}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.parent.name))
def test_a_lock_of_npm_names_no_registry_and_pins_everything_with_hashes(lock: Path) -> None:
    packages = json.loads(lock.read_text())["packages"]
    # What is inside of another package has that one's hash.
    installed = {name: package for name, package in packages.items() if name and not package.get("inBundle")}
    assert installed
    for name, package in installed.items():
        assert "resolved" not in package, name
        assert package["integrity"].startswith("sha512-"), name
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", package["version"]), name


def test_the_lock_installs_exactly_the_declared_versions() -> None:
    declared, locked = (json.loads((ROOT / "web" / name).read_text()) for name in ("package.json", "package-lock.json"))
    for kind in ("dependencies", "devDependencies"):
        assert locked["packages"][""][kind] == declared[kind]
        # One exact version for every developer, not a range.
        assert [each for each in declared[kind].values() if not re.fullmatch(r"(npm:\S+@)?\d[\d.]*", each)] == []


@pytest.mark.thorough
def test_the_wheel_serves_the_web_application_without_node(wheel: Path, settings: Settings, tmp_path: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "callsheet/web/static/index.html" in names
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".tsx"))]
    folder = fresh_environment(tmp_path / "venv", wheel.with_name(f"{wheel.name}[server]"))
    environment = {"PATH": str(folder), "HOME": str(tmp_path), "LANG": "C.UTF-8", **variables(settings)}
    command = [folder / "callsheet", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**environment, "CALLSHEET_LOG__FORMAT": "json"},
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        try:
            assert serving.stderr is not None
            printed: list[str] = []
            while not printed or "control_plane.ready" not in printed[-1]:
                printed.append(serving.stderr.readline())
                assert printed[-1], printed
            with httpx.Client(base_url=json.loads(printed[-1])["url"], trust_env=False, timeout=60) as client:
                page = client.get("/effects", headers=BROWSER)
                files = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
                assert any(file.endswith(".js") for file in files)
                for file in files:
                    assert client.get(file).status_code == 200, file
        finally:
            serving.terminate()
            serving.wait(60)
