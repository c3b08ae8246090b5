"""`callsheet demo`: runs a real job at once, stops cleanly, and starts again after any kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.cli.installation.serve import Stop
from callsheet.plumbing.failpoints import Failpoint
from tests.support.media.clips import decode, farthest
from tests.support.programs.commands import Callsheet, Result, processes_naming, wait_until_nothing_runs_in

# `make test` starts a demo for the tests in a browser.
pytestmark = pytest.mark.thorough
EMAIL = "admin@demo.example"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The home of a first run that has ended, and what it printed."""
    home = tmp_path_factory.mktemp("demo") / "home"
    return home, Callsheet(home.parent, HOME=str(home)).run("demo", "--exit", "--port", "0")


@pytest.fixture
def home(first: tuple[Path, Result]) -> Path:
    return first[0]


@pytest.fixture
def callsheet(home: Path) -> Callsheet:
    return Callsheet(home.parent, HOME=str(home))


def summary(result: Result) -> dict[str, Any]:
    assert result.code == 0, result
    assert result.out.count("\n") == 1
    return result.json


def kept_password(home: Path) -> str:
    return (home / "demo" / "password").read_text().strip()


def log_in(home: Path, url: str) -> int:
    body = {"email": EMAIL, "password": kept_password(home)}
    return httpx.post(f"{url}/api/auth/login", json=body, trust_env=False, timeout=60).status_code


