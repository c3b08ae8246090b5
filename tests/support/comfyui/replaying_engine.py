"""Engines that respond with what a real ComfyUI was recorded to say, message by message; also as Comfy Cloud.

The recordings' own ids and folders are replaced by those of the run; everything else is verbatim.

async with replaying() as engine:
    engine.scenario = "SaveImage_batch3"          # a shape of output_shapes.json, or one of the words of ENDINGS
    engine.scenario = "held"; …; engine.release.set()
    engine.scenario = "uninterruptible"           # held, and cannot be interrupted
    engine.scenario = "wedged_between"            # its executor dies after the first node
    engine.scenario = "late"                      # its messages come after the response that has the result
"""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.run.ports import free_port

SAMPLES = Path(__file__).parents[2] / "samples" / "comfyui"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
JPEG = bytes.fromhex("ffd8ffe0") + bytes(800)
KEY = "cloud-key-of-the-test"
# Scenario to the recorded run (messages) and the recorded end (history).
ENDINGS = {
    "error": ("ws_error", "history_runtime_error"),
    "oom": ("ws_error", "history_oom_error"),
    "partial_error": ("ws_error", "history_error_with_partial_outputs"),
    "interrupted": ("ws_interrupted", "history_interrupted"),
    "blocked": ("ws_execution_blocked_with_message", None),
    "websocket": ("ws_SaveImageWebsocket", None),
}
# A held run has shown one image by then, and shows more when it continues.
HELD_AFTER = 11
# The history entries of these scenarios.
NOTHING_SAVED = ("blocked", "websocket")
Json = dict[str, Any]


@cache
def _sample_text(name: str) -> str:
    return (SAMPLES / f"{name}.json").read_text("utf-8")


def sample(name: str) -> Any:
    return json.loads(_sample_text(name))


@dataclass
class Item:
    number: int
    id: str
    graph: Json
    extra: Json
    client_id: str | None
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    # The node that is sent to a socket that connects in the middle of the run.
    node: str | None = None

    def entry(self) -> list[Any]:
        return [self.number, self.id, self.graph, self.extra, ["2"]]


