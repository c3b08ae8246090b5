"""Content that users created before a test, by the API: uploads, jobs, and effects that wait or fail on purpose."""

from __future__ import annotations

import io
import re
import uuid
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.stack import Account, Stack
from tests.support.waiting import until

PAINT: dict[str, Any] = {
    "class_type": "LightboxTextToImage",
    "inputs": {"text": "{{prompt}}", "seed": 1, "width": 256, "height": 160, "steps": "{{steps}}", "batch_size": 1},
}
# A choice that no engine has.
BROKEN_CHOICE = "NoSuchMethod"
SCALE = {"image": ["paint", 0], "width": 64, "height": 64, "crop": "disabled"}
SAVE: dict[str, Any] = {"class_type": "SaveImage", "inputs": {"images": ["paint", 0], "filename_prefix": "test"}}
LOAD = {"class_type": "LoadImage", "inputs": {"image": "__INPUT_PATH__"}}
INPUT = {"key": "input", "type": "image", "placeholder": "__INPUT_PATH__", "is_primary_input": True}
PROPERTIES = [
    {"key": "prompt", "type": "text", "placeholder": "{{prompt}}", "user_configurable": True, "required": True},
    {"key": "steps", "type": "number", "placeholder": "{{steps}}", "user_configurable": True, "default": 8},
]


async def sell(
    stack: Stack,
    name: str,
    *,
    cost: int = 5,
    is_served: bool = True,
    is_broken: bool = False,
    broken_choice: str = BROKEN_CHOICE,
    missing_node: str | None = None,
    images: int = 1,
    paintings: int = 1,
    takes_bytes: int | None = None,
) -> str:
    """Creates an effect that paints, and returns its slug.

    Jobs of an effect that is not served wait without end, and so do jobs whose graph has a `missing_node`. Jobs of a
    broken effect fail at once, because a node has the `broken_choice`. With more `paintings` a job takes longer:
    so many images are painted, one after the other. With `takes_bytes` the effect needs an image of at most that size.
    """
    slug = f"{re.sub('[^a-z0-9]+', '-', name.lower())[:20].strip('-')}-{uuid.uuid4().hex[:6]}"
    paint = {**PAINT, "inputs": {**PAINT["inputs"], "batch_size": images}}
    graph = {"paint": paint, "save": SAVE}
    if is_broken:
        graph["broken"] = {"class_type": "ImageScale", "inputs": {**SCALE, "upscale_method": broken_choice}}
        graph["save"] = {**SAVE, "inputs": {**SAVE["inputs"], "images": ["broken", 0]}}
    if missing_node is not None:
        graph["missing"] = {"class_type": missing_node, "inputs": {}}
    for number in range(1, paintings):
        graph[f"paint-{number}"] = {**paint, "inputs": {**paint["inputs"], "seed": 1 + number}}
        graph[f"save-{number}"] = {**SAVE, "inputs": {**SAVE["inputs"], "images": [f"paint-{number}", 0]}}
    properties = list(PROPERTIES)
    if takes_bytes is not None:
        graph |= {"load": LOAD, "save": {**SAVE, "inputs": {**SAVE["inputs"], "images": ["load", 0]}}}
        properties.append({**INPUT, "limits": {"max_bytes": takes_bytes}})
    workflow = {
        "slug": slug,
        "name": name,
        "graph": graph,
        "properties": properties,
        "output_node_id": "save",
        "output_extension": "png",
        "output_mime_type": "image/png",
    }
    effect = {"slug": slug, "name": name, "description": f"{name}, in words", "workflow": slug, "credits_cost": cost}
    effect["is_published"] = True
    async with stack.client(stack.operator) as client:
        for path, body in (("workflows", workflow), ("effects", effect)):
            created = await client.post(f"/api/admin/{path}", json=body)
            assert created.status_code == 201, created.text
    if is_served:
        await serve(stack, slug)
    return slug


async def serve(stack: Stack, workflow: str) -> None:
    """Lets the worker of the demo run the workflow from now on."""
    async with stack.client(stack.operator) as client:
        [fleet] = (await client.get("/api/admin/fleets?slug=demo")).json()["items"]
        changed = await client.patch(f"/api/admin/fleets/{fleet['id']}/workflows", json={"add": [workflow]})
        assert changed.is_success, changed.text


async def submit(stack: Stack, account: Account, effect: str, file_id: str | None = None, **values: Any) -> str:
    body = {"effect_id": effect, "input_payload": values, "input_file_id": file_id}
    async with stack.client(account.headers) as client:
        created = await client.post("/api/ai-jobs", json=body)
    assert created.status_code == 201, created.text
    return str(created.json()["id"])


async def upload(stack: Stack, account: Account, name: str = "beach-walk.mp4") -> str:
    """The demo's sample clip under another name, or a small image if the name ends in .png."""
    is_image = name.endswith(".png")
    content = _image() if is_image else (stack.home / "demo/sample.mp4").read_bytes()
    async with stack.client(account.headers) as client:
        body = {"name": name, "mime_type": "image/png" if is_image else "video/mp4", "size": len(content)}
        created = await client.post("/api/videos/uploads", json=body)
        assert created.status_code == 201, created.text
        wanted = created.json()["upload"]
        sent = await client.put(wanted["url"], content=content, headers=wanted["headers"])
        assert sent.is_success, sent.text
        file_id = str(created.json()["file"]["id"])
        confirmed = await client.post(f"/api/videos/uploads/{file_id}/confirm")
        assert confirmed.is_success, confirmed.text
    return file_id


def _image() -> bytes:
    content = io.BytesIO()
    Image.linear_gradient("L").resize((320, 200)).save(content, "PNG")
    return content.getvalue()


async def job_of(stack: Stack, account: Account, job_id: str) -> dict[str, Any]:
    async with stack.client(account.headers) as client:
        found: dict[str, Any] = (await client.get(f"/api/ai-jobs/{job_id}")).json()
    return found


async def ended(stack: Stack, account: Account, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    found: dict[str, Any] = {}

    async def has_ended() -> bool:
        found.update(await job_of(stack, account, job_id))
        return bool(found["completed_at"])

    await until(has_ended)
    return found


async def batch_ended(stack: Stack, account: Account, batch_id: str) -> None:
    async with stack.client(account.headers) as client:

        async def has_ended() -> bool:
            return bool((await client.get(f"/api/batches/{batch_id}")).json()["status"] == "finished")

        await until(has_ended)


def content_of(path: Path) -> bytes:
    return path.read_bytes()
