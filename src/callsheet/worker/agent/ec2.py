"""EC2 instance metadata (IMDSv2): the machine's identity, and notices of its termination."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import httpx

from callsheet.toolbox.logs import get_logger
from callsheet.worker.agent.departure import Departure

log = get_logger(__name__)

# The service is local: it responds at once or does not exist.
ANSWER_SECONDS = 1.0
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
        self._client = httpx.AsyncClient(trust_env=False, timeout=ANSWER_SECONDS)
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
            await self.look()
            await asyncio.sleep(self._seconds)

    async def look(self) -> None:
        if await self._read(LIFECYCLE) == "Terminated":
            self._departure.begin("autoscaling termination", TERMINATION_SECONDS)
        notice = await self._read(SPOT_NOTICE)
        if notice is not None:
            self._departure.begin("spot interruption", seconds_until(notice, datetime.now(UTC)) - SPARE_SECONDS)
        elif await self._read(REBALANCE) is not None and not self._departure.has_begun:
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