@dataclass
class ReplayingEngine:
    as_cloud: bool = False
    scenario: str = "SaveImage_batch3"
    version: str = "0.7.0"
    # A held run goes on when this is set.
    release: asyncio.Event = field(default_factory=asyncio.Event)
    # A late run sends its messages when this is set: a client has read its result.
    result_read: asyncio.Event = field(default_factory=asyncio.Event)
    files: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    # The body of every output file, unless it is the little image.
    content: bytes = PNG
    forgets: bool = False
    # The response of /system_stats, if it differs from the recording.
    devices: list[Json] = field(default_factory=list)
    # Whether the engine chooses the ids of runs, as versions before 0.3.45 do.
    names_runs: bool = False
    # The URL of the cloud's files, if it is another server.
    storage_url: str = ""
    # Whether the cloud's list contains the workflow of a run.
    lists_workflows: bool = True
    # Whether the cloud removes running runs, as its guide says and its specification does not.
    stops_running: bool = True
    # A status with which every prompt is refused.
    refuses_with: int | None = None
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    views: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    running: Item | None = None
    pending: list[Item] = field(default_factory=list)
    history: dict[str, Json] = field(default_factory=dict)
    taken: dict[str, Item] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    sockets: dict[str, web.WebSocketResponse] = field(default_factory=dict)
    _number: int = 0
    _runner: web.AppRunner | None = None
    _executor: asyncio.Task[None] | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_down(self) -> bool:
        return self._executor is None or self._executor.done()

    async def start(self) -> None:
        app = web.Application(client_max_size=2**30)
        for prefix in ("", "/api"):
            app.router.add_post(f"{prefix}/prompt", self._prompt)
            app.router.add_get(f"{prefix}/queue", self._queue)
            app.router.add_post(f"{prefix}/queue", self._delete)
            app.router.add_post(f"{prefix}/interrupt", self._interrupt)
            app.router.add_post(f"{prefix}/history", self._forget)
            app.router.add_get(f"{prefix}/history/{{id}}", self._history)
            app.router.add_post(f"{prefix}/upload/image", self._upload)
            app.router.add_get(f"{prefix}/view", self._view)
            app.router.add_get(f"{prefix}/system_stats", self._stats)
        app.router.add_get("/ws", self._ws)
        app.router.add_get("/api/jobs", self._jobs)
        app.router.add_get("/api/jobs/{id}", self._job)
        app.router.add_get("/api/job/{id}/status", self._status)
        app.router.add_get("/signed/{store}/{path:.*}", self._signed)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port = self.port or free_port()
        listening.bind(("127.0.0.1", self.port))
        await web.SockSite(self._runner, listening).start()
        self._executor = asyncio.create_task(self._execute())

    async def kill(self) -> None:
        """Simulates kill -9: queue, history and connections are lost, output files stay."""
        assert self._executor is not None
        assert self._runner is not None
        self._executor.cancel()
        await asyncio.gather(self._executor, return_exceptions=True)
        await self.drop_sockets()
        await self._runner.cleanup()
        self.running = None
        self.pending.clear()
        self.history.clear()
        self.taken.clear()
        self.ended.clear()
        self._number = 0

    async def drop_sockets(self) -> None:
        # A client may be back before the last one is closed.
        dropped = list(self.sockets.values())
        self.sockets.clear()
        for each in dropped:
            await each.close()

    def called(self, path: str) -> list[Any]:
        return [body for _, at, body in self.calls if at.removeprefix("/api") == path]

    async def _note(self, request: web.Request, body: Any = None) -> None:
        if self.as_cloud and request.headers.get("X-API-Key") != KEY:
            raise web.HTTPUnauthorized()
        self.calls.append((request.method, request.path, body))

    async def _prompt(self, request: web.Request) -> web.Response:
        body = await request.json()
        await self._note(request, body)
        if self.refuses_with is not None:
            return web.Response(status=self.refuses_with)
        refused = _refusal(self.scenario)
        if refused is not None:
            return web.json_response(refused["body"], status=refused["http_status"])
        given = body.get("prompt_id")
        item = Item(
            self._number,
            str(given) if given and not self.names_runs and not self.as_cloud else str(uuid.uuid4()),
            body["prompt"],
            dict(body.get("extra_data") or {}),
            body.get("client_id"),
        )
        self._number += 1
        self.pending.append(item)
        self.taken[item.id] = item
        for each in list(self.sockets.values()):
            with suppress(ConnectionError):
                await each.send_json(_queue_status(len(self.pending)))
        self._wake.set()
        return web.json_response({"prompt_id": item.id, "number": item.number, "node_errors": {}})

    async def _queue(self, request: web.Request) -> web.Response:
        await self._note(request)
        running = [self.running.entry()] if self.running else []
        return web.json_response({"queue_running": running, "queue_pending": [each.entry() for each in self.pending]})

    async def _delete(self, request: web.Request) -> web.Response:
        body = await request.json()
        await self._note(request, body)
        for item in [each for each in self.pending if body.get("clear") or each.id in body.get("delete", [])]:
            self.pending.remove(item)
            self.ended[item.id] = "cancelled"
        stops = self.as_cloud and self.stops_running
        if stops and self.running and self.running.id in body.get("delete", []):
            self.running.interrupted.set()
        return web.Response()

    async def _interrupt(self, request: web.Request) -> web.Response:
        text = await request.text()
        body = json.loads(text) if text else None
        await self._note(request, body)
        if self.running and (body is None or body.get("prompt_id") == self.running.id):
            self.running.interrupted.set()
        return web.Response()

    async def _forget(self, request: web.Request) -> web.Response:
        body = await request.json()
        await self._note(request, body)
        for each in body.get("delete", []):
            self.history.pop(each, None)
        return web.Response()

    async def _history(self, request: web.Request) -> web.Response:
        await self._note(request)
        found = self.history.get(request.match_info["id"])
        if found is not None:
            self.result_read.set()
        return web.json_response({request.match_info["id"]: found} if found and not self.forgets else {})

    async def _upload(self, request: web.Request) -> web.Response:
        fields: dict[str, str] = {}
        name, content = "", b""
        async for part in await request.multipart():
            if part.name == "image":
                name, content = part.filename or "", bytes(await part.read())
            else:
                fields[part.name or ""] = (await part.read()).decode()
        await self._note(request, {"name": name, **fields})
        folder, store = fields.get("subfolder", ""), fields.get("type", "input")
        if self.as_cloud:
            name, folder = f"{uuid.uuid5(uuid.NAMESPACE_OID, content.hex())}{Path(name).suffix}", ""
        elif fields.get("overwrite") not in ("true", "1"):
            name = self._free_name(store, folder, name, content)
        self.files[store, folder, name] = content
        return web.json_response({"name": name, "subfolder": folder, "type": store})

    def _free_name(self, store: str, folder: str, name: str, content: bytes) -> str:
        """As in upload_cases.json: the same bytes keep their name, others get the next free one."""
        path, number, free = Path(name), 0, name
        while self.files.get((store, folder, free), content) != content:
            number += 1
            free = f"{path.stem} ({number}){path.suffix}"
        return free

    async def _view(self, request: web.Request) -> web.StreamResponse:
        await self._note(request, dict(request.query))
        name, folder, store = (request.query.get(each, "") for each in ("filename", "subfolder", "type"))
        if ".." in name:
            return web.Response(status=400)
        if (store, folder, name) not in self.files:
            return web.Response(status=404)
        if self.as_cloud:
            return web.Response(
                status=302, headers={"Location": f"{self.storage_url}/signed/{store}/{folder}/{name}?signature=s"}
            )
        return await self._body(request, self.files[store, folder, name])

    async def _signed(self, request: web.Request) -> web.StreamResponse:
        self.views.append(dict(request.headers))
        folder, _, name = request.match_info["path"].rpartition("/")
        content = self.files.get((request.match_info["store"], folder, name))
        return web.Response(status=404) if content is None else await self._body(request, content)

    async def _body(self, request: web.Request, content: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await response.prepare(request)
        # A response to HEAD has only the size: a body would be read as the response to the next request of the
        # connection.
        for at in range(0, len(content) if request.method != "HEAD" else 0, 65_536):
            await response.write(content[at : at + 65_536])
        await response.write_eof()
        return response

    async def _stats(self, request: web.Request) -> web.Response:
        await self._note(request)
        stats = sample("system_stats")
        stats["system"]["comfyui_version"] = self.version
        stats["devices"] = self.devices or stats["devices"]
        return web.json_response(stats)

    async def _jobs(self, request: web.Request) -> web.Response:
        await self._note(request)
        if not self.as_cloud:
            return web.json_response(sample("kill_restart")["kill9_restart"]["jobs"])
        jobs = [self._listed(each) for each in reversed(self.taken.values())]
        return web.json_response({"jobs": jobs, "pagination": {"offset": 0, "limit": 100, "total": len(jobs)}})

    def _listed(self, item: Item) -> Json:
        about = item.extra.get("extra_pnginfo", {}).get("workflow", {})
        marked = {"workflow_id": about["id"]} if self.lists_workflows and "id" in about else {}
        return {"id": item.id, "status": self._status_of(item.id) or "pending", "outputs_count": 0, **marked}

    async def _job(self, request: web.Request) -> web.Response:
        await self._note(request)
        entry, item = (each.get(request.match_info["id"]) for each in (self.history, self.taken))
        if item is None or self.forgets or (entry is None and not self.as_cloud):
            return web.Response(status=404)
        body = self._listed(item) | {"workflow": {"prompt": item.graph, "extra_data": item.extra}}
        if entry is not None:
            self.result_read.set()
            errors = [data for event, data in entry["status"]["messages"] if event == "execution_error"]
            body |= {"status": "completed", "outputs": entry["outputs"]}
            body |= {"status": "failed", "execution_error": errors[0]} if errors else {}
        return web.json_response(body)

    def _status_of(self, run_id: str) -> str | None:
        status = None if self.forgets else self.ended.get(run_id)
        if status is None and self.running and self.running.id == run_id:
            status = "executing"
        if status is None and any(each.id == run_id for each in self.pending):
            status = "queued_waiting"
        return status

    async def _status(self, request: web.Request) -> web.Response:
        await self._note(request)
        status = self._status_of(request.match_info["id"])
        return web.json_response({"status": status}) if status else web.Response(status=404)

    async def _ws(self, request: web.Request) -> web.WebSocketResponse:
        client_id = request.query.get("clientId", "")
        if self.as_cloud and request.query.get("token") != KEY:
            raise web.HTTPUnauthorized()
        response = web.WebSocketResponse()
        await response.prepare(request)
        self.sockets[client_id] = response
        await response.send_json(_queue_status(0))
        if self.running and self.running.client_id == client_id and self.running.node is not None:
            await response.send_json({"type": "executing", "data": {"node": self.running.node}})
        async for message in response:
            if message.type != WSMsgType.TEXT:
                break
        if self.sockets.get(client_id) is response:
            del self.sockets[client_id]
        return response

    async def _send(self, item: Item, message: Json) -> None:
        if message.get("type") == "executing":
            item.node = message["data"]["node"]
        if self.as_cloud:
            targets = list(self.sockets.values())
        else:
            targets = [self.sockets[item.client_id]] if item.client_id in self.sockets else []
        for target in targets:
            try:
                if message.get("BINARY") and "metadata" not in message:
                    await target.send_bytes(bytes.fromhex(message["head_hex"])[:8] + self.content)
                elif message.get("BINARY"):
                    metadata = json.dumps({**message["metadata"], "prompt_id": item.id}).encode()
                    await target.send_bytes(b"\0\0\0\x04" + len(metadata).to_bytes(4, "big") + metadata + JPEG)
                else:
                    await target.send_json(message)
            except ConnectionError:
                pass

    async def _execute(self) -> None:
        while True:
            while not self.pending:
                self._wake.clear()
                await self._wake.wait()
            self.running = item = self.pending.pop(0)
            await self._run(item, self.scenario)
            self.running = None
            await self._send(item, {"type": "executing", "data": {"node": None, "prompt_id": item.id}})

    async def _run(self, item: Item, scenario: str) -> None:
        if scenario == "wedged":
            await asyncio.Event().wait()
        messages, entry = self._recorded(item, scenario)
        if scenario == "wedged_at_start":
            await self._send(item, next(each for each in messages if each.get("type") == "execution_start"))
            await asyncio.Event().wait()
        if scenario == "wedged_between":
            for message in messages[: 1 + next(n for n, each in enumerate(messages) if _all_finished(each))]:
                await self._send(item, message)
            await asyncio.Event().wait()
        if scenario == "late":
            await self._end_late(item, messages, entry)
            return
        for message in messages[:HELD_AFTER]:
            await self._send(item, message)
        if scenario in ("held", "uninterruptible"):
            # This node never checks for interruptions, so it cannot be interrupted.
            ends = (self.release, item.interrupted) if scenario == "held" else (self.release,)
            waits = [asyncio.create_task(each.wait()) for each in ends]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if item.interrupted.is_set():
            messages, entry = self._recorded(item, "interrupted")
        for message in messages[HELD_AFTER:]:
            await self._send(item, message)
        self.history[item.id] = entry
        status = entry["status"]["status_str"]
        self.ended[item.id] = "cancelled" if item.interrupted.is_set() else status

    async def _end_late(self, item: Item, messages: list[Json], entry: Json) -> None:
        """Sends the messages after the result, as if a busy client read the result first."""
        started = 1 + next(n for n, each in enumerate(messages) if each.get("type") == "execution_start")
        for message in messages[:started]:
            await self._send(item, message)
        self.history[item.id], self.ended[item.id] = entry, "success"
        await self.result_read.wait()
        for message in messages[started:]:
            await self._send(item, message)

    def _recorded(self, item: Item, scenario: str) -> tuple[list[Json], Json]:
        run, end = ENDINGS.get(scenario, ("ws_progress_with_preview_flags", None))
        recorded = json.loads(_sample_text(run).replace(sample(run)["prompt_id"], item.id))
        messages = [each["msg"] for each in recorded["messages"]]
        # The very last one follows when the entry is there.
        messages = [each for each in messages if each.get("data", {}).get("node", "") is not None]
        if end is not None:
            whole = sample(end)
            whole = whole.get("body", whole)
            [(old, _)] = whole.items()
            entry = json.loads(json.dumps(whole).replace(old, item.id))[item.id]
        else:
            entry = recorded.get("history", {})
            entry = entry.get(item.id, entry)
        if scenario in NOTHING_SAVED:
            return messages, entry | {"outputs": {}, "status": _success(item)}
        if end is None:
            outputs = self._made(item, scenario)
            entry = {"prompt": item.entry(), "outputs": outputs, "status": _success(item), "meta": {}}
            messages = [each for message in messages for each in _with_outputs(message, outputs)]
        return messages, entry

    def _made(self, item: Item, scenario: str) -> Json:
        """The recorded outputs of a shape, in the folder that this run's prefix names."""
        shapes = sample("output_shapes")
        shape = shapes.get(scenario, shapes["SaveImage_batch3"])
        outputs: Json = json.loads(json.dumps(shape["outputs"]))
        for node_id, node in outputs.items():
            prefix = str(item.graph.get(node_id, {}).get("inputs", {}).get("filename_prefix", ""))
            for value in node.values():
                for each in value:
                    if isinstance(each, dict) and "filename" in each:
                        if each["type"] == "output" and scenario != "SaveImage_two_nodes":
                            each["subfolder"] = prefix.rpartition("/")[0]
                        self.files[each["type"], each["subfolder"], each["filename"]] = self.content
        return outputs


def _with_outputs(message: Json, outputs: Json) -> list[Json]:
    """The message; a message about an output becomes one for each output. ComfyUI sends all that its history has."""
    if message.get("type") != "executed":
        return [message]
    return [
        {"type": "executed", "data": {**message["data"], "node": node, "display_node": node, "output": output}}
        for node, output in outputs.items()
    ]


def _queue_status(remaining: int) -> Json:
    return {"type": "status", "data": {"status": {"exec_info": {"queue_remaining": remaining}}}}


def _all_finished(message: Json) -> bool:
    """Whether the message says that all started nodes have finished."""
    nodes = message["data"].get("nodes") if message.get("type") == "progress_state" else None
    return bool(nodes) and all(each["state"] == "finished" for each in nodes.values())


def _success(item: Item) -> Json:
    messages = [
        ["execution_start", {"prompt_id": item.id}],
        ["execution_cached", {"nodes": [], "prompt_id": item.id}],
        ["execution_success", {"prompt_id": item.id}],
    ]
    return {"status_str": "success", "completed": True, "messages": messages}


def _refusal(scenario: str) -> Json | None:
    """A recorded refusal of POST /prompt, by its name in prompt_cases.json."""
    case = sample("prompt_cases").get(scenario)
    response: Json | None = case["response"] if case else None
    return response


@asynccontextmanager
async def replaying(*, as_cloud: bool = False) -> AsyncIterator[ReplayingEngine]:
    engine = ReplayingEngine(as_cloud=as_cloud)
    await engine.start()
    try:
        yield engine
    finally:
        engine.release.set()
        await engine.kill()
