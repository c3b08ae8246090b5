"""Client of the worker protocol: registers, keeps its token, and distinguishes refusals from errors to retry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.outages import backoff_seconds
from callsheet.toolbox.private_files import read_private, write_private
from callsheet.wire.fleet import DeregisterRequest, RegisterRequest, RegisterResponse
from callsheet.wire.worker.environment import Environment, EnvironmentResponse
from callsheet.wire.worker.protocol import (
    CompleteResponse,
    DispatchResponse,
    HeartbeatResponse,
    PollRequest,
    PollResponse,
)
from callsheet.worker.agent.plane import RefusedRequest, Unreachable

log = get_logger(__name__)

Reply = TypeVar("Reply", bound=BaseModel)
RESPONSE_SECONDS = 30.0
# Added to the wait that a poll requests: the control plane responds at its end, plus network time.
POLL_MARGIN_SECONDS = 15.0
RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 0.5, 30.0
_REPORTS: dict[str, type[CompleteResponse] | type[DispatchResponse]] = {
    "complete": CompleteResponse,
    "fail": DispatchResponse,
    "requeue": DispatchResponse,
    "defer": DispatchResponse,
}


class ControlPlaneClient:
    def __init__(
        self,
        url: str,
        secret: str,
        token_file: Path,
        registration: Callable[[], RegisterRequest],
        *,
        random: Random | None = None,
    ):
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/"), trust_env=False, verify=certificates(), timeout=RESPONSE_SECONDS
        )
        self._secret = secret
        self._token_file = token_file
        self._registration = registration
        self._random = random or Random()  # noqa: S311 (jitter)
        self._token: str | None = None
        self._registering = asyncio.Lock()

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def is_registered(self) -> bool:
        return self._token is not None

    async def enter(self) -> None:
        """Uses the saved token if it belongs to the same registration; otherwise registers for a new one."""
        kept = read_private(self._token_file) or {}
        token = kept.get("token")
        if isinstance(token, str) and token:
            self._token = token
            if kept.get("registration") == self._fingerprint():
                return
            await self.leave("registers anew")
        await self._register()

    async def poll(self, request: PollRequest) -> PollResponse:
        seconds = (request.wait_seconds or 0) + POLL_MARGIN_SECONDS
        return await self._ask("poll", request, PollResponse, seconds)

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatResponse:
        return await self._ask("heartbeat", request, HeartbeatResponse)

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        """Sends one report; returns the job's new status."""
        return (await self._ask(kind, body, _REPORTS[kind])).status

    async def report_environment(self, environment: Environment) -> EnvironmentResponse:
        return await self._ask("environment", environment, EnvironmentResponse)

    async def leave(self, reason: str) -> None:
        """Tries once to deregister: the control plane also notices workers that disappear."""
        try:
            await self._post("deregister", DeregisterRequest(reason=reason), RESPONSE_SECONDS)
        except Unreachable as error:
            log.warning("worker.deregister_failed", reason=str(error))
            # The worker may still be registered. Without its token, the next start would wait until it counts as dead.
            return
        except RefusedRequest as error:
            log.warning("worker.deregister_failed", reason=str(error))
        self._token = None
        self._token_file.unlink(missing_ok=True)

    def pause(self, failures: int, error: Exception | None = None) -> float:
        """Seconds to wait after this many failures in a row."""
        jittered = backoff_seconds(failures, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, self._random)
        requested = error.retry_after if isinstance(error, Unreachable) else None
        return max(jittered, requested or 0.0)

    async def _ask(
        self, path: str, request: BaseModel | dict[str, Any], model: type[Reply], seconds: float | None = None
    ) -> Reply:
        if self._token is None:
            await self._register()
        token, seconds = self._token, RESPONSE_SECONDS if seconds is None else seconds
        try:
            response = await self._post(path, request, seconds)
        except RefusedRequest as refused:
            if refused.status != httpx.codes.UNAUTHORIZED:
                raise
            log.warning("worker.token_refused", code=refused.code, reason=refused.detail)
            await self._register(instead_of=token)
            response = await self._post(path, request, seconds)
        try:
            reply = model.model_validate(response)
        except ValidationError as error:
            raise Unreachable("did not return what this agent expects") from error
        rotated = response.get("rotated_token")
        if isinstance(rotated, str) and rotated:
            self._keep(rotated)
            log.info("worker.token_rotated")
        return reply

    async def _register(self, instead_of: str | None = None) -> None:
        """Registers. Retries while the control plane is unreachable. If several requests find the token invalid, one
        of them registers.
        """
        async with self._registering:
            if self._token is not None and self._token != instead_of:
                return
            failures = 0
            while True:
                try:
                    await self._register_once()
                    return
                except Unreachable as error:
                    failures += 1
                    seconds = self.pause(failures, error)
                    note_failure(log, failures)(
                        "worker.not_registered", reason=str(error), retry_in_seconds=round(seconds, 1)
                    )
                await asyncio.sleep(seconds)

    async def _register_once(self) -> None:
        request = self._registration()
        try:
            response = await self._post("register", request, RESPONSE_SECONDS, {"x-fleet-secret": self._secret})
        except RefusedRequest as refused:
            if refused.status == httpx.codes.UNAUTHORIZED:
                raise OperatorError(
                    f"The control plane does not accept the fleet secret or token (FLEET_SECRET): {refused.detail}"
                ) from None
            if refused.status in (httpx.codes.NOT_FOUND, httpx.codes.UNPROCESSABLE_ENTITY, httpx.codes.BAD_REQUEST):
                raise OperatorError(f"The control plane does not register this worker: {refused.detail}") from None
            raise Unreachable(refused.detail, RETRY_CAP_SECONDS) from None
        try:
            registered = RegisterResponse.model_validate(response)
        except ValidationError as error:
            raise Unreachable("did not return a registration") from error
        self._keep(registered.token)
        log.info(
            "worker.registered",
            worker_id=registered.worker_id,
            fleet=registered.fleet_slug,
            stage=registered.stage,
            workflows=registered.workflows_assigned,
            approved=registered.is_approved,
        )
        if not registered.is_approved:
            log.warning("worker.waits_for_approval", action=f"callsheet workers approve {registered.worker_id}")

    def _keep(self, token: str) -> None:
        self._token = token
        write_private(self._token_file, {"token": token, "registration": self._fingerprint()})

    def _fingerprint(self) -> dict[str, Any]:
        # Facts that may change on the same worker are left out: a new engine version needs no new registration.
        changeable = {"capabilities", "display_name", "environment", "instance_type"}
        return self._registration().model_dump(mode="json", exclude=changeable)

    async def _post(
        self,
        path: str,
        request: BaseModel | dict[str, Any],
        seconds: float,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        body = request.model_dump(mode="json", exclude_none=True) if isinstance(request, BaseModel) else request
        sent = {"content-type": "application/json", **(headers or {"authorization": f"Bearer {self._token}"})}
        # ASCII, because file names may contain lone surrogates, which must not prevent a report.
        content = json.dumps(body, separators=(",", ":"))
        try:
            response = await self._client.post(f"/api/worker/{path}", content=content, headers=sent, timeout=seconds)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise Unreachable(f"the control plane cannot be reached ({type(error).__name__})") from error
        return _read(response)


def _read(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = None
    status = response.status_code
    if response.is_success and isinstance(body, dict):
        return body
    problem = body if isinstance(body, dict) else {}
    code, detail = (
        str(problem.get("code", "")),
        str(
            problem.get("detail")
            or problem.get("title")
            or f"the server there is not a control plane (status {status})"
        ),
    )
    # Retry later: the worker's last session still counts as alive, or the control plane limits the rate.
    later = code == "already_registered" or status == httpx.codes.TOO_MANY_REQUESTS
    if later or status >= 500 or not code:
        raise Unreachable(detail, _retry_after(response, problem) if later or status == 503 else None)
    raise RefusedRequest(status, code, detail)


def _retry_after(response: httpx.Response, problem: dict[str, Any]) -> float | None:
    for value in (response.headers.get("retry-after"), problem.get("retry_after_seconds")):
        try:
            return min(600.0, max(0.0, float(str(value))))
        except ValueError:
            continue
    return None
