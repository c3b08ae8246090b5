"""Prevents an autoscaling group from ending this machine while a job runs. boto3 is loaded only if a group is named."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from callsheet.toolbox.aws import autoscaling_client
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

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
