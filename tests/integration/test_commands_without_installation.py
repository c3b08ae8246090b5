"""Only `serve`, `up`, `demo` and `db migrate --create` create an installation. Others report that there is none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer

from callsheet.cli.main import app
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import installation_search
from callsheet.toolbox.private_files import own_mode
from tests.support.programs.commands import Callsheet
from tests.support.run.ram_disk import quick_directory
from tests.support.waiting import until

# They run until they are stopped, and have a directory of their own to work in.
SERVE = {"serve", "up", "demo", "worker", "lightbox"}
NEED_AN_INSTALLATION = [
    ("doctor",),
    ("db", "status"),
    ("db", "migrate"),
    ("db", "add-pool", "pool_2", "postgresql://user@127.0.0.1:1/name"),
    ("db", "shell"),
    ("db", "stop"),
    ("tenants", "create", "acme"),
    ("tenants", "list"),
    ("users", "list"),
    ("users", "set-password", "ann@example.com"),
    ("keys", "create", "--user", "ann@example.com"),
    ("wallet", "audit"),
    ("wallet", "credit", "ann@example.com", "5"),
    ("fleets", "list"),
    ("fleets", "secret"),
    ("secrets", "status"),
    ("secrets", "rotate"),
    ("secrets", "finish"),
    ("secrets", "reset"),
    ("workers", "list"),
    ("workers", "drain", "worker-1"),
    ("workflows", "list"),
    ("effects", "list"),
]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory below which, and around which, there is nothing of Callsheet's."""
    directory = tmp_path / "user" / "project"
    directory.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(directory.parent))
    monkeypatch.setattr(installation_search, "SYSTEM_SETTINGS", tmp_path / "etc")
    monkeypatch.chdir(directory)
    return directory


def leaves(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, *names, name)
        else:
            yield (*names, name), command


def arguments_of(command: Any) -> Iterator[str]:
    """As little as the command takes."""
    for param in command.params:
        if param.required:
            if param.param_type_name == "option":
                yield param.opts[0]
            yield "7"


def test_only_serving_commands_write_files_where_no_installation_exists(nowhere: Path, tmp_path: Path) -> None:
    callsheet, before = Callsheet(nowhere), set(tmp_path.rglob("*"))
    commands = [(names, command) for names, command in leaves(typer.main.get_command(app)) if names[0] not in SERVE]
    assert len(commands) > 40
    for names, command in commands:
        callsheet.call(*names, *arguments_of(command))
        assert set(tmp_path.rglob("*")) == before, names


@pytest.mark.few_forms
@pytest.mark.parametrize("command", NEED_AN_INSTALLATION, ids=" ".join)
def test_a_command_that_needs_an_installation_says_where_it_looked(
    nowhere: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert Callsheet(nowhere).call(*command).sentence == (
        f"There is no Callsheet installation here. Looked in {nowhere}/.callsheet and the same in the parent "
        f"directories, {os.environ['XDG_DATA_HOME']}/callsheet and {tmp_path}/etc. To create one in "
        f"{nowhere}/.callsheet, run: callsheet serve. To work on another one, set CALLSHEET_HOME to its data directory."
    )
    named = Callsheet(nowhere, HOME=str(tmp_path / "named")).call(*command).sentence
    assert named.startswith(
        f"There is no Callsheet installation in {tmp_path}/named (CALLSHEET_HOME in the environment). To create one"
    )
    assert not (tmp_path / "named").exists()


@pytest.mark.parametrize("command", [("doctor",), ("wallet", "audit")], ids=" ".join)
def test_the_process_exits_with_1_and_writes_no_files(nowhere: Path, command: tuple[str, ...]) -> None:
    ended = Callsheet(nowhere).run(*command)
    assert (ended.code, ended.out) == (1, "")
    assert ended.sentence.startswith("There is no Callsheet installation here. Looked in ")
    assert list(nowhere.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "text", "made"),
    [
        (("lightbox", "--port", "0"), "Lightbox renders at", {"lightbox"}),
        (("worker", "--lightbox", "--id", "gpu", "--fleet", "demo"), "worker.starts", {"lightbox", "worker"}),
        (("worker", "--tasks", "--id", "cpu"), "worker.starts", {"worker"}),
    ],
    ids=["lightbox", "worker", "task worker"],
)
async def test_a_command_on_a_new_machine_creates_directories_that_only_its_user_enters(
    nowhere: Path, tmp_path: Path, command: tuple[str, ...], text: str, made: set[str]
) -> None:
    variables = {"WORKER__SECRET": "fleet_of_no_installation", "WORKER__API_URL": "http://127.0.0.1:1"}
    with Callsheet(nowhere, HOME=str(tmp_path / "home"), **variables).running(*command) as running:
        running.wait_for(text)
        await until(lambda: "worker" not in made or any((tmp_path / "home" / "worker").glob("*/agent.lock")))
    directories = [Path(directory) for directory, _, _ in os.walk(tmp_path / "home")]
    assert {directory.name for directory in directories[0].iterdir()} == made
    modes = [stat.S_IMODE(directory.stat().st_mode) for directory in directories]
    assert (modes[0], set(modes[1:])) == (own_mode(), {0o700})


