"""Driver for workers that are instances of an EC2 Auto Scaling group. A worker's id is the id of its instance.

If a group's desired capacity is below its size, AWS chooses which instances to end, and AWS does not know which
instance holds a job. So the capacity is never set below the number of live instances, and instances are ended by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from callsheet.scaling.driver import Actual, DriverError, ScaledFleet
from callsheet.scaling.drivers.options import checked_options, fits, read_options
from callsheet.scaling.policy import Policy
from callsheet.settings import FleetSettings
from callsheet.toolbox.aws import autoscaling_client
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import Line
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient

log = get_logger(__name__)

LIVING_STATES = ("Pending", "InService")
HOOK_STATE = "Terminating:Wait"
# A terminated instance reaches its lifecycle hook a few seconds after the call.
HOOK_TRIES = 10
HOOK_SECONDS = 1.0
# AWS's error code for a hook at which the instance does not wait, and for an instance that is gone.
NOTHING_THERE = "ValidationError"
MAX_MESSAGE_LENGTH = 300


class AwsAsgOptions(BaseModel):
    """The options of `callsheet fleets scale --driver aws_asg`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: Line = Field(description="Name of the Auto Scaling group.")
    on_demand_group: Line | None = Field(
        None,
        title="On-demand group",
        description="Second group for the on-demand workers; the first one then holds the spot workers.",
    )
    region: (
        Annotated[str, AfterValidator(fits(r"[a-z0-9-]{1,32}", "Use a region, for example eu-central-1."))] | None
    ) = Field(None, description="Region of the groups. Default: fleet.asg_region, or that of the AWS chain.")
    sets_distribution: bool = Field(
        False,
        title="Sets the distribution",
        description="Write the fleet's spot share into the group's mixed instances policy.",
    )
    lifecycle_hook: Line | None = Field(
        None,
        title="Lifecycle hook",
        description="Termination lifecycle hook that is completed for an instance that was ended.",
    )

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,) if self.on_demand_group is None else (self.group, self.on_demand_group)


@dataclass(frozen=True, slots=True)
class Group:
    """An Auto Scaling group as AWS describes it."""

    name: str
    minimum: int
    maximum: int
    desired: int
    # All instances that AWS lists, the live ones, and those at a termination lifecycle hook.
    present: frozenset[str]
    living: frozenset[str]
    waiting: frozenset[str]
    # On-demand instances of its mixed instances policy: the base, and the percentage above it. None without a policy.
    distribution: tuple[int, int] | None

    @classmethod
    def read(cls, described: Any) -> Group:
        states = {each["InstanceId"]: str(each["LifecycleState"]) for each in described["Instances"]}
        mixed = described.get("MixedInstancesPolicy")
        spread = (mixed or {}).get("InstancesDistribution") or {}
        base, percentage = (
            int(spread.get(f"OnDemand{name}", default))
            for name, default in (("BaseCapacity", 0), ("PercentageAboveBaseCapacity", 100))
        )
        return cls(
            name=described["AutoScalingGroupName"],
            minimum=int(described["MinSize"]),
            maximum=int(described["MaxSize"]),
            desired=int(described["DesiredCapacity"]),
            present=frozenset(states),
            living=frozenset(name for name, state in states.items() if state.partition(":")[0] in LIVING_STATES),
            waiting=frozenset(name for name, state in states.items() if state == HOOK_STATE),
            distribution=None if mixed is None else (base, percentage),
        )

    def capacity(self, wanted: int) -> int:
        """The capacity to set: within the group's bounds, and at least the live instances."""
        return max(len(self.living), self.minimum, min(wanted, self.maximum))


def capacities(groups: Sequence[Group], wanted: int, on_demand: int) -> list[int]:
    """How many workers each group should have; in total not more than `wanted`, unless more are live already."""
    if len(groups) == 1:
        return [wanted]
    spot, paid = groups
    in_paid = max(len(paid.living), min(on_demand, wanted - len(spot.living)), 0)
    return [max(wanted - in_paid, 0), in_paid]


def distribution(policy: Policy) -> tuple[int, int]:
    """The policy's shares in AWS's terms. They depend on the rules and not on the current number of workers, because
    AWS replaces running instances when the shares change."""
    return policy.on_demand_minimum, round(100 * (1 - policy.spot_share))


