"""Instances are checked against AWS where that is switched on; where AWS cannot be asked, they are let in (boto3 talks
to moto's server here)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest

from callsheet.fleet.registry.asg import AsgMetrics, AutoscalingGroups
from callsheet.fleet.registry.credentials import OWN
from callsheet.fleet.registry.registry import ALIVE_SECONDS, OWN_PREFIX
from callsheet.fleet.room import FleetRoom
from callsheet.settings import FleetSettings
from callsheet.toolbox.aws import autoscaling_client
from callsheet.toolbox.clock import SystemClock
from callsheet.wire.errors import Forbidden, Unavailable
from tests.support.database.room_statements import statements_of_room
from tests.support.fleets.aws import CREDENTIALS, IMAGE, REGION, aws_server
from tests.support.http.fleet_api import join, registry
from tests.support.jobs.core import Core, Row
from tests.support.run.ports import free_port

pytestmark = pytest.mark.thorough

FLEET = statements_of_room("fleet")

STRANGER = "i-0123456789abcdef0"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (CREDENTIALS | {"NO_PROXY": "*"}).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with aws_server() as url:
        yield url


@pytest.fixture
async def groups(aws: str) -> dict[str, str]:
    """Two groups with one instance each, by the name of the group."""
    return await asyncio.to_thread(_create_groups, aws)


def _create_groups(aws: str) -> dict[str, str]:
    client = autoscaling_client(REGION, aws)
    instances = {}
    for name in ("face-swap", "upscale"):
        if not client.describe_launch_configurations(LaunchConfigurationNames=[name])["LaunchConfigurations"]:
            client.create_launch_configuration(
                LaunchConfigurationName=name, ImageId=IMAGE, InstanceType="g5.xlarge", KeyName="key"
            )
            client.create_auto_scaling_group(
                AutoScalingGroupName=name,
                LaunchConfigurationName=name,
                MinSize=1,
                MaxSize=1,
                AvailabilityZones=[f"{REGION}a"],
            )
        [group] = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        instances[name] = group["Instances"][0]["InstanceId"]
    return instances


def checking(core: Core, endpoint: str, **changes: Any) -> FleetRoom:
    return registry(
        core.databases,
        core.room.leases,
        validate_asg_instance=True,
        asg_region=REGION,
        asg_endpoint_url=endpoint,
        **changes,
    )


async def register(core: Core, room: FleetRoom, worker_id: str) -> None:
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    await join(room, worker_id, row["slug"])


async def events(core: Core, worker_id: str) -> list[Row]:
    query = "SELECT event, details FROM worker_audit_logs WHERE worker_id = $1 ORDER BY id"
    return await core.rows(core.databases.central, query, worker_id)


@pytest.fixture
def unused_url() -> str:
    """A URL where no server listens."""
    return f"http://127.0.0.1:{free_port()}"


async def test_an_instance_of_a_group_registers_and_its_group_is_stored(
    core: Core, aws: str, groups: dict[str, str]
) -> None:
    await register(core, checking(core, aws), groups["face-swap"])
    [line] = await events(core, groups["face-swap"])
    assert line["details"]["autoscaling_group"] == "face-swap"


async def test_an_instance_without_a_group_is_refused_and_leaves_only_a_log_line(core: Core, aws: str) -> None:
    with pytest.raises(Forbidden, match=STRANGER):
        await register(core, checking(core, aws), STRANGER)
    assert [line["event"] for line in await events(core, STRANGER)] == ["register_refused"]
    assert await core.rows(core.databases.central, "SELECT 1 FROM comfyui_workers") == []


async def test_an_instance_must_be_in_one_of_the_configured_groups(
    core: Core, aws: str, groups: dict[str, str]
) -> None:
    room = checking(core, aws, asg_names=("upscale", "other"))
    with pytest.raises(Forbidden):
        await register(core, room, groups["face-swap"])
    await register(core, room, groups["upscale"])


@pytest.mark.parametrize("worker_id", ["laptop", "i-made-up", "I-0123456789ABCDEF0", "i-0123456789abcdef0-gpu"])
async def test_an_id_that_is_not_an_instance_id_is_refused_also_while_aws_is_unavailable(
    core: Core, unused_url: str, worker_id: str
) -> None:
    with pytest.raises(Forbidden, match="not the id of an instance"):
        await register(core, checking(core, unused_url), worker_id)
    assert [line["event"] for line in await events(core, worker_id)] == ["register_refused"]


async def test_the_instance_of_a_task_worker_is_asked_about_without_its_suffix(
    core: Core, aws: str, groups: dict[str, str]
) -> None:
    await register(core, checking(core, aws), f"{groups['face-swap']}-tasks")
    with pytest.raises(Forbidden):
        await register(core, checking(core, aws), f"{STRANGER}-tasks")


async def test_a_worker_inside_a_control_plane_registers_without_a_check_at_aws(core: Core, unused_url: str) -> None:
    own = f"{OWN_PREFIX}host:1"
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    await join(checking(core, unused_url, asg_fail_open=False), own, row["slug"], credential=OWN)


async def test_without_fail_open_no_worker_registers_while_aws_is_unavailable(core: Core, unused_url: str) -> None:
    with pytest.raises(Unavailable) as refused:
        await register(core, checking(core, unused_url, asg_fail_open=False), STRANGER)
    assert refused.value.retry_after_seconds > 0
    assert [line["event"] for line in await events(core, STRANGER)] == ["register_refused"]
    assert await core.rows(core.databases.central, "SELECT 1 FROM comfyui_workers") == []


async def test_an_instance_that_registered_unchecked_is_marked_counted_and_alerted_until_aws_confirms_it(
    core: Core, unused_url: str, aws: str, groups: dict[str, str]
) -> None:
    room, instance = checking(core, unused_url), groups["upscale"]
    await register(core, room, instance)
    assert room.groups.unanswered == 1
    assert (await room.workers.get(instance)).asg_unverified is True
    assert await unverified(core) == 1
    await core.rows(core.databases.central, "UPDATE comfyui_workers SET last_seen_at = last_seen_at - interval '91 s'")
    await register(core, checking(core, aws), instance)
    assert (await room.workers.get(instance)).asg_unverified is False
    assert await unverified(core) == 0


async def test_instances_that_registered_unchecked_are_checked_when_aws_is_available_again(
    core: Core, unused_url: str, aws: str, groups: dict[str, str]
) -> None:
    away, back, instance = checking(core, unused_url), checking(core, aws), groups["upscale"]
    for worker_id in (instance, STRANGER):
        await register(core, away, worker_id)
    now = SystemClock().now()
    await away.instances.tick(now)
    assert await unverified(core) == 2
    await back.instances.tick(now)
    assert await unverified(core) == 0
    known, stranger = [await back.workers.get(worker_id) for worker_id in (instance, STRANGER)]
    assert (known.asg_unverified, known.revoked_at) == (False, None)
    assert stranger.revoked_at is not None
    assert [line["event"] for line in await events(core, instance)][-1] == "asg_validated"
    assert away.groups.unanswered == 2, "only registrations count"


async def test_an_instance_that_registered_unchecked_causes_no_alert_after_the_check_was_switched_off(
    core: Core, unused_url: str
) -> None:
    await register(core, checking(core, unused_url), STRANGER)
    room = registry(core.databases, core.room.leases)
    await room.instances.tick(SystemClock().now())
    assert await unverified(core) == 0
    assert (await room.workers.get(STRANGER)).revoked_at is None


async def unverified(core: Core) -> int:
    async with core.databases.central.connection() as connection:
        row = await FLEET["count_workers"].row(connection, alive_seconds=ALIVE_SECONDS)
    assert row is not None
    return int(row["unverified"])


async def test_the_counter_of_failed_checks_starts_at_zero() -> None:
    groups = AutoscalingGroups(FleetSettings())
    [family] = AsgMetrics(groups).collect()
    assert [(sample.name, sample.value) for sample in family.samples] == [("callsheet_asg_unanswered_total", 0)]


async def test_a_disabled_check_makes_no_call_to_aws(core: Core, unused_url: str) -> None:
    room = registry(core.databases, core.room.leases, asg_region=REGION, asg_endpoint_url=unused_url)
    await register(core, room, STRANGER)
    assert [line["event"] for line in await events(core, STRANGER)] == ["registered"]


async def test_if_aws_is_unreachable_the_worker_registers_with_a_warning_and_a_line_in_its_log(
    core: Core, unused_url: str, logged: io.StringIO
) -> None:
    await register(core, checking(core, unused_url), STRANGER)
    lines = await events(core, STRANGER)
    assert [line["event"] for line in lines] == ["registered", "asg_not_validated"]
    assert unused_url in lines[1]["details"]["reason"]
    assert '"event": "asg.unreachable"' in logged.getvalue()


async def test_if_aws_does_not_respond_the_worker_registers(core: Core) -> None:
    released = asyncio.Event()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        room = checking(core, f"http://{host}:{port}", asg_timeout_seconds=0.2)
        await register(core, room, STRANGER)
        released.set()
    assert [line["event"] for line in await events(core, STRANGER)] == ["registered", "asg_not_validated"]


@pytest.mark.parametrize(
    ("code", "membership"), [("ValidationError", "stranger"), ("AccessDenied", "unknown"), ("Throttling", "unknown")]
)
async def test_an_id_that_aws_calls_malformed_is_refused_and_any_other_error_is_an_outage(
    code: str, membership: str
) -> None:
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>".encode()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        settings = FleetSettings(
            validate_asg_instance=True, asg_region=REGION, asg_endpoint_url=f"http://{host}:{port}"
        )
        assert (await AutoscalingGroups(settings).verdict(STRANGER)).membership == membership