@pytest.mark.thorough
async def test_an_installation_is_found_from_subdirectories_and_named_on_request(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_directory(nowhere / "quick") as project:
        monkeypatch.chdir(project)
        assert Callsheet(project).call("db", "migrate", "--create").out.startswith("central: 0001_")
        home, below = project / ".callsheet", project / "below"
        assert (home / "secret_key").stat().st_mode & 0o777 == 0o600
        below.mkdir()
        monkeypatch.chdir(below)
        # Otherwise each command would start the server and stop it again.
        running = await EmbeddedPostgres.start(home)
        sentence = f"callsheet: Data directory: {home} (found from {below}). Settings files: none.\n"
        for command in (("-v", "tenants", "list", "--json"), ("tenants", "list", "--json", "--verbose")):
            listed = Callsheet(below).call(*command)
            assert (listed.json, listed.err) == ([], sentence)
        (home / "secret_key").unlink()
        missing = Callsheet(below).call("fleets", "secret").sentence
        assert missing.startswith(f"The secret key of this installation is not here ({home}/secret_key does not exist")
        assert not (home / "secret_key").exists()
        await running.close()


@pytest.mark.thorough
async def test_with_a_dsn_the_schema_of_central_is_the_installation(
    nowhere: Path, tmp_path: Path, postgres: EmbeddedPostgres
) -> None:
    server = await asyncpg.connect(postgres.dsn("postgres"))
    await server.execute("CREATE DATABASE not_installed")
    dsn = postgres.dsn("not_installed")
    callsheet = Callsheet(nowhere, DATABASE__DSN=dsn, HOME=str(tmp_path / "home"))
    address = dsn.partition("?")[0].rpartition("@")[2]
    for command in NEED_AN_INSTALLATION:
        if command == ("db", "stop"):
            continue
        assert callsheet.call(*command).sentence == (
            f"There is no Callsheet installation in the database {address} (database.dsn): it has no schema yet. To "
            "create it there, run: callsheet db migrate --create"
        ), command
    central = await asyncpg.connect(dsn)
    assert await central.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    assert not (tmp_path / "home").exists()

    assert callsheet.call("db", "migrate", "--create").out.startswith("central: 0001_")
    assert callsheet.call("tenants", "list", "--json").json == []
    # An older schema is not changed by a command that only looks.
    newest = await central.fetchval(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations) RETURNING version"
    )
    behind = callsheet.call("tenants", "list").sentence
    assert behind.startswith(f"Database central lacks the migrations {newest:04}_")
    assert behind.endswith("Run: callsheet db migrate")
    await central.close()
    for name in ("not_installed", "not_installed_pool_1"):
        await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await server.close()


def test_the_demo_keeps_its_known_password_out_of_the_installation_of_the_machine(
    nowhere: Path, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "callsheet.env").write_text(f"CALLSHEET_HOME={tmp_path}/production\n")
    refused = Callsheet(nowhere).call("demo", "--exit").sentence
    assert f"does not work on the installation of this machine ({tmp_path}/production)" in refused
    listed = Callsheet(nowhere).call("users", "list").sentence
    assert listed.startswith(f"There is no Callsheet installation in {tmp_path}/production (named in {tmp_path}/etc/")


def test_the_error_names_the_owner_of_the_directory(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere / ".callsheet").mkdir()
    monkeypatch.setattr(installation_search, "_trusted_users", set)
    ended = Callsheet(nowhere).call("users", "list")
    assert ended.code == 1
    note, sentence = ended.err.splitlines()
    assert note.startswith(f"callsheet: {nowhere}/.callsheet is not used: it belongs to another user (")
    assert sentence.startswith("callsheet: There is no Callsheet installation here.")