class AwsAsg:
    """boto3 is loaded at the first call: it takes a third of a second and 30 MB, and few installations need it."""

    name = "aws_asg"
    about = "Sets the size of an AWS Auto Scaling group."

    def __init__(self, settings: FleetSettings, *, hook_seconds: float = HOOK_SECONDS):
        self._settings = settings
        self._hook_seconds = hook_seconds
        self._clients: dict[str | None, AutoScalingClient] = {}

    def options_schema(self) -> Mapping[str, Any]:
        return AwsAsgOptions.model_json_schema()

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        return checked_options(AwsAsgOptions, options).model_dump(exclude_none=True)

    async def actual(self, fleet: ScaledFleet) -> Actual:
        groups = await self._groups(read_options(AwsAsgOptions, fleet))
        ids = frozenset().union(*(group.living for group in groups))
        # AWS keeps an order that it cannot fill for lack of instances, and may fill it at any later time.
        return Actual(len(ids), ids, ordered=sum(group.desired for group in groups))

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        options = read_options(AwsAsgOptions, fleet)
        groups = await self._groups(options)
        if options.sets_distribution:
            await self._distribute(options, groups[0], distribution(fleet.policy))
        numbers = capacities(groups, min(wanted, fleet.policy.maximum), on_demand)
        for group, number in zip(groups, numbers, strict=True):
            capacity = group.capacity(number)
            if capacity != group.desired:
                log.info("scaling.asg_capacity", group=group.name, was=group.desired, now=capacity)
                await self._call(
                    options,
                    "set_desired_capacity",
                    AutoScalingGroupName=group.name,
                    DesiredCapacity=capacity,
                    HonorCooldown=False,
                )
        for group, number in zip(groups, numbers, strict=True):
            if number > group.maximum:
                raise DriverError(
                    f"The Auto Scaling group {group.name} has a MaxSize of {group.maximum}, and "
                    f"{counted(number, 'worker is', 'workers are')} wanted. Raise its MaxSize, or lower the "
                    "fleet's maximum."
                )

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        options = read_options(AwsAsgOptions, fleet)
        # Only instances of the fleet's own groups, and only once: a repeated call must not lower the capacity again.
        living = frozenset().union(*(group.living for group in await self._groups(options)))
        for instance in sorted(living.intersection(worker_ids)):
            log.info("scaling.asg_end", instance_id=instance)
            await self._call(
                options,
                "terminate_instance_in_auto_scaling_group",
                InstanceId=instance,
                ShouldDecrementDesiredCapacity=True,
            )
        if options.lifecycle_hook is not None:
            await self._complete(options, options.lifecycle_hook, frozenset(worker_ids))

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    async def _complete(self, options: AwsAsgOptions, hook: str, ended: frozenset[str]) -> None:
        """Completes the hooks, because an ended instance has no work left. An instance that reaches its hook later
        waits for the hook's timeout, or for its agent, which completes the hook when it stops."""
        for _ in range(HOOK_TRIES):
            groups = await self._groups(options)
            for group in groups:
                for instance in sorted(group.waiting & ended):
                    await self._call(
                        options,
                        "complete_lifecycle_action",
                        accepts=(NOTHING_THERE,),
                        AutoScalingGroupName=group.name,
                        LifecycleHookName=hook,
                        InstanceId=instance,
                        LifecycleActionResult="CONTINUE",
                    )
                    ended -= {instance}
            ended &= frozenset().union(*(group.present for group in groups))
            if not ended:
                return
            await asyncio.sleep(self._hook_seconds)

    async def _distribute(self, options: AwsAsgOptions, group: Group, wanted: tuple[int, int]) -> None:
        if group.distribution is None:
            raise DriverError(
                f"The Auto Scaling group {group.name} has no mixed instances policy, so its spot share cannot be set. "
                "Give it one, or switch sets_distribution off."
            )
        if group.distribution != wanted:
            base, percentage = wanted
            log.info("scaling.asg_distribution", group=group.name, on_demand_base=base, on_demand_percentage=percentage)
            spread = {"OnDemandBaseCapacity": base, "OnDemandPercentageAboveBaseCapacity": percentage}
            await self._call(
                options,
                "update_auto_scaling_group",
                AutoScalingGroupName=group.name,
                MixedInstancesPolicy={"InstancesDistribution": spread},
            )

    async def _groups(self, options: AwsAsgOptions) -> list[Group]:
        response = await self._call(options, "describe_auto_scaling_groups", AutoScalingGroupNames=list(options.groups))
        found = {each["AutoScalingGroupName"]: Group.read(each) for each in response["AutoScalingGroups"]}
        for name in options.groups:
            if name not in found:
                raise DriverError(f"AWS knows no Auto Scaling group {name!r} in this account and region.")
        return [found[name] for name in options.groups]

    async def _call(self, options: AwsAsgOptions, action: str, accepts: Sequence[str] = (), **arguments: Any) -> Any:
        return await asyncio.to_thread(self._call_now, options.region, action, accepts, arguments)

    def _call_now(self, region: str | None, action: str, accepts: Sequence[str], arguments: dict[str, Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError
        from botocore.parsers import ResponseParserError

        try:
            return getattr(self._client(region), action)(**arguments)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in accepts:
                return None
            raise DriverError(_sentence(action, code, error.response.get("Error", {}).get("Message", ""))) from None
        except (ConnectTimeoutError, ReadTimeoutError):
            seconds = self._settings.asg_timeout_seconds
            raise DriverError(
                f"AWS did not respond to {action} in {counted(seconds, 'second')} and may have acted. The request "
                "is repeated."
            ) from None
        except (BotoCoreError, ResponseParserError) as error:
            raise DriverError(f"The AWS request {action} failed: {str(error)[:MAX_MESSAGE_LENGTH]}") from None

    def _client(self, region: str | None) -> AutoScalingClient:
        client = self._clients.get(region)
        if client is None:
            # boto3 does not retry; the next check does, because only a check shows whether the first call took effect.
            client = self._clients[region] = autoscaling_client(
                region or self._settings.asg_region,
                self._settings.asg_endpoint_url,
                timeout_seconds=self._settings.asg_timeout_seconds,
            )
        return client


def _sentence(action: str, code: str, message: str) -> str:
    message = message[:MAX_MESSAGE_LENGTH]
    if "Throttl" in code or code == "RequestLimitExceeded":
        return f"AWS limits the rate of calls and refused {action}. The request is repeated."
    if code in ("AccessDenied", "UnauthorizedOperation", "AccessDeniedException"):
        return f"The control plane's AWS credentials do not allow {action}: {message}"
    return f"AWS refused {action} ({code}): {message}"
