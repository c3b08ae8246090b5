"""Real exchanges as docs/protocol.md shows them: values that differ from run to run are replaced by constant ones.

Between `<!-- example: name -->` and `<!-- /example -->` the document has exactly what `rendered` makes of the exchange.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

import httpx

Json = dict[str, Any]
BLOCK = re.compile(r"<!-- example: ([a-z-]+) -->\n(.*?)<!-- /example -->", re.DOTALL)
BASE = "https://callsheet.example"
TOKEN = "3f0a…b91c"
TIME = "2026-02-15T12:15:00Z"

_UUIDS = {
    "tenant_id": "0195f2a0-7c1e-7b5e-9d57-2f6a1b0c3d4e",
    "job_id": "0195f2a1-0b3c-7e21-8a44-51c7d2e9f001",
    "effect_id": "0195f29f-aa10-7c00-b6f5-0c9d8e7f6a5b",
    "lease_token": "6d1f4c0e-52b7-4f0b-9a77-8d2c5e1b3a90",
}
_PLAIN: Json = {
    "dispatch_id": 4711,
    "lease_ttl_seconds": 900.0,
    "lease_expires_at": TIME,
    "expires_at": "2026-02-15T13:00:00Z",
    "token": TOKEN,
    "rotated_token": "9c41…07ee",
    "request_id": "5d0c1e2f",
}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_QUERY = re.compile(r"\?expires=.*$")


def rendered(path: str, body: Json, response: httpx.Response) -> str:
    header = "X-Fleet-Secret: …" if path.endswith("/register") else f"Authorization: Bearer {TOKEN}"
    status = HTTPStatus(response.status_code)
    response_text = f"{status.value} {status.phrase}"
    if response.content:
        response_text += f"\nContent-Type: {response.headers['content-type']}\n\n{_shown(response.json())}"
    request_text = f"POST {path}\n{header}\nContent-Type: application/json\n\n{_shown(body)}"
    return f"```http\n{request_text}\n```\n```http\n{response_text}\n```\n"


def with_examples(document: str, examples: dict[str, str]) -> str:
    """The document with these examples in their places. The text of an unknown example is removed."""

    def replace(found: re.Match[str]) -> str:
        return f"<!-- example: {found[1]} -->\n{examples.get(found[1], '')}<!-- /example -->"

    return BLOCK.sub(replace, document)


def names_in(document: str) -> list[str]:
    return [name for name, _ in BLOCK.findall(document)]


def _shown(body: Json) -> str:
    return json.dumps(_normal(body), indent=2, ensure_ascii=False)


def _normal(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: _normal(member, key) for key, member in value.items()}
        case list():
            return [_normal(item, name) for item in value]
        case str() if name in _UUIDS and _UUID.fullmatch(value):
            return _UUIDS[name]
        case str() if value.startswith("http://"):
            return _constant_url(value)
        case None:
            return None
    return _PLAIN.get(name, value)


def _constant_url(url: str) -> str:
    address = re.sub(r"^http://[^/]+", BASE, _QUERY.sub("?expires=…&signature=…", url))
    address = re.sub(r"/tenants/[^/]+/", f"/tenants/{_UUIDS['tenant_id']}/", address)
    address = re.sub(r"/ai-jobs/[^/]+/output-[^.]+", f"/ai-jobs/{_UUIDS['job_id']}/output-…", address)
    return re.sub(r"/uploads/\d+/", "/uploads/7/", address)
