"""Machines of EC2 that are taken away: what the metadata service and the autoscaling group say is heard in time.

The agent is `callsheet worker` in a process of its own; the group is moto's, asked by boto3.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.fleets.aws import CREDENTIALS, IMAGE, REGION, aws_server
from tests.support.http.metadata_service import MetadataService, metadata_service
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.worker.harness import AgentHarness
from tests.worker.processes import worker_process
from tests.worker.test_interruptions import processing, wait_for_requeue

NOTICE = "spot/instance-action"
REBALANCE = "events/recommendations/rebalance"
LIFECYCLE = "autoscaling/target-lifecycle-state"


@pytest.fixture
async def metadata() -> AsyncIterator[MetadataService]:
    async with metadata_service() as service:
        yield service


def on(metadata: MetadataService, **more: str) -> dict[str, str]:
    return {
        "CALLSHEET_WORKER__METADATA_URL": metadata.url,
        "CALLSHEET_WORKER__METADATA_SECONDS": "0.05",
        "CALLSHEET_WORKER__PREFETCH": "false",
        **more,
    }


def notice(seconds: float) -> str:
    return json.dumps(
        {"action": "terminate", "time": f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"}
    )


@pytest.mark.thorough
async def test_a_spot_machine_requeues_its_job_before_it_is_interrupted(
    agent_harness: AgentHarness, tmp_path: Path, metadata: MetadataService
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    await agent_harness.submit(person)
    with worker_process(agent_harness, tmp_path, "gpu-1", **on(metadata)) as process:
        await processing(agent_harness)
        [worker] = await agent_harness.workers()
        assert (worker["instance_type"], worker["capacity_type"]) == ("g5.xlarge", "spot")
        # A token that ran out is renewed.
        metadata.tokens = {"another"}
        # Advice leaves all the time a job takes; the notice after it does not.
        metadata.metadata[REBALANCE] = '{"noticeTime": "2026-02-15T12:00:00Z"}'
        requests = metadata.requests
        await until(lambda: metadata.requests > requests + 10)
        assert process.poll() is None
        metadata.metadata[NOTICE] = notice(15)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    await wait_for_requeue(agent_harness)
    assert await agent_harness.workers() == []
    assert agent_harness.engine.running is None


@pytest.mark.thorough
@pytest.mark.parametrize("name", [REBALANCE, pytest.param(NOTICE, marks=pytest.mark.thorough)])
async def test_a_job_is_finished_before_a_spot_interruption_if_possible_and_no_other_is_taken(
    agent_harness: AgentHarness, tmp_path: Path, metadata: MetadataService, name: str
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(2)]
    with worker_process(agent_harness, tmp_path, "gpu-1", **on(metadata)) as process:
        await processing(agent_harness)
        metadata.metadata[name] = notice(120) if name == NOTICE else '{"noticeTime": "2026-02-15T12:00:00Z"}'
        requests = metadata.requests
        await until(lambda: metadata.requests > requests + 10)
        agent_harness.engine.release.set()
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    statuses = [(await agent_harness.worker_harness.shown(person, job_id))["status"] for job_id in jobs]
    assert statuses == ["completed", "queued"]
    assert await agent_harness.workers() == []


class Group:
    """An autoscaling group of one machine."""

    def __init__(self, url: str):
        given: dict[str, Any] = {
            "region_name": REGION,
            "endpoint_url": url,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
        }
        self._client = boto3.client("autoscaling", **given)
        self._client.create_launch_configuration(
            LaunchConfigurationName="gpus", ImageId=IMAGE, InstanceType="g5.xlarge", KeyName="key"
        )
        self._client.create_auto_scaling_group(
            AutoScalingGroupName="gpus",
            LaunchConfigurationName="gpus",
            MinSize=0,
            MaxSize=1,
            DesiredCapacity=1,
            AvailabilityZones=[f"{REGION}a"],
        )
        [self.instance_id] = [each["InstanceId"] for each in self.instances()]

    def instances(self) -> list[dict[str, Any]]:
        [group] = self._client.describe_auto_scaling_groups(AutoScalingGroupNames=["gpus"])["AutoScalingGroups"]
        found: list[dict[str, Any]] = group["Instances"]
        return found

    def is_protected(self) -> bool:
        return any(each["ProtectedFromScaleIn"] for each in self.instances())

    def scale_in(self) -> None:
        self._client.set_desired_capacity(AutoScalingGroupName="gpus", DesiredCapacity=0)


@pytest.fixture
def own_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "*")
    with aws_server() as url:
        yield url


@pytest.mark.thorough
async def test_an_autoscaling_group_ends_the_machine_between_its_jobs_and_never_under_one(
    agent_harness: AgentHarness, tmp_path: Path, metadata: MetadataService, own_aws: str
) -> None:
    group = await asyncio.to_thread(Group, own_aws)
    metadata.metadata["instance-id"] = group.instance_id
    variables = on(
        metadata,
        ASG_NAME="gpus",
        CALLSHEET_WORKER__ASG_REGION=REGION,
        CALLSHEET_WORKER__ASG_ENDPOINT_URL=own_aws,
        NO_PROXY="*",
        **CREDENTIALS,
    )
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    with worker_process(agent_harness, tmp_path, "gpu-1", **variables) as process:
        await until(lambda: asyncio.to_thread(group.is_protected))
        await asyncio.to_thread(group.scale_in)
        assert [each["InstanceId"] for each in await asyncio.to_thread(group.instances)] == [group.instance_id]
        agent_harness.engine.release.set()
        await agent_harness.ends(person, job_id)

        async def is_free() -> bool:
            return not await asyncio.to_thread(group.is_protected)

        await until(is_free)
        await asyncio.to_thread(group.scale_in)
        assert await asyncio.to_thread(group.instances) == []
        # What EC2 then says on the machine itself.
        metadata.metadata[LIFECYCLE] = "Terminated"
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    assert await agent_harness.workers() == []
