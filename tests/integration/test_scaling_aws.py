"""A fleet that is an Auto Scaling group: never above the maximum, and only the instance that is named goes (boto3 talks
to moto's server)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from callsheet.scaling.driver import DriverError, ScaledFleet
from callsheet.scaling.drivers.aws_asg import AwsAsg
from callsheet.scaling.policy import Policy
from callsheet.settings import FleetSettings
from callsheet.toolbox.aws import autoscaling_client
from callsheet.worker.agent.ec2 import Protection
from tests.support.fleets.aws import CREDENTIALS, IMAGE, REGION, aws_server, empty_response, late_responses, refusal
from tests.support.run.ports import free_port

pytestmark = pytest.mark.thorough

NAMES = itertools.count(1)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (CREDENTIALS | {"NO_PROXY": "*"}).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with aws_server() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        boto3.client("ec2", region_name=REGION, endpoint_url=url).create_launch_template(
            LaunchTemplateName="gpu", LaunchTemplateData={"ImageId": IMAGE, "InstanceType": "g5.xlarge"}
        )
        yield url


@pytest.fixture
def client(aws: str) -> Any:
    return autoscaling_client(REGION, aws)


def create_group(client: Any, *, maximum: int = 5, mixed: bool = False) -> str:
    name = f"group-{next(NAMES)}"
    template = {"LaunchTemplateName": "gpu", "Version": "$Latest"}
    launched: dict[str, Any] = {"LaunchTemplate": template}
    if mixed:
        launched = {"MixedInstancesPolicy": {"LaunchTemplate": {"LaunchTemplateSpecification": template}}}
    client.create_auto_scaling_group(
        AutoScalingGroupName=name, MinSize=0, MaxSize=maximum, AvailabilityZones=[f"{REGION}a"], **launched
    )
    return name


def described(client: Any, name: str) -> Any:
    [group] = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    return group


def state(client: Any, name: str) -> tuple[int, list[str]]:
    """The desired capacity, and the instances."""
    group = described(client, name)
    return group["DesiredCapacity"], sorted(each["InstanceId"] for each in group["Instances"])


def driver(url: str, *, seconds: float = 30.0) -> AwsAsg:
    settings = FleetSettings(asg_region=REGION, asg_endpoint_url=url, asg_timeout_seconds=seconds)
    return AwsAsg(settings, hook_seconds=0)


def fleet(group: str, *, maximum: int = 5, policy: dict[str, Any] | None = None, **options: Any) -> ScaledFleet:
    rules = Policy(maximum=maximum, **(policy or {}))
    return ScaledFleet(1, "face-swap", "production", rules, "aws_asg", {"group": group, **options})


async def test_a_group_grows_to_the_wanted_number_and_never_above_either_maximum(aws: str, client: Any) -> None:
    group, asg = create_group(client, maximum=4), driver(aws)
    await asg.want(fleet(group), 2, 0)
    desired, instances = state(client, group)
    assert (desired, len(instances)) == (2, 2)
    actual = await asg.actual(fleet(group))
    assert (actual.count, actual.worker_ids) == (2, frozenset(instances))
    await asg.want(fleet(group, maximum=3), 9, 0)
    assert state(client, group)[0] == 3
    with pytest.raises(DriverError, match="MaxSize of 4, and 5 workers are wanted"):
        await asg.want(fleet(group), 5, 0)
    assert state(client, group)[0] == 4


async def test_a_lower_wanted_number_ends_no_instance(aws: str, client: Any) -> None:
    group, asg = create_group(client), driver(aws)
    await asg.want(fleet(group), 3, 0)
    before = state(client, group)
    await asg.want(fleet(group), 1, 0)
    assert state(client, group) == before


async def test_only_the_drained_instance_is_ended_and_it_is_not_replaced(aws: str, client: Any) -> None:
    group, asg = create_group(client), driver(aws)
    await asg.want(fleet(group), 3, 0)
    _, [first, drained, last] = state(client, group)
    await asg.end(fleet(group), [drained])
    assert state(client, group) == (2, [first, last])
    await asg.end(fleet(group), [drained])
    assert state(client, group) == (2, [first, last]), "a repeated call ends nothing more"


async def test_an_instance_of_another_group_is_never_ended(aws: str, client: Any) -> None:
    group, other, asg = create_group(client), create_group(client), driver(aws)
    for each in (group, other):
        await asg.want(fleet(each), 1, 0)
    before = state(client, other)
    await asg.end(fleet(group), before[1])
    assert state(client, other) == before


async def test_a_busy_instance_is_protected_by_its_agent_until_it_is_idle(
    aws: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.worker.agent.ec2.IDLE_SECONDS", 0.0)
    group, asg = create_group(client), driver(aws)
    await asg.want(fleet(group), 2, 0)
    _, [busy, idle] = state(client, group)
    protection = Protection(group, REGION, aws)
    keeping = asyncio.create_task(protection.keep(busy))

    async def protected(wanted: dict[str, bool]) -> None:
        while wanted != {
            each["InstanceId"]: each["ProtectedFromScaleIn"]
            for each in (await asyncio.to_thread(described, client, group))["Instances"]
        }:
            await asyncio.sleep(0.02)

    try:
        protection.want(True)
        await protected({busy: True, idle: False})
        # Even an operator who lowers the group by hand does not end the busy instance.
        await asyncio.to_thread(client.set_desired_capacity, AutoScalingGroupName=group, DesiredCapacity=1)
        assert state(client, group) == (1, [busy])
        protection.want(False)
        await protected({busy: False})
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    await asg.end(fleet(group), [busy])
    assert state(client, group) == (0, [])


async def test_a_spot_interruption_during_a_scale_in_leaves_the_others_alone(aws: str, client: Any) -> None:
    group, asg = create_group(client), driver(aws)
    await asg.want(fleet(group), 3, 0)
    _, [first, drained, last] = state(client, group)
    # AWS removes the drained instance before Callsheet ends it, and replaces it, because the group was not lowered yet.
    client.detach_instances(AutoScalingGroupName=group, InstanceIds=[drained], ShouldDecrementDesiredCapacity=False)
    desired, instances = state(client, group)
    [replacement] = set(instances) - {first, last}
    assert desired == 3
    await asg.end(fleet(group), [drained])
    await asg.want(fleet(group), 2, 0)
    assert state(client, group) == (3, instances), "none of those that live goes: one of them may hold a job"
    assert replacement in (await asg.actual(fleet(group))).worker_ids
    await asg.end(fleet(group), [replacement])
    assert state(client, group) == (2, sorted([first, last]))


async def test_an_order_whose_response_was_lost_is_repeated_without_exceeding_the_maximum(
    aws: str, client: Any
) -> None:
    group = create_group(client)
    three = fleet(group, maximum=3)
    async with late_responses(aws) as late:
        late.withheld.add("SetDesiredCapacity")
        while not late.of("SetDesiredCapacity"):
            with pytest.raises(DriverError, match="may have acted"):
                await driver(late.url, seconds=1).want(three, 3, 0)
        await driver(late.url).want(three, 3, 0)
        assert len(late.of("SetDesiredCapacity")) == 1, "the second look saw that the first call had acted"
    desired, instances = state(client, group)
    assert (desired, len(instances)) == (3, 3)


async def test_an_end_whose_response_was_lost_is_repeated_without_ending_another_instance(
    aws: str, client: Any
) -> None:
    group = create_group(client)
    await driver(aws).want(fleet(group), 2, 0)
    _, [stays, drained] = state(client, group)
    async with late_responses(aws) as late:
        late.withheld.add("TerminateInstanceInAutoScalingGroup")
        while not late.of("TerminateInstanceInAutoScalingGroup"):
            with pytest.raises(DriverError, match="may have acted"):
                await driver(late.url, seconds=1).end(fleet(group), [drained])
        await driver(late.url).end(fleet(group), [drained])
    assert state(client, group) == (1, [stays])


async def test_on_demand_workers_have_a_group_of_their_own(aws: str, client: Any) -> None:
    spot, paid, asg = create_group(client), create_group(client), driver(aws)
    both = fleet(spot, on_demand_group=paid)
    await asg.want(both, 3, 1)
    assert (state(client, spot)[0], state(client, paid)[0]) == (2, 1)
    instances = [*state(client, spot)[1], *state(client, paid)[1]]
    assert (await asg.actual(both)).worker_ids == frozenset(instances)
    await asg.end(both, instances[-1:])
    assert (state(client, spot)[0], state(client, paid)[0]) == (2, 0)
    # Three spot workers live, so the on-demand one must wait for one of them to go.
    await asg.want(both, 3, 0)
    await asg.want(both, 3, 1)
    assert (state(client, spot)[0], state(client, paid)[0]) == (3, 0)


async def test_the_mixed_instances_policy_is_written_once(aws: str, client: Any) -> None:
    group, plain = create_group(client, mixed=True), create_group(client)
    shares = {"on_demand_minimum": 1, "spot_share": 0.75}
    async with late_responses(aws) as late:
        # The test responds here: moto cannot change the shares alone, which is all that the IAM policy in the docs
        # allows.
        late.responses["UpdateAutoScalingGroup"] = empty_response("UpdateAutoScalingGroup")
        asg = driver(late.url)
        await asg.want(fleet(group, policy=shares, sets_distribution=True), 2, 1)
        [update] = late.of("UpdateAutoScalingGroup")
        prefix = "MixedInstancesPolicy.InstancesDistribution.OnDemand"
        assert {name: value for name, value in update.items() if "Mixed" in name} == {
            f"{prefix}BaseCapacity": "1",
            f"{prefix}PercentageAboveBaseCapacity": "25",
        }
        # What AWS has by default, so there is nothing to write.
        await asg.want(fleet(group, policy={"spot_share": 0.0}, sets_distribution=True), 2, 2)
        assert len(late.of("UpdateAutoScalingGroup")) == 1
        with pytest.raises(DriverError, match="has no mixed instances policy"):
            await asg.want(fleet(plain, sets_distribution=True), 1, 0)


async def test_the_lifecycle_hook_of_an_ended_instance_is_completed(aws: str, client: Any) -> None:
    group, ended = create_group(client), "i-0123456789abcdef0"
    instance = "<member><InstanceId>{}</InstanceId><LifecycleState>{}</LifecycleState></member>"
    instances = instance.format(ended, "Terminating:Wait") + instance.format("i-0aaaaaaaaaaaaaaaa", "Terminating:Wait")
    described = (
        f"<member><AutoScalingGroupName>{group}</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>5</MaxSize>"
        f"<DesiredCapacity>0</DesiredCapacity><Instances>{instances}</Instances></member>"
    )
    action = "DescribeAutoScalingGroups"
    async with late_responses(aws) as late:
        # moto has no instances that wait at a hook.
        late.responses[action] = (
            200,
            f"<{action}Response><{action}Result><AutoScalingGroups>{described}</AutoScalingGroups></{action}Result>"
            f"</{action}Response>",
        )
        late.responses["CompleteLifecycleAction"] = empty_response("CompleteLifecycleAction")
        asg, hooked = driver(late.url), fleet(group, lifecycle_hook="finish")
        assert (await asg.actual(hooked)).count == 0
        await asg.end(hooked, [ended])
        [completed] = late.of("CompleteLifecycleAction")
        assert (completed["InstanceId"], completed["LifecycleActionResult"]) == (ended, "CONTINUE")
        assert late.of("TerminateInstanceInAutoScalingGroup") == []
        # Its agent was quicker: no error.
        late.responses["CompleteLifecycleAction"] = refusal("ValidationError")
        await asg.end(hooked, [ended])


async def test_an_agent_that_has_left_completes_the_lifecycle_hook_of_its_machine(
    aws: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.worker.agent.ec2.RELEASE_SECONDS", 60.0)
    group, instance = create_group(client), "i-0123456789abcdef0"
    async with late_responses(aws) as late:
        late.responses["CompleteLifecycleAction"] = empty_response("CompleteLifecycleAction")
        protection = Protection(group, REGION, late.url, "finish")
        keeping = asyncio.create_task(protection.keep(instance))
        await asyncio.sleep(0)
        await protection.release()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        [completed] = late.calls
        assert (completed["Action"], completed["InstanceId"]) == ("CompleteLifecycleAction", instance)
        assert (completed["AutoScalingGroupName"], completed["LifecycleHookName"]) == (group, "finish")
        # The machine does not wait at the hook: it only restarts its agent.
        late.responses["CompleteLifecycleAction"] = refusal("ValidationError")
        await protection.release()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("Throttling", "AWS limits the rate of calls and refused set_desired_capacity"),
        ("AccessDenied", "The control plane's AWS credentials do not allow set_desired_capacity"),
        ("ScalingActivityInProgress", r"AWS refused set_desired_capacity \(ScalingActivityInProgress\): no"),
    ],
)
async def test_a_refusal_is_one_sentence(aws: str, client: Any, code: str, sentence: str) -> None:
    async with late_responses(aws) as late:
        late.responses["SetDesiredCapacity"] = refusal(code)
        with pytest.raises(DriverError, match=sentence):
            await driver(late.url).want(fleet(create_group(client)), 1, 0)


async def test_a_failure_is_one_sentence(aws: str) -> None:
    with pytest.raises(DriverError, match="AWS knows no Auto Scaling group 'nosuch'"):
        await driver(aws).actual(fleet("nosuch"))
    with pytest.raises(DriverError, match="The AWS request describe_auto_scaling_groups failed"):
        await driver(f"http://127.0.0.1:{free_port()}").actual(fleet("any"))
    with pytest.raises(
        DriverError, match="options of the fleet face-swap cannot be used: group: This field is required"
    ):
        await driver(aws).actual(ScaledFleet(1, "face-swap", "production", Policy(), "aws_asg", {}))
