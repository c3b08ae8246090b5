"""A workflow to make effects of, and an API client that makes and sells them.

catalog_api = await CatalogApi.open(plane, client, people)
effect = await catalog_api.effect(credits_cost=5)          # a workflow of its own below it
video = await catalog_api.video(ann)
job = await catalog_api.submit(ann, effect, video_id=video)
"""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person

_numbers = itertools.count(1)

GRAPH: dict[str, Any] = {
    "1": {"class_type": "LoadVideo", "inputs": {"file": "__INPUT_PATH__"}},
    "2": {"class_type": "LoadImage", "inputs": {"image": "__OVERLAY__"}, "_meta": {"title": "Overlay"}},
    "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "{{prompt}}, in a {{style}} look", "clip": ["4", 1]}},
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "5": {
        "class_type": "KSampler",
        "inputs": {
            "seed": "{{seed}}",
            "steps": 20,
            "cfg": "{{strength}}",
            "tiled": "{{tiled}}",
            "model": ["4", 0],
            "positive": ["3", 0],
            "latent_image": ["1", 0],
            "overlay": ["2", 0],
        },
    },
    "9": {"class_type": "SaveVideo", "inputs": {"video": ["5", 0], "filename_prefix": "callsheet"}},
}
PRIMARY = {"key": "input", "type": "video", "placeholder": "__INPUT_PATH__", "is_primary_input": True}
PROMPT = {"key": "prompt", "type": "text", "placeholder": "{{prompt}}", "required": True, "user_configurable": True}
STYLE = {
    "key": "style",
    "type": "choice",
    "placeholder": "{{style}}",
    "default": "noir",
    "user_configurable": True,
    "limits": {"choices": ["noir", "pastel", "1920s"]},
}
SEED = {
    "key": "seed",
    "type": "number",
    "placeholder": "{{seed}}",
    "default": 7,
    "limits": {"integer": True, "min": 0, "max": 2**63},
}
STRENGTH = {
    "key": "strength",
    "type": "number",
    "placeholder": "{{strength}}",
    "default": 7.5,
    "user_configurable": True,
    "limits": {"min": 0, "max": 10, "step": 0.5},
}
TILED = {"key": "tiled", "type": "boolean", "placeholder": "{{tiled}}", "default": False, "user_configurable": True}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MP4 = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(300)


def overlay(asset_id: str) -> dict[str, Any]:
    return {
        "key": "overlay",
        "type": "image",
        "placeholder": "__OVERLAY__",
        "default": asset_id,
        "user_configurable": True,
    }


def workflow(asset_id: str, **changes: Any) -> dict[str, Any]:
    """A request for a workflow that uses every type of property."""
    request = {
        "slug": f"stylize-{next(_numbers)}",
        "name": "Stylize",
        "graph": copy.deepcopy(GRAPH),
        "properties": copy.deepcopy([PRIMARY, PROMPT, STYLE, SEED, STRENGTH, TILED, overlay(asset_id)]),
        "output_node_id": "9",
    }
    return {**request, **changes}


@dataclass(frozen=True, slots=True)
class CatalogApi:
    client: httpx.AsyncClient
    people: People
    admin: Person
    # An image of the catalog, ready.
    asset: str

    @classmethod
    async def open(cls, plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
        catalog_api = cls(client, people, await people.admin(), "")
        return cls(client, people, catalog_api.admin, await catalog_api.add_asset())

    async def call(self, method: str, path: str, body: Any = None, *, person: Person | None = None) -> httpx.Response:
        """Sends a request as the admin, or as another user. httpx's own encoder is not used, because it refuses
        values that a bad client may send.
        """
        headers = (person or self.admin).headers | {"content-type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.client.request(method, path, content=content, headers=headers)

    async def sold_image_workflow(self, graph: dict[str, Any], cost: int = 5) -> str:
        """A workflow that makes an image at its node `save`, and an effect that sells it for this cost."""
        image = {"output_extension": "png", "output_mime_type": "image/png", "output_node_id": "save"}
        slug = str((await self.workflow(graph=graph, properties=[], **image))["slug"])
        await self.effect(slug, credits_cost=cost)
        return slug

    async def shown(self, person: Person, path: str) -> dict[str, Any]:
        response = await self.call("GET", path, person=person)
        assert response.status_code == 200, response.text
        shown: dict[str, Any] = response.json()
        return shown

    async def made(self, path: str, body: Any, *, person: Person | None = None) -> dict[str, Any]:
        response = await self.call("POST", path, body, person=person)
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()
        return made

    async def add_asset(self, content: bytes = PNG, mime_type: str = "image/png") -> str:
        """The id of an asset that was uploaded and confirmed."""
        declared = {"name": "overlay.png", "mime_type": mime_type, "size": len(content)}
        created = await self.made("/api/admin/assets", declared)
        await self.put(created["upload"], content)
        confirmed = await self.call("POST", f"/api/admin/assets/{created['asset']['id']}/confirm")
        assert confirmed.status_code == 200, confirmed.text
        return str(created["asset"]["id"])

    async def put(self, upload: dict[str, Any], content: bytes) -> None:
        response = await self.client.put(upload["url"], content=content, headers=upload["headers"])
        assert response.is_success, response.text

    async def workflow(self, **changes: Any) -> dict[str, Any]:
        return await self.made("/api/admin/workflows", workflow(self.asset, **changes))

    async def effect(self, workflow: str | None = None, **changes: Any) -> dict[str, Any]:
        """A published effect, of a workflow of its own unless one is named."""
        slug = workflow or (await self.workflow())["slug"]
        number = next(_numbers)
        request = {"slug": f"effect-{number}", "name": f"Effect {number}", "workflow": slug, "is_published": True}
        if "price_formula" not in changes:
            request["credits_cost"] = 0
        return await self.made("/api/admin/effects", {**request, **changes})

    async def person(self, pool: str = "pool_1", tokens: int = 100, *, tenant_of: Person | None = None) -> Person:
        person = await self.people.user(tenant_of.tenant if tenant_of else None, pool=pool)
        if tokens:
            credit = {"amount": tokens, "provider_transaction_id": f"studio-{next(_numbers)}"}
            response = await self.call("POST", f"/api/admin/users/{person.user.id}/credits", credit)
            assert response.status_code == 200, response.text
        return person

    async def file(
        self, person: Person, content: bytes = MP4, mime_type: str = "video/mp4", name: str = "a.mp4"
    ) -> str:
        """The id of a file of the person's, uploaded and confirmed."""
        declared = {"name": name, "mime_type": mime_type, "size": len(content)}
        created = await self.made("/api/videos/uploads", declared, person=person)
        await self.put(created["upload"], content)
        confirmed = await self.call("POST", f"/api/videos/uploads/{created['file']['id']}/confirm", person=person)
        assert confirmed.status_code == 200, confirmed.text
        return str(created["file"]["id"])

    async def video(self, person: Person) -> str:
        file_id = await self.file(person)
        return str((await self.made("/api/videos", {"original_file_id": file_id}, person=person))["id"])

    async def try_submit(self, person: Person, effect: dict[str, Any], **changes: Any) -> httpx.Response:
        request = {"effect_id": effect["slug"], "input_payload": {"prompt": "a cat"}, **changes}
        return await self.call("POST", "/api/ai-jobs", request, person=person)

    async def submit(self, person: Person, effect: dict[str, Any], **changes: Any) -> dict[str, Any]:
        response = await self.try_submit(person, effect, **changes)
        assert response.status_code == 201, response.text
        job: dict[str, Any] = response.json()
        return job
