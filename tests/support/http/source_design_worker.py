"""The worker program of the source design, written from its description alone, as a separate program.

It polls, keeps its lease in a thread, renders on a ComfyUI, uploads to `output_url` and reports. It sends only the
headers of the description, does not use `wait_seconds` or announced outputs, and reads every response from `data`.
"""

from __future__ import annotations

import json
import mimetypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

API_BASE_URL = os.environ["API_BASE_URL"]
COMFYUI_BASE_URL = os.environ["COMFYUI_BASE_URL"]
FLEET_SECRET = os.environ["FLEET_SECRET"]
WORKER_ID = os.environ["WORKER_ID"]
WORKFLOW_SLUGS = os.environ["WORKFLOW_SLUGS"].split(",")
MAX_CONCURRENCY = 1
PROVIDERS = ["self_hosted"]
# The description has 2 seconds.
POLL_SECONDS = float(os.environ.get("POLL_SECONDS", "2"))
HEARTBEAT_INTERVAL_SECONDS = float(os.environ.get("HEARTBEAT_INTERVAL_SECONDS", "30"))

_shutdown_requested = threading.Event()
_http = httpx.Client(trust_env=False, timeout=30)
Json = dict[str, Any]


class Interrupted(Exception):
    """The machine is interrupted."""


def call(path: str, body: Json, headers: dict[str, str]) -> Json:
    response = _http.post(f"{API_BASE_URL}/api/worker/{path}", json=body, headers=headers)
    response.raise_for_status()
    data: Json = response.json()["data"]
    return data


def register() -> str:
    body = {
        "worker_id": WORKER_ID,
        "workflow_slugs": WORKFLOW_SLUGS,
        "max_concurrency": MAX_CONCURRENCY,
        "capabilities": {"gpu": "none"},
    }
    registered = call("register", body, {"X-Fleet-Secret": FLEET_SECRET})
    assert registered["worker_id"] == WORKER_ID
    assert registered["workflows_assigned"] == WORKFLOW_SLUGS
    return str(registered["token"])


def main() -> None:
    bearer = {"Authorization": f"Bearer {register()}"}
    while not _shutdown_requested.is_set():
        request = {
            "worker_id": WORKER_ID,
            "capabilities": {},
            "current_load": 0,
            "max_concurrency": MAX_CONCURRENCY,
            "providers": PROVIDERS,
        }
        job = call("poll", request, bearer).get("job")
        if job is None:
            _shutdown_requested.wait(POLL_SECONDS)
        else:
            work_on(job, bearer)
    call("deregister", {}, bearer)


def work_on(job: Json, bearer: dict[str, str]) -> None:
    lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
    with heartbeats(lease, bearer):
        try:
            delivered = process_job(job)
        except Interrupted as why:
            call("requeue", {**lease, "reason": str(why)}, bearer)
            return
        except Exception as error:  # noqa: BLE001 - any error is reported to the control plane
            call("fail", {**lease, "error_message": str(error)}, bearer)
            return
        call("complete", {**lease, **delivered}, bearer)


@contextmanager
def heartbeats(lease: Json, bearer: dict[str, str]) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_INTERVAL_SECONDS):
            call("heartbeat", lease, bearer)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def process_job(job: Json) -> Json:
    payload = job["input_payload"]
    names = {asset["placeholder"]: upload_asset(asset, place) for place, asset in enumerate(payload["assets"])}
    prompt_id, outputs = run_comfyui(prepare_workflow(payload["workflow"], names))
    file = extract_output_file(outputs, payload["output_node_id"])
    view = _http.get(f"{COMFYUI_BASE_URL}/view", params=file)
    view.raise_for_status()
    _http.put(job["output_url"], content=view.content, headers=job["output_headers"]).raise_for_status()
    mime_type = mimetypes.guess_type(file["filename"])[0]
    output = {"size": len(view.content), "mime_type": mime_type, "metadata": {"node": payload["output_node_id"]}}
    return {"provider_job_id": prompt_id, "output": output}


def upload_asset(asset: Json, place: int) -> str:
    content = _http.get(asset["download_url"])
    content.raise_for_status()
    response = _http.post(f"{COMFYUI_BASE_URL}/upload/image", files={"image": (f"asset-{place}", content.content)})
    response.raise_for_status()
    return str(response.json()["name"])


def prepare_workflow(workflow: Json, names: dict[str, str]) -> Json:
    text = json.dumps(workflow)
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    prepared: Json = json.loads(text)
    return prepared


def run_comfyui(workflow: Json) -> tuple[str, Json]:
    prompt_id = str(_http.post(f"{COMFYUI_BASE_URL}/prompt", json={"prompt": workflow}).json()["prompt_id"])
    while not _shutdown_requested.is_set():
        entry = _http.get(f"{COMFYUI_BASE_URL}/history/{prompt_id}").json().get(prompt_id) or {}
        if entry.get("outputs"):
            return prompt_id, entry["outputs"]
        time.sleep(POLL_SECONDS)
    raise Interrupted("SIGTERM")


def extract_output_file(outputs: Json, node_id: str) -> Json:
    for key in ("videos", "gifs", "images", "files"):
        for file in outputs.get(node_id, {}).get(key) or []:
            return {"filename": file["filename"], "subfolder": file["subfolder"], "type": file["type"]}
    raise RuntimeError(f"Node {node_id} made no file.")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: _shutdown_requested.set())
    main()
    sys.exit(0)
