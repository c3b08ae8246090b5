"""The commands on a database by DSN: results on stdout, one sentence on stderr where something is wrong."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from callsheet import __version__
from callsheet.cli.installation.serve import Stop
from callsheet.identity.access.passwords import Passwords
from callsheet.plumbing.database.migrate import known_migrations
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.programs.commands import Callsheet

PASSWORD = "correct horse battery"
ODD_NAME = "[bold]Ärger[/nope] :boom: [red]"

POOL_MIGRATIONS = [migration.label for migration in known_migrations("pool")]


@pytest.fixture
async def central(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


def test_help_names_every_command(tmp_path: Path) -> None:
    shown = Callsheet(tmp_path).succeed("--help").out
    for command in ("serve", "demo", "doctor", "settings", "db", "tenants", "users", "keys", "version"):
        assert re.search(rf"\b{command}\b", shown)


@pytest.mark.thorough
def test_the_installed_script_and_the_module_are_the_same_command(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("callsheet")
    printed = subprocess.run([script, "version"], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert printed == Callsheet(tmp_path).succeed("version").out == f"{__version__}\n"


def test_settings_are_listed_without_their_secrets(tmp_path: Path) -> None:
    callsheet = Callsheet(
        tmp_path,
        HOME="/tmp/[red]home",
        SECRET_KEY="hidden" * 6,
        SERVER__PORT="1234",
        PROVIDERS__REPLICATE__MODELS='{"tts": {"model": "a/b", "fixed": {"hf_token": "hidden"}}}',
    )
    listed = callsheet.succeed("settings", "--json").json
    assert listed["CALLSHEET_SERVER__PORT"] == 1234
    assert listed["CALLSHEET_HOME"] == "/tmp/[red]home"
    shown = callsheet.call("settings").out
    assert "CALLSHEET_HOME = '/tmp/[red]home'\n    The data directory.\n" in shown
    assert "hidden" not in shown + json.dumps(listed)


def test_a_wrong_setting_stops_every_command_with_its_sentence(tmp_path: Path) -> None:
    callsheet = Callsheet(tmp_path, SERVER__PORT="eighty")
    assert callsheet.refuse("users", "list").startswith("CALLSHEET_SERVER__PORT is 'eighty' (from the environment): ")
    misspelt = Callsheet(tmp_path, DATABASE_DSN="x").call("serve").sentence
    assert misspelt.endswith("is not a setting. Did you mean CALLSHEET_DATABASE__DSN?")


@pytest.mark.thorough
def test_tenants_are_created_in_their_pool_and_listed(callsheet: Callsheet) -> None:
    created = callsheet.succeed("tenants", "create", "far", "--name", ODD_NAME, "--pool", "pool_2", "--json").json
    assert (created["slug"], created["name"], created["pool"]) == ("far", ODD_NAME, "pool_2")
    [listed] = [row for row in callsheet.call("tenants", "list", "--json").json if row["slug"] == "far"]
    assert listed == created
    [line] = [line for line in callsheet.succeed("tenants", "list").out.splitlines() if line.startswith("far ")]
    assert ODD_NAME in line
    assert created["id"] in line
    assert callsheet.call("tenants", "create", "far").sentence == "A tenant 'far' already exists."
    assert callsheet.call("tenants", "create", "Far Away").sentence == (
        "slug is 'Far Away': Use 1 to 63 lower-case letters, digits and dashes. Do not start with a dash."
    )
    assert callsheet.call("tenants", "create", "new", "--pool", "pool_7").sentence == "There is no pool 'pool_7'."


async def test_users_are_created_listed_and_get_new_passwords(
    callsheet: Callsheet, central: asyncpg.Connection
) -> None:
    passwords = Passwords()

    async def is_password_of(email: str, password: str) -> bool:
        stored = await central.fetchval("SELECT password_hash FROM users WHERE email = $1", email)
        return await passwords.matches(stored, password)

    callsheet.call("tenants", "create", "people")
    made_up = callsheet.succeed("users", "create", "Ann@Example.com", "--tenant", "people", "--admin", "--json").json
    assert (made_up["email"], made_up["role"]) == ("ann@example.com", "operator")
    assert await is_password_of("ann@example.com", made_up["password"])

    viewer = callsheet.call("users", "create", "eve@example.com", "--tenant", "people", "--role", "viewer").out
    assert viewer.startswith("User eve@example.com (viewer) of people.")
    both = callsheet.call("users", "create", "joe@example.com", "--tenant", "people", "--admin", "--role", "viewer")
    assert (both.code, "--admin means --role operator" in both.err) == (1, True)

    shown = callsheet.succeed(
        "users", "create", "bob@example.com", "--tenant", "people", "--password-stdin", input=PASSWORD
    )
    assert shown.out == "User bob@example.com (user) of people.\n"
    assert await is_password_of("bob@example.com", PASSWORD)

    listed = callsheet.call("users", "list", "--tenant", "people", "--json").json
    assert [row["email"] for row in listed] == ["bob@example.com", "eve@example.com", "ann@example.com"]
    assert "password" not in json.dumps(listed)
    [line] = [line for line in callsheet.succeed("users", "list").out.splitlines() if "bob@" in line]
    assert line.split() == ["bob@example.com", "user", "people", "active", listed[0]["id"]]

    printed = callsheet.succeed("users", "set-password", "BOB@example.com").out
    assert await is_password_of("bob@example.com", printed.removeprefix("Password: ").strip())


def test_invalid_users_are_refused_and_no_password_is_printed(callsheet: Callsheet) -> None:
    create = ("users", "create", "--tenant")
    assert "There is no tenant 'nobody'." in callsheet.call(*create, "nobody", "ann@example.com").sentence
    refused = callsheet.call(*create, "demo", "not an address").sentence
    assert refused == "email is 'not an address': Use an e-mail address, for example mara@example.org."
    short = callsheet.call(*create, "demo", "ann@example.com", "--password-stdin", input="s3cret\n").sentence
    assert short == "A password has 10 to 256 characters."
    assert (
        callsheet.call("users", "set-password", "nobody@example.com").sentence
        == "There is no user 'nobody@example.com'."
    )


@pytest.mark.thorough
def test_the_share_of_a_tenant_is_shown_and_changed(callsheet: Callsheet) -> None:
    callsheet.call("tenants", "create", "shares")
    shown = callsheet.succeed("tenants", "share", "shares", "--json").json
    nothing = {"tenant": "shares", "weight": 1.0, "max_running": None, "max_running_per_user": None, "running": 0}
    assert shown == nothing
    changed = callsheet.succeed("tenants", "share", "shares", "--weight", "2.5", "--max-running", "10", "--json").json
    assert changed == {**nothing, "weight": 2.5, "max_running": 10}
    table = callsheet.succeed("tenants", "share", "shares", "--max-running", "default").out
    assert [line.split()[1:] for line in table.splitlines() if line.startswith("max_running ")] == [["no", "limit"]]
    wrong = callsheet.call("tenants", "share", "shares", "--max-running", "many").sentence
    assert wrong == "--max-running must be a number or `default`, not 'many'."
    assert "weight" in callsheet.call("tenants", "share", "shares", "--weight", "0").sentence
    assert callsheet.call("tenants", "share", "none").sentence.startswith("There is no tenant 'none'.")


@pytest.mark.thorough
def test_the_limits_of_a_tenant_are_shown_and_changed(callsheet: Callsheet) -> None:
    callsheet.call("tenants", "create", "quotas")
    shown = callsheet.succeed("tenants", "quotas", "quotas", "--json").json
    assert (shown["changed"], shown["storage"]["files"]) == ({}, 0)
    changed = callsheet.succeed(
        "tenants", "quotas", "quotas", "--set", "keys_per_user=1", "--set", "payload_bytes=2000", "--json"
    ).json
    assert changed["changed"] == {"keys_per_user": 1, "payload_bytes": 2000}
    callsheet.succeed("tenants", "quotas", "quotas", "--set", "payload_bytes=default")
    table = callsheet.succeed("tenants", "quotas", "quotas").out
    [line] = [line for line in table.splitlines() if line.startswith("keys_per_user")]
    assert line.split() == ["keys_per_user", "1", "own"]
    assert "Files of quotas: 0, 0 bytes in total." in table
    wrong = callsheet.call("tenants", "quotas", "quotas", "--set", "keys=1").sentence
    assert wrong.startswith("Unknown limit 'keys'. Available: tenant_storage_bytes, ")
    number = callsheet.call("tenants", "quotas", "quotas", "--set", "keys_per_user=many").sentence
    assert number == "keys_per_user must be a whole number or `default`, not 'many'."
    assert callsheet.call("tenants", "quotas", "none").sentence.startswith("There is no tenant 'none'.")
    callsheet.succeed("users", "create", "keys@quotas.example", "--tenant", "quotas")
    key = callsheet.succeed("keys", "create", "--user", "keys@quotas.example", "--json").json
    refused = callsheet.call("keys", "create", "--user", "keys@quotas.example").sentence
    assert "has 1 API keys that are neither revoked nor expired, and the limit is 1 (keys_per_user)" in refused
    callsheet.succeed("keys", "revoke", key["id"])


@pytest.mark.thorough
async def test_users_and_tenants_are_disabled_enabled_and_deleted(
    callsheet: Callsheet, central: asyncpg.Connection
) -> None:
    callsheet.call("tenants", "create", "staff")
    for name, role in (("first", "operator"), ("second", "operator"), ("third", "user")):
        callsheet.call("users", "create", f"{name}@staff.example", "--tenant", "staff", "--role", role)
    await central.execute("UPDATE users SET role = 'user' WHERE email NOT LIKE '%@staff.example'")

    printed = callsheet.call("users", "disable", "First@staff.example").out
    assert printed == "User first@staff.example is disabled. Active jobs continue.\n"
    assert "disabled" in callsheet.call("users", "list", "--tenant", "staff").out
    for last in (
        callsheet.call("users", "disable", "second@staff.example"),
        callsheet.call("users", "role", "second@staff.example", "viewer"),
        callsheet.call("users", "delete", "second@staff.example"),
        callsheet.call("tenants", "disable", "staff"),
    ):
        assert last.sentence == "After this change, no operator could sign in. Make another user an operator first."
    assert callsheet.call("users", "enable", "first@staff.example").out == "User first@staff.example is enabled.\n"

    assert callsheet.call("users", "role", "third@staff.example", "admin").code == 2
    changed = callsheet.call("users", "role", "third@staff.example", "tenant_admin", "--json").json
    assert (changed["email"], changed["role"]) == ("third@staff.example", "tenant_admin")
    deleted = callsheet.call("users", "delete", "third@staff.example").out
    assert deleted == f"User third@staff.example is deleted. Jobs and ledger keep the id {changed['id']}.\n"
    assert "third@" not in callsheet.call("users", "list").out
    assert "There is no user" in callsheet.call("users", "delete", "third@staff.example").sentence

    callsheet.call("tenants", "create", "aside")
    assert callsheet.call("tenants", "disable", "aside").out.startswith("Tenant aside is disabled.")
    assert callsheet.call("tenants", "enable", "aside", "--json").json["disabled_at"] is None
    assert "There is no tenant" in callsheet.call("tenants", "disable", "nowhere").sentence
    actions = {row["action"] for row in await central.fetch("SELECT action FROM audit_logs WHERE actor = 'operator'")}
    assert {"user.disable", "user.enable", "user.role", "user.delete", "tenant.disable", "tenant.enable"} <= actions


@pytest.mark.thorough
async def test_invitations_and_reset_links_are_printed_once(callsheet: Callsheet, central: asyncpg.Connection) -> None:
    callsheet.call("tenants", "create", "guests")
    invited = callsheet.succeed("users", "invite", "Guest@Example.com", "--tenant", "guests", "--role", "viewer")
    link = invited.out.strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/account/invitation/csl_\S{40,}", link)
    assert "Send it to guest@example.com. It works once, until " in invited.err
    row = await central.fetchrow("SELECT email, role, invited_by FROM invitations WHERE email = 'guest@example.com'")
    assert row is not None
    assert tuple(row) == ("guest@example.com", "viewer", "operator")
    refused = callsheet.call("users", "invite", "guest@example.com", "--tenant", "guests", "--mail").sentence
    assert "CALLSHEET_MAIL__HOST is not set" in refused

    callsheet.call("users", "create", "forgot@example.com", "--tenant", "guests")
    printed = callsheet.call("users", "reset-password", "Forgot@example.com", "--json").json
    assert "/account/password/csl_" in printed["link"]
    token = printed["link"].rpartition("/")[2].encode()
    [stored] = await central.fetch("SELECT token_hash FROM account_links WHERE user_id IS NOT NULL")
    assert stored["token_hash"] == hashlib.sha256(token).digest()
    assert "There is no user" in callsheet.call("users", "reset-password", "nobody@example.com").sentence
    # A password that is set makes the link useless.
    callsheet.call("users", "set-password", "forgot@example.com")
    assert await central.fetchval("SELECT count(*) FROM account_links WHERE user_id IS NOT NULL") == 0


@pytest.mark.thorough
async def test_keys_have_scopes_and_expire_and_are_in_the_audit_log(
    callsheet: Callsheet, central: asyncpg.Connection
) -> None:
    callsheet.call("tenants", "create", "scopes")
    callsheet.call("users", "create", "scoped@example.com", "--tenant", "scopes")
    of_user = ("--user", "scoped@example.com")
    chosen = ("--scope", "read", "--scope", "submit", "--expires-days", "30")
    created = callsheet.call("keys", "create", *of_user, *chosen, "--json").json
    assert created["scopes"] == ["read", "submit"]
    left = datetime.fromisoformat(created["expires_at"]) - datetime.fromisoformat(created["created_at"])
    assert timedelta(days=29) < left <= timedelta(days=30)
    listed = callsheet.succeed("keys", "list", *of_user).out
    assert "read, submit" in listed
    refused = callsheet.call("keys", "create", *of_user, "--scope", "admin").sentence
    assert "The scope admin does not suit the role user" in refused
    callsheet.call("keys", "revoke", created["id"])
    callsheet.call("users", "set-password", "scoped@example.com")
    of_subject = "subject_id = (SELECT id::text FROM users WHERE email = 'scoped@example.com')"
    rows = await central.fetch(f"SELECT actor, action, details FROM audit_logs WHERE {of_subject} ORDER BY id")
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("operator", action) for action in ("user.create", "key.create", "key.revoke", "user.password")
    ]
    assert created["key"] not in str(rows)


@pytest.mark.thorough
async def test_keys_are_shown_once_listed_and_revoked(callsheet: Callsheet, central: asyncpg.Connection) -> None:
    callsheet.call("tenants", "create", "keyring")
    callsheet.call("users", "create", "key@example.com", "--tenant", "keyring")
    of_user = ("--user", "key@example.com")
    printed = callsheet.succeed("keys", "create", *of_user, "--name", "laptop")
    key = printed.out.strip()
    assert re.fullmatch(r"cs_\S{40,}", key)
    assert "not shown again" in printed.err
    second = callsheet.call("keys", "create", *of_user, "--json").json
    listed = callsheet.succeed("keys", "list", *of_user)
    assert key not in listed.out
    assert key[:11] in listed.out

    assert callsheet.succeed("keys", "revoke", f"{key[:11]}…").out == f"Key {key[:11]}… (laptop) is revoked.\n"
    assert callsheet.call("keys", "revoke", second["id"]).code == 0
    rows = callsheet.call("keys", "list", *of_user, "--json").json
    assert [row["revoked_at"] is not None for row in rows] == [True, True]
    assert await central.fetchval("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL") == 0

    assert callsheet.call("keys", "revoke", "cs_unknown").sentence == "There is no key 'cs_unknown'."
    assert callsheet.call("keys", "create", *of_user, "--name", " ").sentence.startswith("name is ' ': ")
    unknown = callsheet.call("keys", "list", "--user", "nobody@example.com").sentence
    assert unknown == "There is no user 'nobody@example.com'. List them: callsheet users list"


async def test_each_payment_credits_tokens_once_and_is_in_the_audit_log(
    callsheet: Callsheet, central: asyncpg.Connection
) -> None:
    callsheet.call("tenants", "create", "credited")
    callsheet.call("users", "create", "rich@example.com", "--tenant", "credited", "--password-stdin", input=PASSWORD)
    given = callsheet.call("wallet", "credit", "Rich@example.com", "100", "--reference", "welcome")
    assert given.out == "Rich@example.com has 100 tokens.\n"
    again = callsheet.call("wallet", "credit", "rich@example.com", "100", "--reference", "welcome")
    assert again.out == "This payment was already credited. rich@example.com has 100 tokens.\n"
    more = callsheet.call("wallet", "credit", "rich@example.com", "5", "--json").json
    assert more == {"balance": 105, "replayed": False}
    assert (
        "was already credited to another"
        in callsheet.call(*("wallet", "credit", "rich@example.com", "7", "--reference", "welcome")).sentence
    )
    assert "There is no user 'poor@example.com'" in callsheet.call("wallet", "credit", "poor@example.com", "1").sentence
    assert "amount is 0: " in callsheet.call("wallet", "credit", "rich@example.com", "0").sentence
    recorded = await central.fetchval(
        "SELECT count(*) FROM audit_logs WHERE action = 'wallet.credit' AND actor = 'operator'"
    )
    assert recorded == 2
    shown = callsheet.call("wallet", "show", "Rich@example.com", "--json").json
    assert (shown["balance"], shown["held"]) == (105, 0)
    assert [(line["type"], line["amount"]) for line in shown["transactions"]] == [
        ("PAYMENT_CREDIT", 5),
        ("PAYMENT_CREDIT", 100),
    ]
    summary, _, *rows = callsheet.call("wallet", "show", "rich@example.com", "--limit", "1").out.splitlines()
    assert summary == "rich@example.com has 105 tokens. Active jobs hold 0 more."
    assert [row.split()[2:4] for row in rows] == [["+5", "PAYMENT_CREDIT"]]
    assert "There is no user 'poor@example.com'" in callsheet.call("wallet", "show", "poor@example.com").sentence


def test_a_tenant_gets_tokens_and_pays_for_its_users(callsheet: Callsheet) -> None:
    callsheet.succeed("tenants", "create", "payer")
    callsheet.call("users", "create", "guest@example.com", "--tenant", "payer", "--password-stdin", input=PASSWORD)
    given = callsheet.succeed("wallet", "credit", "payer", "500", "--tenant", "--reference", "contract")
    assert given.out == "payer has 500 tokens.\n"
    by_users = "The wallet of payer has 500 tokens. Active jobs hold 0 more. New jobs of its users are paid from "
    assert callsheet.succeed("tenants", "wallet", "payer").out == f"{by_users}wallets of their own.\n"
    summary, payer, *_ = callsheet.succeed("wallet", "show", "payer", "--tenant").out.splitlines()
    assert summary == "payer has 500 tokens. Active jobs hold 0 more."
    assert payer == "New jobs are paid from wallets of the users."
    changed = callsheet.succeed("tenants", "wallet", "payer", "--paid-by", "tenant", "--json").json
    assert changed == {"balance": 500, "held": 0, "paid_by": "tenant"}
    assert callsheet.succeed("tenants", "wallet", "payer").out == f"{by_users}this wallet.\n"
    shown = callsheet.succeed("wallet", "show", "payer", "--tenant", "--json").json
    assert (shown["tenant"], shown["balance"], shown["paid_by_tenant"]) == ("payer", 500, True)
    assert [(line["type"], line["amount"], line["paid_by"]) for line in shown["transactions"]] == [
        ("PAYMENT_CREDIT", 500, "tenant")
    ]
    guest = callsheet.succeed("wallet", "show", "guest@example.com").out
    assert guest.splitlines()[:2] == [
        "guest@example.com has 0 tokens. Active jobs hold 0 more.",
        "New jobs are paid from the wallet of the tenant.",
    ]
    assert "paid_by is 'nobody': " in callsheet.call("tenants", "wallet", "payer", "--paid-by", "nobody").sentence
    assert "'unknown'" in callsheet.call("wallet", "credit", "unknown", "1", "--tenant").sentence


def test_the_state_of_every_database_is_shown(callsheet: Callsheet) -> None:
    report = callsheet.succeed("db", "status", "--json").json
    assert report["server"] == "external"
    assert [(row["name"], row["kind"], row["pending"], row["problem"]) for row in report["databases"]][:3] == [
        ("central", "central", [], None),
        ("pool_1", "pool", [], None),
        ("pool_2", "pool", [], None),
    ]
    shown = callsheet.call("db", "status").out.splitlines()
    [pool_2] = [line.split() for line in shown if line.startswith("pool_2 ")]
    assert (pool_2[:2], pool_2[4]) == (["pool_2", "pool"], str(len(POOL_MIGRATIONS)))
    lines = callsheet.succeed("db", "migrate").out.splitlines()
    assert lines[:2] == ["central: up to date", "pool_1: up to date"]
    assert lines[-1] == f"No migration was needed. {len(lines) - 1} databases have the schema of this version."


@pytest.mark.thorough
async def test_one_command_adds_a_pool_whose_database_exists(
    callsheet: Callsheet, postgres: EmbeddedPostgres, central: asyncpg.Connection
) -> None:
    await central.execute("CREATE DATABASE cli_pool_3")
    dsn = postgres.dsn("cli_pool_3")
    # Other users of the machine see the arguments of a command.
    refused = callsheet.call("db", "add-pool", "pool_3", dsn)
    assert "A password on the command line" in refused.sentence
    assert urlsplit(dsn).password not in refused.sentence
    assert "Set CALLSHEET_POOL_DSN" in callsheet.call("db", "add-pool", "pool_3").sentence
    given = callsheet.having(POOL_DSN=dsn)
    added = given.succeed("db", "add-pool", "pool_3").out
    assert added == f"pool_3: {', '.join(POOL_MIGRATIONS)}; it can hold tenants now.\n"
    assert (
        callsheet.call("tenants", "create", "third", "--pool", "pool_3").out
        == "Tenant third was created in the pool pool_3.\n"
    )
    counted = callsheet.succeed("db", "shell", "pool_3", input="SELECT 'tenants: ' || count(*) FROM pool_tenants")
    assert "tenants: 1" in counted.out
    assert "cannot be pool 'pool_4' too" in given.call("db", "add-pool", "pool_4").sentence
    assert "cannot be read" in callsheet.call("db", "add-pool", "pool_4", "not-a-dsn").sentence
    await central.execute("DELETE FROM tenants WHERE db_pool = 'pool_3'")
    await central.execute("DELETE FROM pools WHERE name = 'pool_3'")
    await central.execute("DROP DATABASE cli_pool_3 WITH (FORCE)")


@pytest.mark.thorough
def test_the_command_shell_opens_psql_on_the_named_database(callsheet: Callsheet, dsn: str) -> None:
    statements = "SELECT current_database() || '!';\n\\set ON_ERROR_STOP on\nSELECT 1/0;\n"
    response = callsheet.run("db", "shell", input=statements)
    assert f"{dsn.rpartition('/')[2].partition('?')[0]}!" in response.out
    # How psql ended is how the command ends.
    assert (response.code, "division by zero" in response.err) == (3, True)
    unknown = callsheet.call("db", "shell", "pool_9").sentence
    assert unknown == "There is no database 'pool_9'. Available: central, pool_1, pool_2."


def test_a_missing_database_is_reported_in_one_sentence(callsheet: Callsheet) -> None:
    away = callsheet.having(DATABASE__DSN="postgresql://user:hidden@127.0.0.1:1/name")
    sentence = away.call("users", "list").sentence
    assert sentence.startswith("Database central at 127.0.0.1:1/name cannot be used: ")
    assert "hidden" not in sentence
    status = away.call("db", "status", "--json").json
    assert status["databases"][0]["problem"] == sentence


def test_serve_runs_until_it_gets_a_signal(callsheet: Callsheet) -> None:
    with callsheet.having(LOG__FORMAT="json").running("serve", "--port", "0") as server:
        ready = json.loads(server.wait_for("control_plane.ready"))
        assert ready["url"].startswith("http://127.0.0.1:")
        ended = server.end(signal.SIGTERM)
    assert (ended.code, ended.out) == (0, "")
    assert all(json.loads(line)["level"] == "info" for line in ended.err.splitlines())


@pytest.mark.thorough
def test_serve_says_why_it_cannot_start(callsheet: Callsheet, monkeypatch: pytest.MonkeyPatch) -> None:
    # In this process, and so in a thread, where no signals can be listened for.
    monkeypatch.setattr("callsheet.cli.installation.serve.stop_requested", Stop)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"Cannot listen on 127.0.0.1:{port}: " in callsheet.call("serve", "--port", port).sentence
    unknown = callsheet.having(FAILPOINTS="no.such").call("serve").sentence
    assert unknown.startswith("CALLSHEET_FAILPOINTS names unknown failpoints: no.such. Available: ")
    assert "CALLSHEET_SERVER__PORT is -5 (from the command line)" in callsheet.call("serve", "--port", "-5").sentence


def test_the_demo_does_not_put_its_known_password_into_a_real_database(callsheet: Callsheet) -> None:
    assert "works on the embedded database only" in callsheet.call("demo", "--exit").sentence
