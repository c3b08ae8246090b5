"""Behaves like Comfy Cloud: with an account's key, its own job states, and outputs behind signed URLs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from callsheet_lightbox.api import jobs
from callsheet_lightbox.api.file_routes import FileRoutes, content_hash, copy_file, find_file
from callsheet_lightbox.api.prompt_routes import PromptRoutes
from callsheet_lightbox.api.responses import Handler
from callsheet_lightbox.executor import Executor
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.prompt_queue import Item

# Accounts that are refused, to test clients.
KEY_WITHOUT_CREDITS = "key-without-credits"
KEY_OF_INACTIVE_SUBSCRIPTION = "key-of-inactive-subscription"
# How long a signed URL is valid, in seconds.
LINK_LIFETIME = 300
STORAGE = "/storage"
MAX_LIMIT = 1000


def cloud_key(expected: str) -> Any:
    """Refuses requests without the account's key: in a header, or for the socket in `token`."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == STORAGE:
            return await handler(request)
        given = request.query.get("token", "") if request.path == "/ws" else request.headers.get("X-API-Key", "")
        if request.path == "/api/prompt" and request.method == "POST":
            if given == KEY_WITHOUT_CREDITS:
                return _refusal(402, "Insufficient credits")
            if given == KEY_OF_INACTIVE_SUBSCRIPTION:
                return _refusal(429, "Subscription is not active")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode()):
            return _refusal(401, "Invalid or missing API key")
        return await handler(request)

    return check


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"type": "cloud", "message": message}, "message": message}, status=status)


class CloudRoutes:
    def __init__(self, executor: Executor, prompts: PromptRoutes, files: FileRoutes, folders: Folders) -> None:
        self._queue = executor.queue
        self._prompts = prompts
        self._files = files
        self._folders = folders
        self._secret = secrets.token_bytes(32)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/prompt", self._prompts.submit),
            web.get("/api/queue", self._prompts.queue),
            web.post("/api/queue", self.change_queue),
            web.post("/api/interrupt", self.interrupt),
            web.get("/api/job/{job_id}/status", self.status),
            web.get("/api/jobs", self.jobs),
            web.get("/api/jobs/{job_id}", self.job),
            web.get("/api/history_v2", self.history),
            web.get("/api/history_v2/{prompt_id}", self._prompts.history_of),
            web.post("/api/upload/image", self.upload),
            web.post("/api/upload/mask", self._files.upload_mask),
            web.get("/api/view", self.view),
            web.get(STORAGE, self.stored),
        ]

    async def change_queue(self, request: web.Request) -> web.Response:
        """Removes waiting and running prompts, as the cloud's guide says, although its specification does not."""
        response = await self._prompts.change_queue(request)
        for prompt_id in (await request.json()).get("delete", ()):
            self._queue.interrupt(str(prompt_id))
        return response

    async def interrupt(self, request: web.Request) -> web.Response:
        """Interrupts everything that the account runs; the body is ignored."""
        self._queue.interrupt()
        return web.Response()

    async def status(self, request: web.Request) -> web.Response:
        found = self._find(request.match_info["job_id"])
        if found is None:
            return _refusal(404, "Job not found")
        times = (found.get("create_time"), found.get("execution_end_time") or found.get("create_time"))
        created, updated = (datetime.fromtimestamp((each or 0) / 1000, UTC).isoformat() for each in times)
        body = {
            "id": found["id"],
            "status": _raw_status(found),
            "created_at": created,
            "updated_at": updated,
            "last_state_update": updated,
        }
        failure = found.get("execution_error")
        return web.json_response(body | ({"error_message": failure["exception_message"]} if failure else {}))

    async def jobs(self, request: web.Request) -> web.Response:
        found = [_renamed(each) for each in jobs.all_jobs(self._queue)]
        found += [_cancelled(item) for item in self._queue.cancelled()]
        limit = request.query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= MAX_LIMIT:
            return _refusal(400, f"limit must be between 1 and {MAX_LIMIT}")
        status, body = jobs.page(found, {**request.query, "limit": limit})
        return web.json_response(body, status=status)

    async def job(self, request: web.Request) -> web.Response:
        found = self._find(request.match_info["job_id"])
        return web.json_response(_renamed(found)) if found is not None else _refusal(404, "Job not found")

    def _find(self, job_id: str) -> dict[str, Any] | None:
        found = jobs.job(self._queue, job_id)
        if found is None:
            found = next((_cancelled(item) for item in self._queue.cancelled() if item.prompt_id == job_id), None)
        return found

    async def history(self, request: web.Request) -> web.Response:
        entries = self._queue.history()
        return web.json_response({"history": [{"prompt_id": key, **entry} for key, entry in entries.items()]})

    async def upload(self, request: web.Request) -> web.Response:
        """Stores a file by its content: the name is the hash, and the subfolder is ignored."""
        form = await request.post()
        file = form.get("image")
        if not isinstance(file, web.FileField):
            return _refusal(400, "image is missing")
        return await asyncio.to_thread(self._store, file)

    def _store(self, file: web.FileField) -> web.Response:
        name = content_hash(file).hexdigest() + os.path.splitext(file.filename)[1].lower()
        copy_file(file, self._folders.input / name)
        return web.json_response({"name": name, "subfolder": "", "type": "input"})

    async def view(self, request: web.Request) -> web.Response:
        found = find_file(self._folders, request.query)
        if isinstance(found, int):
            return web.Response(status=found)
        wanted = {key: request.query[key] for key in ("filename", "subfolder", "type") if key in request.query}
        wanted["expires"] = str(int(time.time()) + LINK_LIFETIME)
        location = f"{STORAGE}?{urlencode({**wanted, 'signature': self._sign(wanted)})}"
        return web.Response(status=302, headers={"Location": location})

    async def stored(self, request: web.Request) -> web.StreamResponse:
        # A real bucket ignores the key; here, a client that sends its key to a storage host is detected.
        if "X-API-Key" in request.headers:
            return _refusal(400, "The API key does not belong here")
        given = dict(request.query)
        signature = given.pop("signature", "")
        # The signature is checked first: what it covers is then known to be a number.
        if not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), self._sign(given).encode()):
            return web.Response(status=403)
        if int(given["expires"]) < time.time():
            return web.Response(status=403)
        return await self._files.view(request)

    def _sign(self, wanted: dict[str, str]) -> str:
        return hmac.new(self._secret, urlencode(sorted(wanted.items())).encode(), hashlib.sha256).hexdigest()


def _cancelled(item: Item) -> dict[str, Any]:
    created = item.extra_data.get("create_time")
    return {"id": item.prompt_id, "status": "cancelled", "create_time": created, "outputs_count": 0}


def _renamed(job: dict[str, Any]) -> dict[str, Any]:
    """ComfyUI calls an interrupted run failed; the cloud calls it cancelled."""
    interrupted = job["status"] == "failed" and "execution_error" not in job
    return {**job, "status": "cancelled"} if interrupted else job


def _raw_status(job: dict[str, Any]) -> str:
    """The internal states that the cloud returns, not the ones it publishes."""
    states = {"pending": "queued_waiting", "in_progress": "executing", "completed": "success", "failed": "error"}
    return states.get(_renamed(job)["status"], "cancelled")
