"""The commands of the pages about PostgreSQL and S3, run on real servers. Only names of hosts and one role differ."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.embedded.binaries import find_binaries
from tests.support.media.seaweedfs import S3Server
from tests.support.programs.commands import Callsheet
from tests.support.programs.documentation_pages import ROOT
from tests.support.run.ports import free_port

BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# The embedded server has a role of the page's name.
PAGE_ROLE, ROLE = "callsheet_app", "callsheet_owner"
DATABASES = ("callsheet", "callsheet_pool_1", "callsheet_pool_2")
ROLES = ("callsheet_serve", ROLE)
pytestmark = pytest.mark.thorough


def blocks_of(page: str, kind: str) -> list[str]:
    found = BLOCK.findall((ROOT / "docs" / "how-to" / f"{page}.md").read_text("utf-8"))
    return [text.replace(PAGE_ROLE, ROLE) for language, text in found if language == kind]


@dataclass
class Shell:
    """A user's shell, block after block: what a block exports holds for those that follow."""

    directory: Path
    exported: dict[str, str] = field(default_factory=dict)

    def run(self, commands: str) -> str:
        programs = [str(find_binaries().psql.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {"PATH": ":".join(programs), "HOME": str(self.directory), **self.exported}
        ended = subprocess.run(
            ["bash", "-euc", f"{commands}\nenv -0 > exported"],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        lines = (self.directory / "exported").read_text().split("\0")
        self.exported |= dict(line.split("=", 1) for line in lines if line.startswith(("CALLSHEET_", "AWS_")))
        return ended.stdout + ended.stderr

    def having(self, **variables: str) -> Callsheet:
        own = {name.removeprefix("CALLSHEET_"): value for name, value in self.exported.items() if "CALLSHEET_" in name}
        return Callsheet(self.directory, **{**own, **variables})


@pytest.fixture
async def admin(postgres: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    """The superuser of a server on which nothing of the pages is left at the end."""
    connection = await asyncpg.connect(postgres.dsn("postgres"))
    yield connection
    for name in DATABASES:
        await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    for name in ROLES:
        await connection.execute(f"DROP ROLE IF EXISTS {name}")
    await connection.close()


async def test_the_page_on_postgresql_makes_an_installation(
    postgres: EmbeddedPostgres, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    # Standbys are tried in test_replication.py: on this server, every write would wait for one.
    create, grants, _replicate, monitor = blocks_of("run-with-your-own-postgresql", "sql")
    # The servers of a replica and of a pooler are tried in test_replicas.py and in tests/pooler.
    point, accounts, pool, _replica, _pooler = blocks_of("run-with-your-own-postgresql", "sh")
    host = postgres.dsn("").partition("@")[2].partition("/")[0]
    for line in create.splitlines():
        await admin.execute(line)
    shell = Shell(tmp_path, {"CALLSHEET_HOME": str(tmp_path / "home")})
    port = str(free_port())
    shell.exported |= {"CALLSHEET_SERVER__PORT": port}
    assert point.endswith("callsheet serve\n"), "the last command stays; the test starts it apart"
    printed = shell.run(point.replace("db.example.com", host).removesuffix("callsheet serve\n"))
    assert "pool_1" in printed
    with shell.having().running("serve") as serving:
        serving.wait_for("control_plane.ready")
        assert serving.end(signal.SIGINT).code == 0

    # The account that only serves, which each installation names as it likes.
    await admin.execute("CREATE ROLE callsheet_serve LOGIN PASSWORD 'another-one'")
    owner = shell.exported["CALLSHEET_DATABASE__DSN"]
    for name in DATABASES[:2]:
        connection = await asyncpg.connect(f"{owner.rpartition('/')[0]}/{name}")
        await connection.execute(grants)
        await connection.close()
    serving_dsn = owner.replace(f"{ROLE}:choose-one", "callsheet_serve:another-one")
    serve = shell.having(DATABASE__DSN=serving_dsn, DATABASE__MIGRATE_ON_START="false")
    with serve.running("serve") as serving:
        serving.wait_for("control_plane.ready")
        assert serving.end(signal.SIGINT).code == 0

    await admin.execute(monitor)
    printed = shell.run(accounts)
    assert re.search(r"\bcs_\w+", printed), printed
    await admin.execute(f"CREATE DATABASE callsheet_pool_2 OWNER {ROLE}")
    # At a terminal the command asks; a script sets the variable.
    shell.exported["CALLSHEET_POOL_DSN"] = f"{owner}_pool_2"
    status = shell.run(pool)
    assert "pool_2" in status
    listed = {tenant["slug"]: tenant["pool"] for tenant in shell.having().succeed("tenants", "list", "--json").json}
    assert listed == {"acme": "pool_1", "globex": "pool_2"}


async def test_the_page_on_s3_leads_to_a_bucket_that_doctor_accepts(
    postgres: EmbeddedPostgres, admin: asyncpg.Connection, s3_server: S3Server, tmp_path: Path
) -> None:
    settings, other_service = blocks_of("use-s3-storage", "sh")
    _rights, cors, _lifecycle = blocks_of("use-s3-storage", "json")
    await admin.execute("CREATE DATABASE callsheet")
    shell = Shell(
        tmp_path,
        {
            "CALLSHEET_HOME": str(tmp_path / "home"),
            "CALLSHEET_DATABASE__DSN": postgres.dsn("callsheet"),
            "CALLSHEET_SECRET_KEY": "the key of this installation, 32 characters or more",
            "CALLSHEET_SERVER__PUBLIC_URL": "https://callsheet.example.com",
            "CALLSHEET_SERVER__CORS_ORIGINS": "https://shop.example.com",
            "AWS_ACCESS_KEY_ID": s3_server.access_key_id,
            "AWS_SECRET_ACCESS_KEY": s3_server.secret_access_key,
        },
    )
    shell.run("callsheet db migrate --create")
    s3_server.create_bucket("my-callsheet")
    # The service is named first: the first block of the page is about Amazon's.
    shell.run(re.sub(r"=https?://\S+", f"={s3_server.url}", other_service))
    assert "An object was written, read and deleted (s3)." in shell.run(settings)
    s3_server.allow_pages("my-callsheet", json.loads(cors.replace("shop.example.com", "other.example.com")))
    assert "https://shop.example.com" in shell.run("callsheet doctor"), "doctor names an origin that is refused"
    s3_server.allow_pages("my-callsheet", json.loads(cors))
    assert "https://shop.example.com" not in shell.run("callsheet doctor")
