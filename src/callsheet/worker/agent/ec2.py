"""A machine of EC2: its identity and notices of its termination (IMDSv2), and its protection while a job runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import httpx

from callsheet.toolbox.aws import autoscaling_client
from callsheet.toolbox.logs import get_logger
from callsheet.worker.agent.departure import Departure

log = get_logger(__name__)

# The service is local: it responds at once or does not exist.
RESPONSE_SECONDS = 1.0
TOKEN_SECONDS = 21_600
SPOT_NOTICE = "spot/instance-action"
REBALANCE = "events/recommendations/rebalance"
LIFECYCLE = "autoscaling/target-lifecycle-state"
# A spot machine ends two minutes after its notice. The last seconds are for reports and uploads.
SPARE_SECONDS = 20.0
SPOT_SECONDS = 120.0
TERMINATION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """All fields are None if the machine is not an EC2 instance."""

    instance_id: str | None = None
    instance_type: str | None = None
    capacity_type: Literal["spot", "on-demand"] | None = None


async def instance_id(url: str | None) -> str | None:
    """Returns None if the machine is not an EC2 instance."""
    machine = Ec2Instance(url, 0.0, Departure())
    try:
        return (await machine.identity()).instance_id
    finally:
        await machine.close()


class Ec2Instance:
    def __init__(self, url: str | None, seconds: float, departure: Departure):
        self._url = url
        self._seconds = seconds
        self._departure = departure
        self._client = httpx.AsyncClient(trust_env=False, timeout=RESPONSE_SECONDS)
        self._token: str | None = None

    async def close(self) -> None:
        await self._client.aclose()

    async def identity(self) -> Identity:
        if self._url is None or not await self._renew_token():
            return Identity()
        names = ("instance-id", "instance-type", "instance-life-cycle")
        instance_id, instance_type, life_cycle = [await self._read(name) for name in names]
        capacity: Literal["spot", "on-demand"] | None = None
        if life_cycle is not None:
            capacity = "spot" if life_cycle == "spot" else "on-demand"
        return Identity(instance_id, instance_type, capacity)

    async def watch(self) -> None:
        """Watches for notices. Returns at once if the metadata service did not respond at the start."""
        if self._token is None:
            return
        while True:
            await self.check()
            await asyncio.sleep(self._seconds)

    async def check(self) -> None:
        if await self._read(LIFECYCLE) == "Terminated":
            self._departure.begin("autoscaling termination", TERMINATION_SECONDS)
        notice = await self._read(SPOT_NOTICE)
        if notice is not None:
            self._departure.begin("spot interruption", seconds_until(notice, datetime.now(UTC)) - SPARE_SECONDS)
        elif await self._read(REBALANCE) is not None and not self._departure.has_started:
            self._departure.begin("rebalance recommendation", None)

    async def _read(self, name: str) -> str | None:
        """Returns the value, or None if it does not exist or the service does not respond."""
        for _ in range(2):
            try:
                headers = {"X-aws-ec2-metadata-token": self._token or ""}
                response = await self._client.get(f"{self._url}/latest/meta-data/{name}", headers=headers)
            except httpx.HTTPError as error:
                log.debug("machine.metadata_unreachable", name=name, reason=type(error).__name__)
                return None
            if response.status_code == httpx.codes.UNAUTHORIZED and await self._renew_token():
                continue
            return response.text.strip() if response.status_code == httpx.codes.OK else None
        return None

    async def _renew_token(self) -> bool:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        try:
            response = await self._client.put(f"{self._url}/latest/api/token", headers=headers)
        except httpx.HTTPError:
            return False
        if response.status_code != httpx.codes.OK:
            return False
        self._token = response.text.strip()
        return True


def seconds_until(notice: str, now: datetime) -> float:
    """Seconds until a spot machine ends, by its notice: {"action": "terminate", "time": "2026-02-15T12:00:00Z"}."""
    try:
        value: Any = httpx.Response(200, text=notice).json()["time"]
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    except (ValueError, KeyError, TypeError):
        return SPOT_SECONDS


# The protection stays on between two jobs: AWS limits how often it may be switched.
IDLE_SECONDS = 5.0
RETRY_SECONDS = 10.0
RELEASE_SECONDS = 5.0


class Protection:
    def __init__(
        self,
        group: str | None,
        region: str | None = None,
        endpoint_url: str | None = None,
        lifecycle_hook: str | None = None,
    ):
        self._group = group
        self._lifecycle_hook = lifecycle_hook
        self._region = region
        self._endpoint_url = endpoint_url
        self._wanted = False
        self._is_on = False
        self._news = asyncio.Event()
        self._client: Any = None
        self._instance_id: str | None = None
        self._switching = asyncio.Lock()

    def want(self, on: bool) -> None:
        self._wanted = on
        self._news.set()

    async def keep(self, instance_id: str | None) -> None:
        self._instance_id = instance_id
        if self._group is None or instance_id is None:
            return
        while True:
            await self._news.wait()
            self._news.clear()
            if not self._wanted and self._is_on:
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._news.wait()
                        continue
            if self._wanted != self._is_on and not await self._switch(self._wanted):
                await asyncio.sleep(RETRY_SECONDS)
                self._news.set()

    async def release(self) -> None:
        """Call when the agent leaves. Waits for AWS only briefly."""
        self._wanted = False
        if self._is_on:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._switch(False)
        if self._group is not None and self._instance_id is not None and self._lifecycle_hook is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._complete()

    async def _complete(self) -> None:
        """Lets AWS end a machine that waits at its lifecycle hook. AWS returns an error if it does not wait."""
        try:
            await asyncio.to_thread(self._call_complete)
        except Exception as error:  # noqa: BLE001 - as below
            log.info("worker.hook_not_completed", reason=f"{type(error).__name__}: {error}")
        else:
            log.info("worker.hook_completed", hook=self._lifecycle_hook)

    async def _switch(self, on: bool) -> bool:
        async with self._switching:
            try:
                await asyncio.to_thread(self._call, on)
            except Exception as error:  # noqa: BLE001 - botocore generates its exception classes, and none may stop a job
                log.warning("worker.protection_failed", on=on, reason=f"{type(error).__name__}: {error}")
                return False
        self._is_on = on
        log.info("worker.protection", on=on)
        return True

    def _call(self, on: bool) -> None:
        self._opened().set_instance_protection(
            InstanceIds=[self._instance_id], AutoScalingGroupName=self._group, ProtectedFromScaleIn=on
        )

    def _call_complete(self) -> None:
        self._opened().complete_lifecycle_action(
            AutoScalingGroupName=self._group,
            LifecycleHookName=self._lifecycle_hook,
            InstanceId=self._instance_id,
            LifecycleActionResult="CONTINUE",
        )

    def _opened(self) -> Any:
        if self._client is None:
            self._client = autoscaling_client(self._region, self._endpoint_url)
        return self._client
