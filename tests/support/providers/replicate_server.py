"""A server that responds and signs like Replicate, and sends wrong data if a test requests it.

async with replicate_server() as replicate:
    replicate.scenario = Scenario(output=replicate.file("sound.wav"))     # of predictions submitted from now on
    replicate.deliver = "twice"                                           # or never, once, reversed, badly signed
    replicate.refuse(2, 429); replicate.lose_responses(1)                   # of calls to come
    await replicate.call_back(prediction_id, age_seconds=900)             # a callback out of order; its response

By hand: `python -m tests.support.providers.replicate_server --port 8700`, then `providers.replicate.url = http://127.0.0.1:8700/v1`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import string
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import httpx
from aiohttp import web

from tests.support.providers.replicate_files import FILES, serve_file

Json = dict[str, Any]
TOKEN = "r8_token_of_the_test_that_must_stay_secret"
SECRET = "whsec_" + base64.b64encode(b"a webhook secret of 32 bytes !!!").decode()
Outcome = Literal["succeeded", "failed", "canceled", "aborted"]
# once: start and completed, in order. reversed: completed, then start. The other names are literal.
Delivery = Literal[
    "once", "twice", "never", "reversed", "wrong_signature", "old", "of_another_prediction", "only_start"
]
_UNSENT = ("webhook", "webhook_events_filter")


@dataclass(frozen=True)
class Scenario:
    """The outcome of a prediction."""

    outcome: Outcome = "succeeded"
    # {files} is replaced by the URL of the files.
    output: Any = "{files}/picture.png"
    error: str | None = None
    logs: str = "  0%|          | 0/4\n 50%|█████     | 2/4\n100%|██████████| 4/4\n"
    # The prediction stays `processing` until `finish`.
    held: bool = False
    delay_seconds: float = 0.0


@dataclass
class Call:
    method: str
    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class Delivered:
    prediction_id: str
    event: str
    url: str
    status: int | None


@dataclass
class ReplicateServer:
    token: str = TOKEN
    secret: str = SECRET
    scenario: Scenario = field(default_factory=Scenario)
    deliver: Delivery = "once"
    page_size: int = 100
    # Older responses of the list had no `webhook`.
    lists_webhooks: bool = True
    # The origin of the next page in the list, if the list gives a wrong one.
    list_origin: str = ""
    models: frozenset[str] | None = None
    # Returns the error of an input; None accepts the input.
    refuses_input: Callable[[Json], str | None] = lambda _: None
    host: str = "127.0.0.1"
    port: int = 0
    predictions: dict[str, Json] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    # The number of requests for each file.
    downloads: dict[str, int] = field(default_factory=dict)
    download_headers: list[dict[str, str]] = field(default_factory=list)
    _faults: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    _lost_responses: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _runner: web.AppRunner | None = None
    _client: httpx.AsyncClient | None = None

    @property
    def origin(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The value for `providers.replicate.url`."""
        return f"{self.origin}/v1"

    def file(self, name: str) -> str:
        """The URL of one of FILES."""
        assert name in FILES, name
        return f"{self.origin}/files/{name}"

    def redirect(self, to: str) -> str:
        return f"{self.origin}/redirect?{httpx.QueryParams({'to': to})}"

    def refuse(self, times: int, status: int, *, calls: str = "", **headers: str) -> None:
        """The next calls whose `METHOD /path` contains `calls` are refused."""
        self._faults += [(calls, status, {name.replace("_", "-"): value for name, value in headers.items()})] * times

    def lose_responses(self, times: int) -> None:
        """The next submissions are accepted, but the connection ends before the response."""
        self._lost_responses = times

    def called(self, method_and_path: str) -> list[Call]:
        return [call for call in self.calls if f"{call.method} {call.path}" == method_and_path]

    @property
    def submitted(self) -> list[Call]:
        return [call for call in self.calls if call.method == "POST" and call.path.endswith("/predictions")]

    async def start(self) -> None:
        app = web.Application(client_max_size=2**26)
        for path in ("predictions", "models/{owner}/{name}/predictions", "deployments/{owner}/{name}/predictions"):
            app.router.add_post(f"/v1/{path}", self._create)
        app.router.add_get("/v1/predictions", self._list)
        app.router.add_get("/v1/predictions/{id}", self._get)
        app.router.add_post("/v1/predictions/{id}/cancel", self._cancel)
        app.router.add_get("/v1/webhooks/default/secret", self._secret)
        app.router.add_get("/files/{name}", self._file)
        app.router.add_get("/redirect", self._redirect)
        self._client = httpx.AsyncClient(trust_env=False, timeout=30)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._client is not None:
            await self._client.aclose()

    def forget(self) -> None:
        """Forgets all predictions, requests and faults. The server keeps running."""
        fresh = ReplicateServer(self.token, self.secret)
        for name in ("scenario", "deliver", "page_size", "lists_webhooks", "list_origin", "models", "refuses_input"):
            setattr(self, name, getattr(fresh, name))
        self._lost_responses = 0
        for kept in (self.predictions, self.scenarios, self.calls, self.delivered, self.downloads):
            kept.clear()
        self.download_headers.clear()
        self._faults.clear()

    # Outcomes of predictions

    async def finish(self, prediction_id: str, scenario: Scenario | None = None) -> None:
        """Ends the prediction, and sends callbacks according to `deliver`."""
        self.end(prediction_id, scenario)
        await self._deliver(prediction_id)

    def end(self, prediction_id: str, scenario: Scenario | None = None) -> None:
        """Ends the prediction without a callback."""
        prediction = self.predictions[prediction_id]
        chosen = scenario or self.scenarios[prediction_id]
        prediction["status"] = chosen.outcome
        prediction["completed_at"] = _now()
        prediction["logs"] = chosen.logs
        if chosen.outcome == "succeeded":
            prediction["output"] = self._with_file_urls(chosen.output)
            prediction["metrics"] = {"predict_time": 0.2, "total_time": 0.3}
        elif chosen.outcome == "failed":
            prediction["error"] = chosen.error or "the model raised"

    def progress(self, prediction_id: str, logs: str) -> None:
        self.predictions[prediction_id].update(status="processing", started_at=_now(), logs=logs)

    async def call_back(
        self,
        prediction_id: str,
        *,
        url: str | None = None,
        body: Json | bytes | None = None,
        age_seconds: float = 0.0,
        secret: str | None = None,
        event: str = "completed",
        headers: dict[str, str | None] | None = None,
    ) -> httpx.Response:
        """Sends the current prediction, or `body`. Header values of None leave the header out."""
        assert self._client is not None
        prediction = self.predictions[prediction_id]
        given = prediction if body is None else body
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        signed = signed_headers(content, secret or self.secret, time.time() - age_seconds, f"msg_{prediction_id}")
        sent = {**signed, "content-type": "application/json", **(headers or {})}
        target = url or prediction["webhook"]
        response = await self._client.post(
            target, content=content, headers={name: value for name, value in sent.items() if value is not None}
        )
        self.delivered.append(Delivered(prediction_id, event, target, response.status_code))
        return response

    async def _deliver(self, prediction_id: str) -> None:
        prediction = self.predictions[prediction_id]
        if not prediction.get("webhook") or self.deliver == "never":
            return
        started = {**prediction, "status": "processing", "output": None, "completed_at": None}
        match self.deliver:
            case "once":
                await self._until_taken(prediction_id)
            case "twice":
                await self._until_taken(prediction_id)
                await self._until_taken(prediction_id)
            case "reversed":
                await self._until_taken(prediction_id)
                await self._once(prediction_id, body=started, event="start")
            case "only_start":
                await self._once(prediction_id, body=started, event="start")
            case "wrong_signature":
                await self._once(prediction_id, secret="whsec_" + base64.b64encode(b"somebody else's").decode())
            case "old":
                await self._once(prediction_id, age_seconds=900)
            case "of_another_prediction":
                await self._once(prediction_id, body={**prediction, "id": new_id(), "webhook": "https://other.test/"})

    async def _until_taken(self, prediction_id: str) -> None:
        """Like Replicate, repeats the last event a few times if it was not accepted."""
        for attempt in range(4):
            if await self._once(prediction_id):
                return
            await asyncio.sleep(0.05 * 2**attempt)

    async def _once(self, prediction_id: str, **options: Any) -> bool:
        try:
            return (await self.call_back(prediction_id, **options)).is_success
        except httpx.HTTPError:
            target = self.predictions[prediction_id]["webhook"]
            self.delivered.append(Delivered(prediction_id, options.get("event", "completed"), target, None))
            return False

    async def _live(self, prediction_id: str) -> None:
        scenario = self.scenarios[prediction_id]
        if scenario.delay_seconds:
            await asyncio.sleep(scenario.delay_seconds)
        if self.predictions[prediction_id]["status"] in ("starting", "processing"):
            await self.finish(prediction_id)

    def _with_file_urls(self, value: Any) -> Any:
        return json.loads(json.dumps(value).replace("{files}", f"{self.origin}/files"))

    # Its API

    async def _response_fault(self, request: web.Request, body: Any = None) -> web.Response | None:
        path = request.path.removeprefix("/v1")
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.calls.append(Call(request.method, path, body, headers))
        for fault in self._faults:
            if fault[0] in f"{request.method} {path}":
                self._faults.remove(fault)
                return _problem(fault[1], "Refused by the test", fault[2])
        if headers.get("authorization") != f"Bearer {self.token}":
            return _problem(401, "You did not pass a valid authentication token")
        return None

    async def _create(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if refused := await self._response_fault(request, body) or self._input_fault(request, body):
            return refused
        prediction = self._new_prediction(request, body)
        self.predictions[prediction["id"]] = prediction
        self.scenarios[prediction["id"]] = self.scenario
        if self.scenario.held:
            prediction["status"] = "processing"
        else:
            task = asyncio.create_task(self._live(prediction["id"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._lost_responses > 0:
            self._lost_responses -= 1
            assert request.transport is not None
            request.transport.close()
        return web.json_response({**prediction, "status": "starting"}, status=201)

    def _input_fault(self, request: web.Request, body: Json) -> web.Response | None:
        model = "/".join(request.match_info.values())
        if model and self.models is not None and model not in self.models:
            return _problem(404, "The requested resource could not be found.")
        if not model and not body.get("version"):
            return _problem(422, "- version is required\n")
        if problem := self.refuses_input(body.get("input", {})):
            return _problem(422, problem)
        return None

    def _new_prediction(self, request: web.Request, body: Json) -> Json:
        prediction_id = new_id()
        prediction: Json = {
            "id": prediction_id,
            "model": "/".join(request.match_info.values()) or "owner/name",
            "version": body.get("version", "hidden"),
            "status": "starting",
            "input": body.get("input", {}),
            "output": None,
            "source": "api",
            "error": None,
            "logs": "",
            "data_removed": False,
            "metrics": {},
            "created_at": _now(),
            "started_at": None,
            "completed_at": None,
            "urls": {
                "get": f"{self.url}/predictions/{prediction_id}",
                "cancel": f"{self.url}/predictions/{prediction_id}/cancel",
            },
        }
        prediction.update({name: body[name] for name in _UNSENT if name in body})
        return prediction

    async def _get(self, request: web.Request) -> web.Response:
        if refused := await self._response_fault(request):
            return refused
        prediction = self.predictions.get(request.match_info["id"])
        return web.json_response(prediction) if prediction else _problem(404, "Prediction not found")

    async def _list(self, request: web.Request) -> web.Response:
        if refused := await self._response_fault(request):
            return refused
        newest_first = list(reversed(self.predictions.values()))
        first = int(request.query.get("cursor", "0"))
        page = newest_first[first : first + self.page_size]
        after = first + self.page_size
        more = f"{self.list_origin or self.url}/predictions?cursor={after}" if after < len(newest_first) else None
        unsaid = () if self.lists_webhooks else _UNSENT
        results = [{name: value for name, value in each.items() if name not in unsaid} for each in page]
        return web.json_response({"previous": None, "next": more, "results": results})

    async def _cancel(self, request: web.Request) -> web.Response:
        if refused := await self._response_fault(request):
            return refused
        prediction = self.predictions.get(request.match_info["id"])
        if prediction is None:
            return _problem(404, "Prediction not found")
        if prediction["status"] in ("starting", "processing"):
            prediction.update(status="canceled", completed_at=_now())
            task = asyncio.create_task(self._deliver(prediction["id"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return web.json_response(prediction)

    async def _secret(self, request: web.Request) -> web.Response:
        return await self._response_fault(request) or web.json_response({"key": self.secret})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.downloads[name] = self.downloads.get(name, 0) + 1
        self.download_headers.append({name.lower(): value for name, value in request.headers.items()})
        return await serve_file(request, name, self.downloads[name])

    async def _redirect(self, request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query["to"])


@asynccontextmanager
async def replicate_server(**options: Any) -> AsyncIterator[ReplicateServer]:
    server = ReplicateServer(**options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def new_id() -> str:
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(26))


def signed_headers(body: bytes, secret: str, at: float, message_id: str = "msg_test") -> dict[str, str]:
    """Written from the description of the scheme, without the code under test."""
    key = base64.b64decode(secret.partition("_")[2])
    stamp = str(int(at))
    signature = hmac.new(key, f"{message_id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


def _problem(status: int, detail: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"title": "Refused", "detail": detail, "status": status}, status=status, headers=headers)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


async def _serve(host: str, port: int, delay_seconds: float) -> None:
    scenario = Scenario(delay_seconds=delay_seconds)
    async with replicate_server(host=host, port=port, scenario=scenario) as server:
        sys.stdout.write(
            f"url            {server.url}\ntoken          {server.token}\nwebhook_secret {server.secret}\n"
        )
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A server that answers and calls back like Replicate.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--delay", type=float, default=2.0, help="seconds until a prediction is done")
    given = parser.parse_args()
    asyncio.run(_serve(given.host, given.port, given.delay))


if __name__ == "__main__":
    main()
