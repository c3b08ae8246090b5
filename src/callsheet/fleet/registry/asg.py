"""Asks AWS whether an instance is in one of our groups. AWS may be slow or unreachable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.settings import FleetSettings
from callsheet.toolbox.aws import autoscaling_client
from callsheet.toolbox.logs import get_logger

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient

log = get_logger(__name__)
# Ids of EC2 instances, including the old short form. A task worker appends a suffix (cli/fleet/task_worker.py).
INSTANCE: Final = re.compile(r"(?P<id>i-(?:[0-9a-f]{8}|[0-9a-f]{17}))(?:-tasks)?")
BAD_ID = "ValidationError"
# Threads that may wait for AWS. A fleet that starts while AWS is unreachable must not use up the shared threads.
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class AsgVerdict:
    """The result of the check. `unknown`: AWS was unreachable. The worker is admitted unless fleet.asg_fail_open is
    off; its log shows this.
    """

    membership: Literal["member", "stranger", "unknown", "not_asked"]
    group: str | None = None
    reason: str | None = None


UNVERIFIED: Final = AsgVerdict("not_asked")


class AutoscalingGroups:
    def __init__(self, settings: FleetSettings):
        self._settings = settings
        self._client: AutoScalingClient | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)
        # Registrations since the start of the process for which AWS was unreachable.
        self.unanswered = 0

    async def verdict(self, worker_id: str) -> AsgVerdict:
        if not self._settings.validate_asg_instance:
            return UNVERIFIED
        instance = INSTANCE.fullmatch(worker_id)
        if instance is None:
            # This check works without AWS: during an outage, an invented id must not pass more easily than an
            # instance's id.
            return AsgVerdict(
                "stranger", reason="its id is not the id of an instance, and fleet.validate_asg_instance is on"
            )
        try:
            # The client's timeouts are per connection and per read; this timeout covers the whole call.
            async with asyncio.timeout(2 * self._settings.asg_timeout_seconds), self._gate:
                return await asyncio.to_thread(self._ask, instance["id"])
        except TimeoutError:
            return _unknown(worker_id, "AWS did not respond in time")

    def _ask(self, instance_id: str) -> AsgVerdict:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            response = self._opened().describe_auto_scaling_instances(InstanceIds=[instance_id])
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == BAD_ID:
                # This is not an outage: AWS says that no instance can have this id, so the worker is refused.
                return AsgVerdict("stranger", reason="AWS does not know this id")
            return _unknown(instance_id, str(error))
        except BotoCoreError as error:
            return _unknown(instance_id, str(error))
        groups = [found["AutoScalingGroupName"] for found in response["AutoScalingInstances"]]
        known = [group for group in groups if not self._settings.asg_names or group in self._settings.asg_names]
        return (
            AsgVerdict("member", known[0])
            if known
            else AsgVerdict("stranger", reason="the instance is not in one of our groups")
        )

    def _opened(self) -> AutoScalingClient:
        if self._client is None:
            self._client = autoscaling_client(
                self._settings.asg_region,
                self._settings.asg_endpoint_url,
                timeout_seconds=self._settings.asg_timeout_seconds,
            )
        return self._client


def _unknown(instance_id: str, reason: str) -> AsgVerdict:
    log.warning("asg.unreachable", instance_id=instance_id, reason=reason)
    return AsgVerdict("unknown", reason=reason)


class AsgMetrics(Collector):
    """The metric is exported from the start, so that the first failure is visible as an increase."""

    def __init__(self, groups: AutoscalingGroups):
        self._groups = groups

    def collect(self) -> Iterable[Metric]:
        unanswered = CounterMetricFamily(
            "callsheet_asg_unanswered", "Registrations whose instance could not be checked because AWS was unavailable."
        )
        unanswered.add_metric([], self._groups.unanswered)
        yield unanswered