def _without_timings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Effects remember how long their last job took."""
    return [{name: value for name, value in row.items() if name != "last_processing_time_seconds"} for row in rows]


def test_the_first_run_prints_one_line_of_json_and_leaves_nothing_running(first: tuple[Path, Result]) -> None:
    home, result = first
    printed = summary(result)
    assert printed["status"] == "ready"
    assert printed["checks"] == dict.fromkeys(("/healthz", "/readyz", "/docs", "/api/auth/login", "/api/me"), 200)
    assert (printed["email"], printed["password"]) == (EMAIL, kept_password(home))
    assert len(printed["password"]) >= 16
    assert printed["home"] == str(home)
    assert processes_naming(home) == []


def test_the_clip_that_comes_back_is_the_negative_of_the_one_that_was_sent(first: tuple[Path, Result]) -> None:
    home, result = first
    job = summary(result)["job"]
    assert (job["effect"], job["status"], job["cost"]) == ("negative", "completed", 2)
    assert [stage for stage in job["stages"] if stage not in ("render", "upload")] == ["queue", "lease", "done"]
    assert job["output"] == str(home / "demo" / "sample-negative.mp4")
    # What the demo says of it, and what decoding it anew says.
    assert (job["verified"]["frames"], job["verified"]["problems"]) == (72, [])
    before, after = decode(home / "demo" / "sample.mp4"), decode(Path(job["output"]))
    assert len(after.frames) == len(before.frames) == 72
    assert after.rate == before.rate == 24
    assert after.sound_codec == "aac"
    assert after.sound_seconds == pytest.approx(before.sound_seconds, abs=0.1)
    assert after.loudness == pytest.approx(before.loudness, rel=0.2)
    # The first, the last and some between: looking at every frame takes a second.
    some = [*range(0, 72, 10), 71]
    assert max(farthest(255 - before.frames[at], after.frames[at]) for at in some) < 10


def test_the_stages_of_the_job_are_shown_in_their_order(first: tuple[Path, Result]) -> None:
    shown = [line.split()[-1] for line in first[1].err.splitlines() if " s  " in line]
    assert shown == ["queue", "lease", "render", "upload", "done"]


def test_effects_of_the_demo_take_images_videos_and_texts(callsheet: Callsheet) -> None:
    effects = {each["slug"]: each for each in callsheet.call("effects", "list", "--json").json}
    workflows = {each["slug"]: each for each in callsheet.call("workflows", "list", "--json").json}
    assert len(effects) >= 6
    assert all(each["is_published"] for each in effects.values())
    inputs = {
        slug: next((one["type"] for one in workflows[each["workflow"]]["properties"] if one["is_primary_input"]), None)
        for slug, each in effects.items()
    }
    assert (inputs["negative"], inputs["glow"], inputs["imagine"]) == ("video", "image", None)
    properties = {one["key"]: one for one in workflows[effects["caption"]["workflow"]]["properties"]}
    assert (properties["prompt"]["type"], properties["prompt"]["required"]) == ("text", True)
    logo = next(one for one in workflows[effects["watermark"]["workflow"]]["properties"] if one["key"] == "logo")
    assert (logo["type"], bool(logo["default"])) == ("image", True)


def test_key_and_password_of_the_demo_are_readable_by_their_owner_only(home: Path) -> None:
    for name in ("login.json", "password", "fleet_token.json"):
        assert stat.S_IMODE((home / "demo" / name).stat().st_mode) == 0o600
    assert json.loads((home / "demo" / "login.json").read_text())["api_key"].startswith("cs_")


@pytest.mark.thorough
def test_a_second_run_reuses_the_data_of_the_first(
    callsheet: Callsheet, home: Path, first: tuple[Path, Result]
) -> None:
    secret = (home / "secret_key").read_bytes()
    key = json.loads((home / "demo" / "login.json").read_text())["api_key"]
    before = callsheet.call("users", "list", "--json").json
    catalog = [callsheet.call(each, "list", "--json").json for each in ("effects", "workflows")]
    second = summary(callsheet.having(SERVER__HOST="0.0.0.0").run("demo", "--exit", "--port", "0"))
    assert second["status"] == "ready"
    assert second["password"] == summary(first[1])["password"]
    # What it starts is for this machine only, whatever the settings say.
    assert second["url"].startswith("http://127.0.0.1:")
    assert (home / "secret_key").read_bytes() == secret
    assert json.loads((home / "demo" / "login.json").read_text()) == {"url": second["url"], "api_key": key}
    again = [callsheet.call(each, "list", "--json").json for each in ("effects", "workflows")]
    assert [_without_timings(each) for each in again] == [_without_timings(each) for each in catalog]
    assert callsheet.call("users", "list", "--json").json == before
    assert [row["email"] for row in before] == [EMAIL]
    # Its worker came with the same registration token, so that no setting and no revocation keeps it waiting.
    [token] = callsheet.call("fleets", "tokens", "list", "demo", "--json").json
    assert (token["is_accepted"], token["last_used_by"]) == (True, "demo")
    assert processes_naming(home) == []


@pytest.mark.thorough
def test_the_demo_runs_beside_other_commands_until_it_is_interrupted(callsheet: Callsheet, home: Path) -> None:
    with callsheet.running("demo", "--port", "0") as demo:
        url = demo.wait_for("/docs").split()[-1].removesuffix("/docs")
        assert httpx.get(f"{url}/readyz", trust_env=False, timeout=60).json()["databases"] == {
            "central": "ok",
            "pool_1": "ok",
        }
        assert log_in(home, url) == 200
        status = callsheet.succeed("db", "status", "--json").json
        assert (status["server"], status["running"]) == ("embedded", True)
        assert [(row["name"], row["problem"]) for row in status["databases"]] == [("central", None), ("pool_1", None)]
        login = (home / "demo" / "login.json").read_text()
        assert "A demo is already running in" in callsheet.refuse("demo", "--exit", "--port", "0")
        assert (home / "demo" / "login.json").read_text() == login
        shell = callsheet.succeed("db", "shell", "pool_1", input="SELECT 'tenants: ' || count(*) FROM pool_tenants")
        assert "tenants: 1" in shell.out
        ended = demo.end(signal.SIGINT)
    assert (ended.code, ended.out) == (0, "")
    assert "Stopping" in ended.err
    assert "Traceback" not in ended.err
    assert processes_naming(home) == []
    down = callsheet.call("db", "status", "--json").json
    assert (down["running"], down["databases"]) == (False, [])


@pytest.mark.thorough
def test_the_printed_commands_of_the_demo_work(callsheet: Callsheet, home: Path) -> None:
    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        printed_login = next(line.split() for line in demo.err.splitlines() if line.startswith("  Login "))
        assert printed_login == ["Login", EMAIL, "/", kept_password(home)]
        url, _, token = next(line.split()[1] for line in demo.err.splitlines() if line.startswith("  Open ")).partition(
            "/sign-in#once="
        )
        if token:  # where the web application was built
            once = [httpx.post(f"{url}/api/auth/once", json={"token": token}, trust_env=False) for _ in range(2)]
            assert [each.status_code for each in once] == [200, 404]
            assert once[0].json()["email"] == EMAIL
            # This process is of the user who runs the demo, and has used its link; a proxy may pass on another user's.
            assert httpx.get(f"{url}/api/auth/demo", trust_env=False).json() == {"email": None}
            browser = {"cookie": f"callsheet_demo={once[0].cookies['callsheet_demo']}"}
            assert httpx.get(f"{url}/api/auth/demo", headers=browser, trust_env=False).json() == {"email": EMAIL}
            assert httpx.post(f"{url}/api/auth/demo", headers=browser, trust_env=False).json()["email"] == EMAIL
            passed_on = browser | {"x-forwarded-for": "127.0.0.1"}
            assert httpx.post(f"{url}/api/auth/demo", headers=passed_on, trust_env=False).status_code == 403
        assert log_in(home, url) == 200
        commands = [line.strip() for line in demo.err.splitlines() if line.startswith("    ")]
        assert [command.split()[0] for command in commands] == ["curl", "callsheet", "callsheet"]
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "CALLSHEET_HOME": str(home)}
        printed = [
            subprocess.run(
                ["/bin/sh", "-c", command], capture_output=True, check=True, cwd=home.parent, env=environment
            )
            for command in commands
        ]
        assert json.loads(printed[0].stdout)["balance"] > 0
        files = [home.parent / each.stdout.decode().strip() for each in printed[1:]]
        assert all(file.stat().st_size for file in files)
        assert demo.end(signal.SIGINT).code == 0


@pytest.mark.thorough
def test_after_kill_9_the_next_start_works_at_once(callsheet: Callsheet, home: Path) -> None:
    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        assert demo.end(signal.SIGKILL).code == -signal.SIGKILL
    assert summary(callsheet.run("demo", "--exit", "--port", "0"))["status"] == "ready"
    assert processes_naming(home) == []


@pytest.mark.thorough
def test_the_demo_ends_cleanly_if_its_database_is_stopped(callsheet: Callsheet, home: Path) -> None:
    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        assert callsheet.succeed("db", "stop").out == "PostgreSQL was stopped.\n"
        assert callsheet.call("db", "stop").out == "PostgreSQL was not running.\n"
        ended = demo.end(signal.SIGINT)
    assert ended.code == 0
    wait_until_nothing_runs_in(home)
    # Its worker could not say goodbye, and is at work again at once all the same.
    again = callsheet.run("demo", "--exit", "--port", "0")
    assert summary(again)["status"] == "ready"
    assert "worker.not_registered" not in again.err


@pytest.mark.thorough
def test_a_process_that_ends_between_two_databases_is_repaired_by_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    callsheet = Callsheet(tmp_path, HOME=str(home))
    point = Failpoint.MIGRATE_BETWEEN_DATABASES
    crashed = callsheet.having(FAILPOINTS=point).run("demo", "--exit", "--port", "0")
    assert (crashed.code, crashed.out) == (137, "")
    assert summary(callsheet.run("demo", "--exit", "--port", "0"))["status"] == "ready"
    assert processes_naming(home) == []
    shutil.rmtree(home)


@pytest.mark.thorough
def test_an_interrupted_demo_leaves_no_process_running(callsheet: Callsheet, home: Path) -> None:
    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for(" s  queue")
        ended = demo.end(signal.SIGINT)
    assert (ended.code, ended.out) == (0, "")
    assert "Traceback" not in ended.err
    assert processes_naming(home) == []
    # What it was at goes back to the queue, and the next start does it too.
    assert summary(callsheet.run("demo", "--exit", "--port", "0"))["status"] == "ready"
    assert callsheet.succeed("wallet", "audit").out.startswith("Every wallet")


@pytest.mark.thorough
def test_the_demo_reports_a_failed_job_and_stops_every_process(callsheet: Callsheet, home: Path) -> None:
    callsheet.succeed("effects", "unpublish", "negative")
    try:
        refused = callsheet.run("demo", "--exit", "--port", "0")
    finally:
        callsheet.succeed("effects", "publish", "negative")
    assert (refused.code, refused.out) == (1, "")
    assert "There is no effect 'negative'" in refused.err
    assert processes_naming(home) == []


def test_an_unusable_data_directory_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process, and so in a thread, where no signals can be listened for.
    monkeypatch.setattr("callsheet_demo.run.stop_requested", Stop)
    (tmp_path / "file").write_text("")
    callsheet = Callsheet(tmp_path, HOME=str(tmp_path / "file"))
    for command in (("users", "list"), ("db", "status"), ("db", "migrate"), ("demo", "--exit")):
        assert "set CALLSHEET_HOME to a directory of yours" in callsheet.call(*command).sentence


def test_effects_of_the_demo_get_previews_once(callsheet: Callsheet, home: Path) -> None:
    def shown() -> dict[str, Any]:
        listed = callsheet.call("effects", "list", "--json").json
        return {each["slug"]: each["preview"] and each["preview"]["after"]["width"] for each in listed}

    with callsheet.running("demo", "--port", "0") as demo:
        demo.wait_for("Ctrl-C stops it")
        while not all(shown().values()):
            time.sleep(0.5)
        demo.end(signal.SIGINT)
    versions = {each["slug"]: each["version"] for each in callsheet.call("effects", "list", "--json").json}
    noir, imagine = [callsheet.call("effects", "show", slug, "--json").json for slug in ("noir", "imagine")]
    assert noir["preview"]["before"]["preview_url"] is not None
    assert (imagine["preview"]["before"], imagine["preview"]["after"]["preview_url"]) == (None, None)
    assert callsheet.succeed("wallet", "audit").out.startswith("Every wallet")
    callsheet.run("demo", "--exit", "--port", "0")
    assert versions == {each["slug"]: each["version"] for each in callsheet.call("effects", "list", "--json").json}
    assert processes_naming(home) == []


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    home = tmp_path_factory.mktemp("scaled") / "home"
    return home, Callsheet(home.parent, HOME=str(home)).run("demo", "--scale", "--exit", "--port", "0")


def test_a_fleet_without_workers_grows_to_three_agents_and_shrinks_to_none(scaled: tuple[Path, Result]) -> None:
    home, result = scaled
    printed = summary(result)
    timeline = printed["timeline"]
    assert (printed["status"], printed["jobs"]) == ("ready", 10)
    assert 1 <= printed["peak_workers"] <= 3
    first, last = timeline[0], timeline[-1]
    assert (first["workers"], first["done"]) == (0, 0)
    assert (last["workers"], last["coming"], last["draining"], last["leaving"], last["done"]) == (0, 0, 0, 0, 10)
    assert all(each["workers"] + each["draining"] + each["leaving"] <= 3 for each in timeline)
    assert processes_naming(home) == []
    callsheet = Callsheet(home.parent, HOME=str(home))
    assert callsheet.succeed("wallet", "audit").out.startswith("Every wallet")
    [fleet] = callsheet.call("fleets", "list", "--json").json
    assert fleet["scaling"] is None


def test_agents_of_a_demo_that_was_killed_leave_and_the_next_demo_works(scaled: tuple[Path, Result]) -> None:
    home, _ = scaled
    callsheet = Callsheet(home.parent, HOME=str(home))
    with callsheet.running("demo", "--scale", "--port", "0") as demo:
        demo.wait_for("3 workers")
        assert demo.end(signal.SIGKILL).code == -signal.SIGKILL
    wait_until_nothing_runs_in(home / "scaling")
    assert summary(callsheet.run("demo", "--exit", "--port", "0"))["status"] == "ready"
    assert processes_naming(home) == []
