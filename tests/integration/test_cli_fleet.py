"""`callsheet fleets` and `callsheet workers`, on an installation whose control plane is not running."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from callsheet.fleet.protocol.authentication import hash_token
from callsheet.fleet.registry.credentials import TokenCredential, fleet_secret
from callsheet.fleet.room import FleetRoom, open_fleet
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import FleetSettings, Settings
from callsheet.wire.errors import NotAuthenticated
from callsheet.wire.worker.protocol import PollRequest, ReportedDisk
from tests.support.database.installation import empty
from tests.support.http.fleet_api import bearer, join
from tests.support.jobs.core import Core, open_core
from tests.support.programs.commands import Callsheet

pytestmark = pytest.mark.usefixtures("installed_with_one_pool")


@pytest.fixture(scope="module")
async def opened(installed_with_one_pool: Settings) -> AsyncIterator[Databases]:
    databases = await open_databases(installed_with_one_pool)
    yield databases
    await databases.close()


@pytest.fixture
async def core(opened: Databases) -> Core:
    await empty(opened)
    return await open_core(opened).prepare()


@pytest.fixture
def room(installed: Settings, opened: Databases, core: Core) -> FleetRoom:
    return open_fleet(opened, installed.fleet, master_secret(installed), core.room.leases)


async def slug_of(core: Core) -> str:
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    return str(row["slug"])


async def test_a_fleet_is_created_assigned_and_listed(callsheet: Callsheet, core: Core) -> None:
    slug = await slug_of(core)
    created = callsheet.succeed("fleets", "create", "gpu", "--stage", "staging", "--name", "GPUs", slug, "--json").json
    assert (created["slug"], created["stage"], created["name"], created["workflows"]) == (
        "gpu",
        "staging",
        "GPUs",
        [slug],
    )
    emptied = callsheet.call("fleets", "unassign", "gpu", slug, "--stage", "staging")
    assert emptied.out == "Fleet gpu in staging serves nothing yet.\n"
    assigned = callsheet.call("fleets", "assign", "gpu", slug, "--stage", "staging", "--json").json
    assert assigned["workflows"] == [slug]
    assert callsheet.call("fleets", "list", "--json").json == [assigned]
    assert slug in callsheet.call("fleets", "list").out
    lines = await core.rows(core.databases.central, "SELECT action, actor FROM audit_logs ORDER BY id")
    assert [(line["action"], line["actor"]) for line in lines] == [
        ("fleet.create", "operator"),
        ("fleet.change_workflows", "operator"),
        ("fleet.change_workflows", "operator"),
    ]
    assert "already" in callsheet.call("fleets", "create", "gpu", "--stage", "staging").sentence
    assert "no workflow nothing" in callsheet.call("fleets", "assign", "gpu", "nothing", "--stage", "staging").sentence
    assert "no fleet 'gpu' in stage 'production'" in callsheet.call("fleets", "assign", "gpu", slug).sentence
    assert "slug is 'A B'" in callsheet.call("fleets", "create", "A B").sentence


@pytest.mark.thorough
async def test_assign_adds_unassign_removes_and_set_replaces_after_a_confirmation(
    callsheet: Callsheet, core: Core
) -> None:
    for slug in ("one", "two", "three"):
        await core.add_workflow(slug)
    callsheet.succeed("fleets", "create", "gpu", "one", "two")
    assert callsheet.succeed("fleets", "assign", "gpu", "three").out == (
        "Fleet gpu in production serves one, three, two.\n"
    )
    assert callsheet.succeed("fleets", "assign", "gpu", "three", "--json").json["workflows"] == ["one", "three", "two"]
    assert callsheet.succeed("fleets", "unassign", "gpu", "two").out == "Fleet gpu in production serves one, three.\n"
    refused = callsheet.refuse("fleets", "unassign", "gpu", "one", "two")
    assert "The fleet does not serve two. Fleet gpu in production serves one, three." in refused
    for command, verb in (("assign", "add"), ("unassign", "remove")):
        assert f"Name the workflows to {verb}" in callsheet.refuse("fleets", command, "gpu")

    unconfirmed = callsheet.call("fleets", "set", "gpu", "two")
    assert (unconfirmed.code, unconfirmed.err.splitlines()) == (
        1,
        [
            "Fleet gpu in production will no longer serve one, three.",
            "callsheet: Nothing was changed. Add --yes to replace the workflows.",
        ],
    )
    [fleet] = callsheet.succeed("fleets", "list", "--json").json
    assert fleet["workflows"] == ["one", "three"]
    # A replacement that removes nothing needs no confirmation.
    assert callsheet.succeed("fleets", "set", "gpu", "one", "two", "three", "--json").json["workflows"] == [
        "one",
        "three",
        "two",
    ]
    assert callsheet.succeed("fleets", "set", "gpu", "two", "--yes").out == "Fleet gpu in production serves two.\n"
    assert callsheet.succeed("fleets", "set", "gpu", "--yes").out == "Fleet gpu in production serves nothing yet.\n"


def test_the_secret_of_the_fleet_is_printed(callsheet: Callsheet, installed: Settings) -> None:
    derived = fleet_secret(FleetSettings(), master_secret(installed))
    printed = callsheet.succeed("fleets", "secret")
    assert printed.out == f"{derived}\n"
    assert "from this machine only" in printed.err
    public = callsheet.having(SERVER__PUBLIC_URL="https://callsheet.example.com")
    assert "callsheet fleets tokens create" in public.refuse("fleets", "secret")
    assert callsheet.having(FLEET__SECRET="a-secret-of-my-own").call("fleets", "secret").out == "a-secret-of-my-own\n"
    assert "16 characters" in callsheet.having(FLEET__SECRET="short").call("fleets", "secret").err


async def test_a_worker_is_shown_with_its_disk_and_what_it_reports(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    worker = await join(room, "gpu-1", await slug_of(core), capabilities={"gpu": "L4", "engines": {"self_hosted": "1"}})
    facts = PollRequest(disk=ReportedDisk(free_bytes=2**30, size_bytes=2**32), capabilities={"gpu": "L40"})
    room.poll_reports.record(await room.authentication.of(bearer(worker.token)), facts)
    await room.poll_reports.tick(datetime.now(UTC))
    shown = callsheet.succeed("workers", "show", "gpu-1").out
    facts_of = {
        line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1].strip()
        for line in shown.splitlines()
        if len(line.split()) > 1
    }
    assert facts_of["gpu"] == "L40"
    assert facts_of["disk"].startswith("1.0 GiB of 4.0 GiB free (")
    assert facts_of["engines"] == '{"self_hosted": "1"}'
    as_json = callsheet.succeed("workers", "show", "gpu-1", "--json").json
    assert (as_json["disk"]["free_bytes"], as_json["capabilities"]["gpu"]) == (2**30, "L40")
    assert "There is no worker 'gpu-2'." in callsheet.refuse("workers", "show", "gpu-2")


async def test_workers_are_listed_drained_rotated_revoked_and_approved(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    registered = await join(room, "gpu-1", await slug_of(core), max_concurrency=2)
    member = await core.member("pool_1")
    await core.submit(member)
    await core.start("gpu-1")
    [shown] = callsheet.call("workers", "list", "--json").json
    assert (shown["worker_id"], shown["current_load"]) == ("gpu-1", 1)
    assert "1/2" in callsheet.call("workers", "list", "--live").out
    assert callsheet.call("workers", "list", "--silent", "--json").json == []
    assert callsheet.call("workers", "list", "--fleet", "none", "--json").json == []
    assert callsheet.call("workers", "drain", "gpu-1").out == "Worker gpu-1: live, draining.\n"
    assert callsheet.call("workers", "drain", "gpu-1", "--undo").out == "Worker gpu-1: live.\n"
    assert "has ever registered" in callsheet.refuse("workers", "drain", "nobody")
    assert "new token" in callsheet.call("workers", "rotate", "gpu-1").out
    assert (await room.authentication.of(bearer(registered.token))).rotated_token is not None
    # In a process of its own: nothing but the sentence may be on standard output.
    assert callsheet.succeed("workers", "revoke", "gpu-1").out == "Worker gpu-1: revoked.\n"
    with pytest.raises(NotAuthenticated):
        await room.authentication.of(bearer(registered.token))
    [row] = await core.rows(core.databases.central, "SELECT status, attempts FROM ai_job_dispatches")
    assert (row["status"], row["attempts"]) == ("queued", 1)
    assert callsheet.call("workers", "approve", "gpu-1").out == "Worker gpu-1: live.\n"
    assert "no worker 'nobody'" in callsheet.refuse("workers", "revoke", "nobody")


@pytest.mark.thorough
async def test_a_drained_worker_that_deregistered_is_listed_and_undrained(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    registered = await join(room, "gpu-1", await slug_of(core))
    callsheet.call("workers", "drain", "gpu-1", "--reason", "new disk")
    await room.registry.deregister(await room.authentication.of(bearer(registered.token)), None)
    assert "away, draining" in callsheet.call("workers", "list").out
    [shown] = callsheet.call("workers", "list", "--json").json
    assert (shown["drained_by"], shown["drain_reason"]) == ("operator", "new disk")
    assert callsheet.call("workers", "drain", "gpu-1", "--undo").out == "Worker gpu-1: away.\n"
    assert callsheet.call("workers", "list", "--json").json == []


@pytest.mark.thorough
async def test_a_fleet_is_deleted_and_one_with_workers_only_by_force(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    slug = await slug_of(core)
    callsheet.call("fleets", "create", "old", slug)
    callsheet.call("fleets", "create", "old", slug, "--stage", "staging")
    registered = await join(room, "gpu-old", fleet_slug="old")
    await core.submit(await core.member("pool_1"))
    await core.start("gpu-old")
    assert "The fleet has workers" in callsheet.refuse("fleets", "delete", "old")
    assert (await room.authentication.of(bearer(registered.token))).worker_id == "gpu-old"
    deleted = callsheet.succeed("fleets", "delete", "old", "--force")
    assert deleted.out == "Fleet old in production is deleted. Revoked workers: 1.\n"
    with pytest.raises(NotAuthenticated):
        await room.authentication.of(bearer(registered.token))
    query = "SELECT status FROM ai_job_dispatches WHERE workflow_id = $1"
    [row] = await core.rows(core.databases.central, query, core.workflow)
    assert row["status"] == "queued"
    left = [fleet for fleet in callsheet.call("fleets", "list", "--json").json if fleet["slug"] == "old"]
    assert [fleet["stage"] for fleet in left] == ["staging"]
    assert callsheet.call("fleets", "delete", "old", "--stage", "staging").out == "Fleet old in staging is deleted.\n"
    assert "no fleet 'old'" in callsheet.refuse("fleets", "delete", "old")


@pytest.mark.thorough
async def test_the_list_of_workers_is_shown_again_until_it_is_interrupted(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    def is_drained(line: str) -> bool:
        return bool({each["worker_id"]: each for each in json.loads(line)}["gpu-watched"]["is_draining"])

    await join(room, "gpu-watched", await slug_of(core))
    with callsheet.running("workers", "list", "--watch", "--json") as watching:
        assert not is_drained(watching.next_line())
        await room.workers.drain("gpu-watched", "operator")
        while not is_drained(watching.next_line()):
            pass
        ended = watching.end(signal.SIGINT)
    assert ended.code == 130
    assert "Traceback" not in ended.err


@pytest.mark.thorough
async def test_registration_tokens_are_created_listed_rotated_and_revoked(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    callsheet.call("fleets", "create", "gpu", await slug_of(core), "--stage", "staging")
    created = callsheet.succeed("fleets", "tokens", "create", "gpu", "--stage", "staging", "--name", "image 7")
    token = created.out.strip()
    assert token.startswith("csf_")
    assert "FLEET_SECRET" in created.err
    await join(room, "gpu-1", credential=TokenCredential(hash_token(token)))
    [listed] = callsheet.call("fleets", "tokens", "list", "--json").json
    shown = (listed["fleet_slug"], listed["stage"], listed["name"], listed["workers"], listed["last_used_by"])
    assert shown == ("gpu", "staging", "image 7", 1, "gpu-1")
    assert token not in json.dumps(listed)
    table = callsheet.succeed("fleets", "tokens", "list", "gpu", "--stage", "staging").out
    assert f"{token[:12]}…" in table
    assert "accepted" in table
    second = callsheet.succeed("fleets", "tokens", "rotate", token[:12], "--overlap-hours", "1").out.strip()
    assert second != token
    assert "replaced, until" in callsheet.succeed("fleets", "tokens", "list").out
    assert "was already rotated" in callsheet.refuse("fleets", "tokens", "rotate", str(listed["id"]))
    await join(room, "gpu-2", credential=TokenCredential(hash_token(second)))
    revoked = callsheet.succeed("fleets", "tokens", "revoke", second[:12]).out
    assert "is revoked." in revoked
    assert "keep running: 1" in revoked
    assert "no registration token 'csf_no'" in callsheet.refuse("fleets", "tokens", "revoke", "csf_no")


@pytest.mark.thorough
async def test_a_worker_is_revoked_with_the_token_it_came_with(
    callsheet: Callsheet, core: Core, room: FleetRoom
) -> None:
    callsheet.call("fleets", "create", "gpu", await slug_of(core))
    token = TokenCredential(hash_token(callsheet.succeed("fleets", "tokens", "create", "gpu").out.strip()))
    await join(room, "gpu-1", credential=token)
    assert callsheet.succeed("workers", "revoke", "gpu-1", "--with-token").out == "Worker gpu-1: revoked.\n"
    with pytest.raises(NotAuthenticated):
        await join(room, "gpu-2", credential=token)
    await join(room, "old", await slug_of(core))
    assert "CALLSHEET_FLEET__SECRET" in callsheet.refuse("workers", "revoke", "old", "--with-token")
    assert (await room.workers.get("old")).revoked_at is None


@pytest.mark.thorough
async def test_a_fleet_for_tasks_serves_every_actor_of_its_queues(callsheet: Callsheet, core: Core) -> None:
    for slug in ("actor:copy", "actor:copy:night", "actor:scrape"):
        await core.add_workflow(slug)
    created = callsheet.succeed("fleets", "create", "tasks", "actor:copy", "--tasks", "default", "--json").json
    assert created["workflows"] == ["actor:copy", "actor:scrape"]
    both = callsheet.succeed("fleets", "assign", "tasks", "--tasks", "default", "--tasks", "night", "--json").json
    assert both["workflows"] == ["actor:copy", "actor:copy:night", "actor:scrape"]
    assert "tasks.queues" in callsheet.refuse("fleets", "create", "more", "--tasks", "nowhere")


@pytest.mark.thorough
async def test_a_fleet_is_scaled_shown_and_switched_off(callsheet: Callsheet, core: Core) -> None:
    slug = await slug_of(core)
    callsheet.call("fleets", "create", "follows", slug)
    assert "Choose a driver" in callsheet.refuse("fleets", "scale", "follows")
    here = callsheet.having(SCALING__COMMANDS='{"rent": ["/bin/true"]}')
    assert "There is no driver" in here.refuse("fleets", "scale", "follows", "--driver", "none")
    assert "Available" in here.refuse("fleets", "scale", "follows", "--driver", "none")
    assert "minimum" in here.refuse(
        "fleets", "scale", "follows", "--driver", "command", "--option", "command=rent", "--min", "2"
    )
    made = here.call(
        "fleets", "scale", "follows", "--driver", "command", "--option", "command=rent", "--max", "3", "--json"
    ).json
    assert (made["driver"], made["options"], made["minimum"], made["maximum"]) == ("command", {"command": "rent"}, 0, 3)
    changed = here.call("fleets", "scale", "follows", "--min", "1", "--target", "60", "--json").json
    assert (changed["minimum"], changed["maximum"], changed["target_seconds"]) == (1, 3, 60.0)
    assert changed["options"] == {"command": "rent"}
    shown = here.call("fleets", "scale", "follows").out
    assert "has not checked it yet" in shown
    listed = here.call("fleets", "list").out
    assert "why" in listed
    assert here.call("fleets", "decisions", "follows", "--json").json == []
    again = here.call("fleets", "scale", "follows", "--retry", "--json").json
    assert (again["minimum"], again["options"]) == (changed["minimum"], changed["options"])
    assert again["updated_at"] > changed["updated_at"], "saved rules make the autoscaler start workers again"
    assert "Leave the other options out" in here.refuse("fleets", "scale", "follows", "--off", "--retry")
    assert "Leave the other options out" in here.refuse("fleets", "scale", "follows", "--off", "--max", "2")
    assert "no longer scaled" in here.call("fleets", "scale", "follows", "--off").out
    assert "not scaled" in here.refuse("fleets", "scale", "follows", "--off")


@pytest.mark.thorough
async def test_options_of_a_driver_stay_until_they_are_removed_or_the_driver_changes(
    callsheet: Callsheet, core: Core
) -> None:
    callsheet.call("fleets", "create", "grouped", await slug_of(core))

    def options(*arguments: str) -> dict[str, object]:
        found = callsheet.call("fleets", "scale", "grouped", *arguments, "--json").json["options"]
        return {name: value for name, value in found.items() if value not in (None, False)}

    assert options("--driver", "aws_asg", "--option", "group=one", "--option", "region=eu-west-1") == {
        "group": "one",
        "region": "eu-west-1",
    }
    assert options("--option", "group=two") == {"group": "two", "region": "eu-west-1"}
    assert options("--option", "region=null") == {"group": "two"}
    typo = callsheet.refuse("fleets", "scale", "grouped", "--option", "group=null", "--option", "gruop=one")
    assert "options.gruop: There is no such option. Available: group, " in typo
    assert "group" not in options("--driver", "process", "--option", "lightbox=true")
    wrong = callsheet.refuse("fleets", "scale", "grouped", "--option", "engine_urls=http://gpu")
    assert "options.engine_urls: should be a list, written as JSON" in wrong
