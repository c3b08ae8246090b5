"""The embedded server lives as long as a process uses it, and no kill leaves anything that blocks the next start."""

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

import callsheet.plumbing.embedded.server as server_module
from callsheet.plumbing.database.database import create_database
from callsheet.plumbing.embedded import EmbeddedPostgres, EmbeddedPostgresError, status, stop
from callsheet.plumbing.embedded.account import CAPABILITIES, Account
from callsheet.plumbing.embedded.launch import choose_port
from tests.support.waiting import PATIENCE_SECONDS, until

USER_PROGRAM = Path(__file__).with_name("embedded_postgres_user.py")


def processes_of(home: Path) -> dict[int, str]:
    """Every process that names this home in its command line."""
    if not Path("/proc/self/cmdline").exists():
        lines = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        listed = {int(pid): args for pid, args in (line.split(maxsplit=1) for line in lines.splitlines())}
    else:
        listed = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                listed[int(entry.name)] = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
            except OSError:
                continue
    return {pid: args for pid, args in listed.items() if f"{home.resolve()}/" in f"{args}/".replace(" ", "/ ")}


def keeper_of(home: Path) -> int:
    [pid] = [pid for pid, args in processes_of(home).items() if "keeper.py" in args]
    return pid


def postmaster_of(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def is_down(home: Path) -> bool:
    return not processes_of(home)


@asynccontextmanager
async def using(home: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = await EmbeddedPostgres.start(home)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def connected(server: EmbeddedPostgres, database: str = "postgres") -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.dsn(database))
    try:
        yield connection
    finally:
        connection.terminate()


class UserProcess:
    """Another process that uses the home's server."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process

    @classmethod
    async def launch(cls, home: Path, account: Account | None = None) -> "UserProcess":
        account = account or Account()
        user, group = account.switch
        become = {} if user is None else {"user": user, "group": group, "extra_groups": []}
        command = account.command(sys.executable, USER_PROGRAM, home)
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd="/", **become))

    async def ready(self) -> dict[str, int]:
        assert self.process.stdout
        return json.loads(await self.process.stdout.readline())

    async def leave(self) -> None:
        await self.process.communicate(b"")
        assert self.process.returncode == 0

    async def kill(self) -> None:
        self.process.kill()
        await self.process.communicate()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("embedded") / "template"

    async def start_once() -> None:
        async with using(home) as server, connected(server) as connection:
            await connection.execute("CREATE TABLE kept (word text); INSERT INTO kept VALUES ('täglich')")

    asyncio.run(start_once())
    (home / "postgres" / "server.json").unlink()
    return home


@pytest.fixture
async def empty_home(tmp_path: Path) -> AsyncIterator[Path]:
    """A home that was never used; after the test no process of it may be left."""
    home = tmp_path / "home"
    yield home
    await until(lambda: is_down(home))


def initialise(home: Path, template: Path) -> None:
    """Copies owners and modes too: PostgreSQL refuses a data directory of another user."""
    subprocess.run(["cp", "-a", template, home], check=True)


@pytest.fixture
def home(empty_home: Path, template: Path) -> Path:
    """A home with an initialised cluster that is not running."""
    initialise(empty_home, template)
    return empty_home


async def kept_words(server: EmbeddedPostgres) -> list[str]:
    async with connected(server) as connection:
        return [row["word"] for row in await connection.fetch("SELECT word FROM kept")]


async def test_the_first_start_makes_a_cluster_only_its_password_opens(empty_home: Path) -> None:
    async with using(empty_home) as server:
        await asyncio.gather(*(create_database(server.dsn("postgres"), "pool", 'pool "1"') for _ in range(4)))
        async with connected(server) as connection:
            assert await connection.fetchval("SELECT upper('ä') || current_setting('fsync')") == "Äon"
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(
                host="127.0.0.1", port=server.port, user="callsheet", password="guess", database="postgres", ssl=False
            )
    assert stat.S_IMODE((empty_home / "postgres" / "pgpass").stat().st_mode) == 0o600


@pytest.mark.thorough
async def test_four_processes_starting_at_once_on_an_empty_home_share_one_server(empty_home: Path) -> None:
    users = [await UserProcess.launch(empty_home) for _ in range(4)]
    ports = {(await user.ready())["port"] for user in users}
    assert len(ports) == 1
    assert keeper_of(empty_home)
    await asyncio.gather(*(user.leave() for user in users))
    assert is_down(empty_home)


@pytest.mark.thorough
async def test_data_and_port_survive_a_restart(home: Path) -> None:
    async with using(home) as server:
        port = server.port
    assert is_down(home)
    async with using(home) as server:
        assert server.port == port
        assert await kept_words(server) == ["täglich"]


@pytest.mark.thorough
async def test_two_claims_of_one_process_end_one_by_one(home: Path) -> None:
    first, second = await EmbeddedPostgres.start(home), await EmbeddedPostgres.start(home)
    assert first.dsn("central") == second.dsn("central")
    await first.close()
    assert await kept_words(second) == ["täglich"]
    await second.close()
    await second.close()
    assert is_down(home)


@pytest.mark.thorough
async def test_the_server_outlives_the_process_that_started_it_while_another_uses_it(home: Path) -> None:
    starter = await UserProcess.launch(home)
    await starter.ready()
    async with using(home) as server:
        keeper = keeper_of(home)
        await starter.leave()
        assert await kept_words(server) == ["täglich"]
        assert keeper_of(home) == keeper


async def test_killing_the_only_user_stops_the_server_cleanly(home: Path) -> None:
    user = await UserProcess.launch(home)
    await user.ready()
    await user.kill()
    await until(lambda: is_down(home))
    assert not (home / "postgres" / "data" / "postmaster.pid").exists()


@pytest.mark.thorough
async def test_a_start_right_after_the_only_user_was_killed_works_at_once(home: Path) -> None:
    user = await UserProcess.launch(home)
    port = (await user.ready())["port"]
    await user.kill()
    async with using(home) as server:
        assert await kept_words(server) == ["täglich"]
        assert server.port == port


@pytest.mark.few_forms
@pytest.mark.parametrize("victims", [[keeper_of], [postmaster_of], [keeper_of, postmaster_of]])
async def test_a_killed_server_comes_back_on_its_port_with_what_was_committed(
    home: Path, victims: list[Callable[[Path], int]]
) -> None:
    async with using(home) as server:
        port = server.port
        async with connected(server) as connection:
            await connection.execute("INSERT INTO kept VALUES ('committed')")
            pids = [victim(home) for victim in victims]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not set(pids) & set(processes_of(home)))
            restarted = False
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not restarted:
                    restarted = await server.ensure_running()
        assert server.port == port
        assert await kept_words(server) == ["täglich", "committed"]
        assert await server.ensure_running() is False


@pytest.mark.thorough
async def test_a_server_whose_keeper_was_killed_is_stopped(home: Path, open_directory: Path, template: Path) -> None:
    initialise(open_directory / "home", template)
    for place in (home, open_directory / "home"):
        async with using(place):
            os.kill(keeper_of(place), signal.SIGKILL)
            if sys.platform == "linux":
                await until(lambda place=place: is_down(place))
            else:
                assert await stop(place)
            assert "database system is shut down" in (place / "postgres" / "log").read_text()


async def test_sigterm_to_the_keeper_is_a_clean_stop(home: Path) -> None:
    async with using(home):
        os.kill(keeper_of(home), signal.SIGTERM)
        await until(lambda: is_down(home))
        assert (home / "postgres" / "log").read_text().rstrip().endswith("database system is shut down")


@pytest.mark.thorough
async def test_a_port_that_another_program_took_is_not_used_and_gets_no_connection(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        (home / "postgres" / "server.json").write_text(json.dumps({"port": taken}))
        async with using(home) as server:
            assert server.port != taken
            assert await kept_words(server) == ["täglich"]
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()


async def test_a_port_that_is_taken_in_the_last_moment_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        choices = iter([taken])
        monkeypatch.setattr(server_module, "choose_port", lambda port: next(choices, None) or choose_port(port))
        async with using(home) as server:
            assert server.port != taken


async def test_a_damaged_record_is_ignored(home: Path) -> None:
    (home / "postgres" / "server.json").write_text('{"port": "none')
    async with using(home) as server:
        assert await kept_words(server) == ["täglich"]


async def test_a_stale_pid_that_belongs_to_another_process_now_neither_blocks_nor_kills(home: Path) -> None:
    owner = (home / "postgres" / "data").stat()
    become = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.getuid() == 0 else {}
    bystander = await asyncio.create_subprocess_exec("sleep", "600", cwd="/", **become)
    lock_file = home / "postgres" / "data" / "postmaster.pid"
    lock_file.write_text(f"{bystander.pid}\n{home}/postgres/data\n1700000000\n5432\n\n127.0.0.1\n\nready\n")
    async with using(home) as server:
        assert await kept_words(server) == ["täglich"]
    assert bystander.returncode is None
    bystander.kill()
    assert await bystander.wait() == -signal.SIGKILL


@pytest.mark.thorough
async def test_a_crash_during_initialisation_does_not_block_the_next_start(empty_home: Path) -> None:
    user = await UserProcess.launch(empty_home)
    unfinished = (empty_home / "postgres").glob
    await until(lambda: any(unfinished("unfinished-*/data/base")))
    await user.kill()
    assert not (empty_home / "postgres" / "data").exists()
    async with using(empty_home) as server:
        await create_database(server.dsn("postgres"), "central", "central")
    assert not list(unfinished("unfinished-*"))


@pytest.mark.thorough
async def test_a_canceled_start_leaves_nothing_running(empty_home: Path) -> None:
    starting = asyncio.create_task(EmbeddedPostgres.start(empty_home))
    await until(lambda: any((empty_home / "postgres").glob("unfinished-*")))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with using(empty_home) as server:
        await create_database(server.dsn("postgres"), "central", "central")


async def test_a_stopped_server_stays_down_for_its_users_until_the_next_start(home: Path) -> None:
    async with using(home) as server:
        assert await stop(home) is True
        assert is_down(home)
        assert await stop(home) is False
        with pytest.raises(EmbeddedPostgresError, match="stopped on purpose"):
            await server.ensure_running()
        async with using(home):
            assert await server.ensure_running() is False
            assert await kept_words(server) == ["täglich"]


async def test_status_reads_the_state_and_does_not_start_the_server(empty_home: Path, template: Path) -> None:
    assert await stop(empty_home) is False
    before = await status(empty_home)
    assert (before.running, before.port, before.version, before.size_bytes) == (False, None, None, 0)
    assert os.listdir(empty_home.parent) == []
    down = await status(template)
    assert (down.running, down.port, is_down(template)) == (False, None, True)
    assert down.size_bytes > 10_000_000
    initialise(empty_home, template)
    async with using(empty_home) as server:
        up = await status(empty_home)
        assert (up.running, up.port, up.data_directory) == (True, server.port, server.data_directory)
        assert up.version is not None
        assert up.version.split(".")[0] == down.version


async def test_a_cluster_of_another_version_is_refused_with_what_to_do(home: Path) -> None:
    (home / "postgres" / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedPostgresError, match=r"made by PostgreSQL 12, .*pg_dumpall"):
        await EmbeddedPostgres.start(home)


async def test_a_lost_or_wrong_password_file_is_named(home: Path) -> None:
    passfile = home / "postgres" / "pgpass"
    passfile.write_text("*:*:*:callsheet:wrong\n")
    with pytest.raises(EmbeddedPostgresError, match=f"refuses the password in {passfile}"):
        await EmbeddedPostgres.start(home)
    passfile.unlink()
    with pytest.raises(EmbeddedPostgresError, match=f"{passfile} is missing"):
        await EmbeddedPostgres.start(home)


async def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    (home / "postgres" / "data" / "global" / "pg_control").write_bytes(b"")
    with pytest.raises(EmbeddedPostgresError, match="pg_control"):
        await EmbeddedPostgres.start(home)


async def test_a_home_that_is_a_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="set CALLSHEET_HOME"):
        await EmbeddedPostgres.start(tmp_path / "home")


async def test_a_log_that_grew_large_is_emptied(home: Path) -> None:
    log = home / "postgres" / "log"
    with log.open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    async with using(home):
        await until(lambda: log.stat().st_size < 10 * 1024 * 1024)
        assert is_down(home) is False


def capabilities_of(pid: int) -> int:
    if not Path("/proc/self/status").exists():
        return 0
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("CapEff")]
    return int(line.split()[1], 16)


def owner_of_process(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "uid=", "-p", str(pid)], capture_output=True, check=True).stdout)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's own directories."""
    directory = Path(tempfile.mkdtemp(prefix="callsheet-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


async def test_in_a_directory_open_to_all_users_the_server_has_no_special_rights(
    open_directory: Path, template: Path
) -> None:
    home = open_directory / "home"
    initialise(home, template)
    async with using(home):
        server = postmaster_of(home)
        assert owner_of_process(server) != 0
        assert capabilities_of(server) == 0
    await until(lambda: is_down(home))


@pytest.mark.thorough
async def test_the_server_runs_below_a_private_directory_that_stays_private(tmp_path: Path, template: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    home = closed / "home"
    initialise(home, template)
    async with using(home):
        assert owner_of_process(postmaster_of(home)) != 0
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    await until(lambda: is_down(home))


@pytest.mark.thorough
async def test_an_ordinary_user_starts_it_also_after_root_did(open_directory: Path) -> None:
    home = open_directory / "home"
    home.mkdir()
    account = ordinary_account()
    if account.user is not None and account.group is not None:
        os.chown(home, account.user, account.group)
    async with using(home) as server:
        await create_database(server.dsn("postgres"), "central", "central")
    user = await UserProcess.launch(home, account)
    assert (await user.ready())["uid"] == owner_of_process(postmaster_of(home)) != 0
    await user.leave()
    await until(lambda: is_down(home))


def ordinary_account() -> Account:
    """Ourselves, or for root `nobody`, let through to an interpreter that may lie below a closed directory."""
    if os.getuid() != 0:
        return Account()
    nobody = pwd.getpwnam("nobody")
    for capability in (None, *CAPABILITIES):
        account = Account(nobody.pw_uid, nobody.pw_gid, capability)
        try:
            if account.run(sys.executable, "-c", "import asyncpg").returncode == 0:
                return account
        except PermissionError:
            continue
    raise AssertionError("no way to run the interpreter as nobody")
