"""The routes of prompts, queue, history and interrupt."""

from __future__ import annotations

import time
import uuid
from typing import Any

from aiohttp import web

from callsheet_lightbox.api import jobs
from callsheet_lightbox.api.responses import query_number, trouble
from callsheet_lightbox.executor import Executor
from callsheet_lightbox.node import NodeRegistry
from callsheet_lightbox.prompt_queue import AlreadyQueued, Item, PromptQueue
from callsheet_lightbox.validation import error, validate_prompt

# These are passed to partner nodes, and never shown again.
SECRETS = ("auth_token_comfy_org", "api_key_comfy_org")


class PromptRoutes:
    def __init__(self, executor: Executor, registry: NodeRegistry, client: str | None = None) -> None:
        """`client`: the client of a prompt that names none; with accounts, the account."""
        self._client = client
        self._executor = executor
        self._queue: PromptQueue = executor.queue
        self._registry = registry
        self._number = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/prompt", self.submit),
            web.get("/prompt", self.remaining),
            web.get("/queue", self.queue),
            web.post("/queue", self.change_queue),
            web.post("/interrupt", self.interrupt),
            web.post("/free", self.free),
            web.get("/history", self.history),
            web.get("/history/{prompt_id}", self.history_of),
            web.post("/history", self.change_history),
        ]

    async def submit(self, request: web.Request) -> web.Response:
        body = await request.json()
        number = self._next_number(body)
        if "prompt" not in body:
            refusal = error("no_prompt", "No prompt provided", "No prompt provided")
            return web.json_response({"error": refusal, "node_errors": {}}, status=400)
        prompt = body["prompt"]
        # `null` becomes "None" and 17 becomes "17", as in ComfyUI.
        prompt_id = str(body.get("prompt_id", uuid.uuid4()))
        folders = self._executor.engine.folders
        verdict = validate_prompt(prompt, self._registry, folders, body.get("partial_execution_targets"))
        extra_data = body.get("extra_data", {})
        if "client_id" in body:
            extra_data["client_id"] = body["client_id"]
        elif self._client is not None:
            extra_data.setdefault("client_id", self._client)
        if verdict.error is not None:
            return web.json_response({"error": verdict.error, "node_errors": verdict.node_errors}, status=400)
        extra_data = {key: value for key, value in extra_data.items() if key not in SECRETS}
        extra_data["create_time"] = int(time.time() * 1000)
        return self._enqueue(Item(number, prompt_id, prompt, extra_data, verdict.outputs), verdict.node_errors)

    def _enqueue(self, item: Item, node_errors: dict[str, Any]) -> web.Response:
        try:
            self._queue.put(item, self._executor.announce_queue)
        except AlreadyQueued:
            return trouble()
        body = {"prompt_id": item.prompt_id, "number": item.number, "node_errors": node_errors}
        return web.json_response(body)

    def _next_number(self, body: Any) -> float:
        if "number" in body:
            return float(body["number"])
        number = self._number
        # A refused request takes a number, too.
        self._number += 1
        return -number if isinstance(body, dict) and body.get("front") else number

    async def remaining(self, request: web.Request) -> web.Response:
        return web.json_response(self._executor.status()["status"])

    async def queue(self, request: web.Request) -> web.Response:
        running = [item.as_list() for item in self._queue.running()]
        return web.json_response(
            {"queue_running": running, "queue_pending": [item.as_list() for item in self._queue.pending()]}
        )

    async def change_queue(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("clear"):
            self._queue.clear()
        for prompt_id in body.get("delete", ()):
            self._queue.delete(prompt_id)
        self._executor.announce_queue()
        return web.Response()

    async def interrupt(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        prompt_id = body.get("prompt_id")
        self._queue.interrupt(str(prompt_id) if prompt_id else None)
        return web.Response()

    async def free(self, request: web.Request) -> web.Response:
        body = await request.json()
        # There are no models to unload.
        if body.get("free_memory", False):
            self._executor.forget_results()
        return web.Response()

    async def history(self, request: web.Request) -> web.Response:
        offset = query_number(request, "offset", -1)
        assert offset is not None
        return web.json_response(self._queue.history(query_number(request, "max_items", None), offset))

    async def history_of(self, request: web.Request) -> web.Response:
        prompt_id = request.match_info["prompt_id"]
        entry = self._queue.history_of(prompt_id)
        return web.json_response({} if entry is None else {prompt_id: entry})

    async def change_history(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("clear"):
            self._queue.forget_all()
        for prompt_id in body.get("delete", ()):
            self._queue.forget(prompt_id)
        return web.Response()

    async def jobs(self, request: web.Request) -> web.Response:
        status, body = jobs.page(jobs.all_jobs(self._queue), request.query)
        return web.json_response(body, status=status)

    async def job(self, request: web.Request) -> web.Response:
        found = jobs.job(self._queue, request.match_info["job_id"])
        return web.json_response(found or {"error": "Job not found"}, status=200 if found else 404)
