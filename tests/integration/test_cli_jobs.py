"""`callsheet login`, `profiles`, `jobs`, `queue` and `alerts` as people use them: over HTTP, with an API key."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.cli.shared.profile_store import profiles_file
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wire.tasks import task_id_of
from callsheet_simulation.trace import TraceLane
from callsheet_simulation.trace_files import read_trace
from tests.support.database.installation import empty, isolated_installation
from tests.support.http.accounts import PASSWORD, People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.programs.commands import Callsheet, Result


@pytest.fixture(scope="module")
async def _module_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("shared")
    async with (
        isolated_installation(postgres, templates, directory) as settings,
        running_control_plane(settings) as plane,
    ):
        yield plane


@pytest.fixture
async def plane(_module_plane: ControlPlane) -> ControlPlane:
    """One for all these tests, emptied before each: starting one takes half a second of processor time."""
    await empty(_module_plane.databases)
    return _module_plane


@pytest.fixture
async def jobs_api(logged: io.StringIO, plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    """Its logs are written elsewhere: they would be mixed with the output of commands in this process."""
    return await JobsApi.open(plane, client, people)


class Terminal:
    """Commands beside a control plane that runs in this process too."""

    def __init__(self, plane: ControlPlane, directory: Path):
        self.url = plane.settings.public_url
        self._callsheet = Callsheet(directory, CLIENT__URL=self.url)

    async def run(self, *arguments: str, input: str = "", **variables: str) -> Result:
        callsheet = self._callsheet.having(**variables)
        return await asyncio.to_thread(callsheet.call, *arguments, input=input)

    async def login(self, person: Person, *arguments: str) -> Result:
        result = await self.run("login", self.url, "--key-stdin", *arguments, input=f"{person.key}\n")
        assert result.code == 0, result
        return result


@pytest.fixture
def terminal(plane: ControlPlane, tmp_path: Path) -> Terminal:
    return Terminal(plane, tmp_path)


async def test_a_login_is_stored_for_later_commands_and_readable_by_its_user_only(
    jobs_api: JobsApi, terminal: Terminal
) -> None:
    person = await jobs_api.person(tokens=50)
    login = await terminal.login(person, "--profile", "studio")
    assert login.out == f"You are {person.user.email} (user) of {person.tenant.slug} at {terminal.url}.\n"
    assert (stat.S_IMODE(profiles_file().stat().st_mode), stat.S_IMODE(profiles_file().parent.stat().st_mode)) == (
        0o600,
        0o700,
    )
    job = await jobs_api.submit(person)
    listed = await terminal.run("jobs", "list", "--json")
    assert [row["id"] for row in listed.json] == [job["id"]]
    shown = await terminal.run("jobs", "list", "-v")
    # The control plane, which runs in this process too, may log beside it.
    assert f"callsheet: Control plane: {terminal.url} (profile studio)." in shown.err.splitlines()


@pytest.mark.parametrize("page", ["/", "/effects", "/operate/jobs?status=failed#top"])
async def test_the_url_of_a_page_of_the_web_application_names_its_control_plane(
    jobs_api: JobsApi, terminal: Terminal, page: str
) -> None:
    person = await jobs_api.person()
    login = await terminal.run("login", terminal.url + page, "--key-stdin", input=f"{person.key}\n")
    assert login.out == f"You are {person.user.email} (user) of {person.tenant.slug} at {terminal.url}.\n"
    assert (await terminal.run("jobs", "list", "--json", "--url", terminal.url + page)).json == []


async def test_an_invalid_key_is_refused_before_it_is_stored(jobs_api: JobsApi, terminal: Terminal) -> None:
    refused = await terminal.run("login", terminal.url, "--key-stdin", input="cs_wrong\n")
    assert refused.sentence.startswith("The API key is missing, wrong or revoked.")
    for key, sentence in (("\n", "No API key was given."), ("two words\n", "CALLSHEET_CLIENT__API_KEY is ***")):
        assert (await terminal.run("login", "--key-stdin", input=key)).sentence.startswith(sentence)
    assert "no terminal to ask" in (await terminal.run("login")).sentence
    assert "is the demo's own" in (await terminal.run("login", "--profile", "demo")).sentence
    assert "cannot be the name of a profile" in (await terminal.run("login", "--profile", "A/B")).sentence
    assert not profiles_file().exists()


@pytest.mark.thorough
async def test_a_password_becomes_a_key_of_this_machine(
    plane: ControlPlane, jobs_api: JobsApi, terminal: Terminal
) -> None:
    person = await jobs_api.person()
    by_email = ("login", terminal.url, "--email", person.user.email)
    refused = await terminal.run(*by_email, "--password-stdin", input="a wrong password\n")
    assert refused.sentence == "The e-mail address or the password is wrong."
    assert "no terminal to ask for the password" in (await terminal.run(*by_email)).sentence
    assert not profiles_file().exists()
    login = await terminal.run(*by_email, "--password-stdin", input=f"{PASSWORD}\n")
    assert login.out == f"You are {person.user.email} (user) of {person.tenant.slug} at {terminal.url}.\n"
    assert (await terminal.run("jobs", "list", "--json")).json == []
    async with plane.databases.central.connection() as connection:
        names = await connection.fetch("SELECT name FROM api_keys WHERE user_id = $1 ORDER BY id", person.user.id)
        assert [row["name"] for row in names] == ["test", f"callsheet login on {socket.gethostname()}"]
        # The session was only needed for the key.
        sessions = "SELECT count(*) FROM browser_sessions WHERE user_id = $1"
        assert await connection.fetchval(sessions, person.user.id) == 0


async def test_several_profiles_are_listed_chosen_and_removed(jobs_api: JobsApi, terminal: Terminal) -> None:
    ann, bob = await jobs_api.person(), await jobs_api.person()
    await terminal.login(ann, "--profile", "ann")
    await terminal.login(bob, "--profile", "bob")
    listed = (await terminal.run("profiles", "list", "--json")).json
    assert [(row["name"], row["current"]) for row in listed] == [("ann", False), ("bob", True)]
    assert ann.key not in json.dumps(listed)
    assert ann.key not in (await terminal.run("profiles", "list")).out

    async def who(*options: str, **variables: str) -> str:
        return (await terminal.run(*options, "-v", "jobs", "list", **variables)).err.rpartition("(profile ")[2][:3]

    assert await who() == "bob"
    assert await who("--profile", "ann") == "ann"
    assert await who(PROFILE="ann") == "ann"
    assert await who("--profile", "bob", PROFILE="ann") == "bob"
    assert (await terminal.run("profiles", "use", "ann")).out.startswith("Commands use profile ann (http")
    assert await who() == "ann"
    assert (await terminal.run("profiles", "use", "eve")).sentence.startswith(
        "There is no profile 'eve'. Profiles: ann"
    )
    assert (await terminal.run("logout")).out.startswith("Profile ann is removed.")
    assert (await terminal.run("profiles", "remove", "bob")).out.startswith("Profile bob is removed.")
    assert (await terminal.run("logout")).sentence == "You are not logged in anywhere."
    assert "Log in: callsheet login http" in (await terminal.run("jobs", "list")).sentence


async def test_jobs_are_shown_canceled_and_retried(jobs_api: JobsApi, terminal: Terminal) -> None:
    person = await jobs_api.person(tokens=100)
    await terminal.login(person)
    first, second = await jobs_api.submit(person), await jobs_api.submit(person)
    shown = (await terminal.run("jobs", "show", first["id"])).out
    assert f"job        {first['id']}\n" in shown
    assert "status     queued\n" in shown
    assert "waits      " in shown
    assert (await terminal.run("jobs", "cancel", first["id"])).out == f"Job {first['id']} is canceled.\n"
    listed = await terminal.run("jobs", "list", "--status", "canceled")
    [header, line] = listed.out.splitlines()
    assert header.split() == ["id", "effect", "status", "cost", "created"]
    # The effect, by its name.
    title = (await terminal.run("jobs", "show", first["id"], "--json")).json["title"]
    assert title is not None
    assert line.split()[:-1] == [first["id"], *title.split(), "canceled", "10"]
    assert line.split()[-1].endswith("+00:00")  # not a terminal
    events = (await terminal.run("jobs", "events", first["id"], "--json")).json
    assert [each["to_status"] for each in events] == ["pending", "queued", "canceled"]
    assert "queued → canceled" in (await terminal.run("jobs", "events", first["id"])).out

    refused = await terminal.run("jobs", "retry", first["id"], "--json")
    assert json.loads(refused.err)["code"] == "invalid_transition"
    await jobs_api.core.fail(await jobs_api.start())
    retried = (await terminal.run("jobs", "retry", second["id"], "--json")).json
    assert (retried["id"], retried["charge_cycle"]) == (second["id"], 2)
    by_task = await terminal.run("jobs", "show", task_id_of(UUID(second["id"])), "--json")
    assert by_task.json["id"] == second["id"]
    assert len((await terminal.run("jobs", "list", "--limit", "1", "--json")).json) == 1


async def test_a_job_is_canceled_by_the_short_command_too(jobs_api: JobsApi, terminal: Terminal) -> None:
    person = await jobs_api.person(tokens=100)
    await terminal.login(person)
    job = await jobs_api.submit(person)
    assert (await terminal.run("cancel", job["id"])).out == f"Job {job['id']} is canceled.\n"
    assert (await terminal.run("jobs", "show", job["id"], "--json")).json["status"] == "canceled"


@pytest.mark.thorough
async def test_a_refusal_of_the_control_plane_is_json_for_programs(jobs_api: JobsApi, terminal: Terminal) -> None:
    person, other = await jobs_api.person(tokens=100), await jobs_api.person(tokens=100)
    await terminal.login(person)
    theirs = (await jobs_api.submit(other))["id"]
    for command in (("show",), ("cancel",), ("retry",), ("events",)):
        refused = await terminal.run("jobs", *command, theirs, "--json")
        problem = json.loads(refused.err)
        assert (refused.code, refused.out, problem["code"]) == (1, "", "not_found"), command
        assert set(problem) == {"code", "detail", "errors"}
    wrong = await terminal.run("jobs", "list", "--run", "no-id", "--json")
    problem = json.loads(wrong.err)
    assert problem["code"] == "invalid_request"
    assert [each["field"] for each in problem["errors"]] == ["query.run_id"]
    unknown = await terminal.run("jobs", "list", "--nothing", "--json")
    assert (unknown.code, json.loads(unknown.err)["code"]) == (2, "wrong_usage")
    assert (await terminal.run("jobs", "show", "x")).sentence == "'x' is not the id of a job or task."


@pytest.mark.thorough
async def test_an_operator_works_on_the_jobs_of_a_tenant(jobs_api: JobsApi, terminal: Terminal) -> None:
    person = await jobs_api.person(tokens=100)
    job = await jobs_api.submit(person)
    tenant = ("--tenant", person.tenant.slug)
    await terminal.login(person)
    assert (await terminal.run("jobs", "list", *tenant)).code == 1
    await terminal.login(jobs_api.admin)
    assert (await terminal.run("jobs", "list", "--json")).json == []
    assert [row["id"] for row in (await terminal.run("jobs", "list", *tenant, "--json")).json] == [job["id"]]
    by_id = await terminal.run("jobs", "list", "--tenant", str(person.tenant.id), "--json")
    assert [row["id"] for row in by_id.json] == [job["id"]]
    assert (await terminal.run("jobs", "show", job["id"])).code == 1
    assert (await terminal.run("jobs", "show", job["id"], "--admin", "--json")).json["user_id"] == str(person.user.id)
    assert (await terminal.run("jobs", "cancel", job["id"], "--admin")).out == f"Job {job['id']} is canceled.\n"
    assert "no tenant 'nobody'" in (await terminal.run("jobs", "list", "--tenant", "nobody")).sentence


async def test_the_queue_shows_waiting_jobs_with_their_reasons(jobs_api: JobsApi, terminal: Terminal) -> None:
    await terminal.login(jobs_api.admin)
    assert (await terminal.run("queue")).out == "The queue is empty.\n"
    await jobs_api.submit(await jobs_api.person(tokens=100))
    [row] = (await terminal.run("queue", "--json")).json
    reason = "No worker that can run this job is online."
    assert (row["workflow"], row["queued"], row["why_waiting"]["message"]) == (jobs_api.workflow, 1, reason)
    shown = (await terminal.run("queue")).out
    assert jobs_api.workflow in shown
    assert reason in shown
    await jobs_api.core.add_workflow("idle")
    everything = (await terminal.run("queue", "--all", "--json")).json
    assert {row["workflow"] for row in everything} == {jobs_api.workflow, "idle"}
    await terminal.login(await jobs_api.person())
    assert json.loads((await terminal.run("queue", "--json")).err)["code"] == "forbidden"


async def test_a_critical_alert_makes_the_command_fail(jobs_api: JobsApi, terminal: Terminal) -> None:
    await terminal.login(jobs_api.admin)
    quiet = await terminal.run("alerts")
    assert (quiet.code, quiet.out) == (0, "No alerts.\n")
    await jobs_api.submit(await jobs_api.person(tokens=100))
    printed = await terminal.run("alerts", "--json")
    assert printed.code == 1
    assert [(each["code"], each["subject"].split()[0]) for each in printed.json] == [
        ("no_live_worker", jobs_api.workflow)
    ]
    assert "→" in (await terminal.run("alerts")).out


async def test_a_user_sees_the_own_keys_and_the_own_balance(jobs_api: JobsApi, terminal: Terminal) -> None:
    person = await jobs_api.person(tokens=1)
    await terminal.login(person)
    [key] = (await terminal.run("keys", "list", "--json")).json
    assert person.key.startswith(key["prefix"])
    assert key["prefix"] in (await terminal.run("keys", "list")).out
    assert (await terminal.run("wallet", "balance")).out == "You have 1 token. Active jobs hold 0 more.\n"
    assert (await terminal.run("wallet", "balance", "--json")).json["balance"] == 1


async def test_the_queue_gives_the_reason_that_the_job_has(jobs_api: JobsApi, terminal: Terminal) -> None:
    await terminal.login(jobs_api.admin)
    job_id = str((await jobs_api.submit(await jobs_api.person(tokens=100)))["id"])
    central = jobs_api.core.databases.central

    async def reason() -> str:
        [row] = (await terminal.run("queue", "--json")).json
        job = (await terminal.run("jobs", "show", job_id, "--admin", "--json")).json
        assert row["why_waiting"] == job["why_waiting"]
        return str(row["why_waiting"]["code"])

    assert await reason() == "no_live_worker"
    await jobs_api.core.rows(central, "UPDATE workflows SET is_active = false WHERE slug = $1", jobs_api.workflow)
    assert await reason() == "workflow_off"


@pytest.mark.thorough
async def test_an_operator_exports_the_history_as_a_trace_that_can_be_replayed(
    jobs_api: JobsApi, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.cli.shared.operations_client.MAX_PAGE", 2)
    person = await jobs_api.person(tokens=1000)
    file = tmp_path / "trace.csv"
    export = ("jobs", "export", str(file))
    for number in range(5):
        await jobs_api.submit(person, priority=-number)
        await jobs_api.core.complete(await jobs_api.start())
    await terminal.login(person)
    assert json.loads((await terminal.run(*export, "--json")).err)["code"] == "forbidden"
    await terminal.login(jobs_api.admin)
    assert "should end in .csv or .jsonl" in (await terminal.run("jobs", "export", "trace.txt")).sentence
    assert "--since is '1y'" in (await terminal.run(*export, "--since", "1y")).sentence
    assert "There is no fleet 'x' in production" in (await terminal.run(*export, "--fleet", "x")).sentence
    assert "No job of the last 30d has run" in (await terminal.run(*export, "--stage", "staging")).sentence
    assert "No job of the last 30d has run" in (await terminal.run(*export, "--workflow", "x")).sentence
    assert not file.exists()
    # One that waits has not run, and one of last year is not asked for.
    await jobs_api.submit(person)
    async with jobs_api.core.databases.central.connection() as connection:
        await connection.execute(
            "UPDATE dispatch_history SET created_at = created_at - interval '1 year'"
            " WHERE dispatch_id = (SELECT min(dispatch_id) FROM dispatch_history)"
        )
    printed = (await terminal.run(*export, "--workflow", jobs_api.workflow)).out
    assert printed == f"Wrote 4 jobs to {file}. To replay them, run: callsheet simulate --trace {file}\n"
    found = list(read_trace(file).rows())
    assert [key for _, _, key in found] == [
        TraceLane(person.tenant.slug, "", -number, jobs_api.workflow) for number in range(1, 5)
    ]
    assert [submitted for submitted, _, _ in found] == sorted(submitted for submitted, _, _ in found)
    replayed = (await terminal.run("simulate", "--trace", str(file), "--json")).json
    assert replayed["arrivals"]["jobs"] == 4


@pytest.mark.thorough
async def test_a_simulation_uses_the_policy_that_a_fleet_has(jobs_api: JobsApi, terminal: Terminal) -> None:
    await terminal.login(jobs_api.admin)
    made = ("--jobs-per-day", "100", "--days", "1", "--json", "--fleet", "gpu")
    assert "There is no fleet 'gpu'" in (await terminal.run("simulate", *made[:-3], *made[-2:])).sentence
    fleet = (await jobs_api.post("/api/admin/fleets", {"slug": "gpu"})).json()
    assert "is not scaled" in (await terminal.run("simulate", *made[:-3], *made[-2:])).sentence
    rules = {"driver": "process", "maximum": 3, "target_seconds": 77.0}
    scaling = f"/api/admin/fleets/{fleet['id']}/scaling"
    response = await jobs_api.client.put(scaling, json=rules, headers=jobs_api.admin.headers)
    assert response.status_code == 200, response.text
    found = (await terminal.run("simulate", *made, "--max", "4")).json["policies"]
    assert [(each["name"], each["policy"]["maximum"], each["policy"]["target_seconds"]) for each in found] == [
        ("gpu, max 4", 4, 77.0)
    ]
    assert (await jobs_api.client.delete(scaling, headers=jobs_api.admin.headers)).status_code == 204
