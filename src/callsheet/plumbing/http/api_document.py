"""The OpenAPI document of all routes: its problems, its texts from openapi_texts.toml, and the pages that show it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from typing import Any, Final

from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from callsheet.plumbing.http.problems import document_problems
from callsheet.plumbing.http.routing import DeclaredRoute, MountedFiles, Router, build


class ApiDocument:
    def __init__(self, routes: Sequence[DeclaredRoute | MountedFiles]):
        self.routes = routes

    @cached_property
    def text(self) -> bytes:
        """The document as it is sent. It takes a second to make, so it is made for its first request."""
        return json.dumps(self.content(), ensure_ascii=False, separators=(",", ":")).encode()

    def content(self) -> dict[str, Any]:
        document = build(self.routes).openapi()
        document_problems(document)
        describe_operations(document)
        return document


TEXTS: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    resources.files("callsheet.plumbing.http").joinpath("openapi_texts.toml").read_text(encoding="utf-8")
)
PARAMETERS: Final[Mapping[str, str]] = TEXTS["parameters"]
# Examples of parameters whose schema is only a text, by their names.
PARAMETER_EXAMPLES: Final[Mapping[str, str]] = TEXTS["parameter_examples"]
FORMAT_EXAMPLES: Final[Mapping[str, str]] = {
    "uuid": "0190a5c0-7b1c-7c3e-8d2f-5e6a7b8c9d0e",
    "date-time": "2026-01-31T12:00:00Z",
}


def describe_operations(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            _describe(operation, document["components"]["schemas"])


def _describe(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Adds the texts to an operation. An operation that the file does not name gets the first sentence of its
    docstring.
    """
    text = TEXTS.get(operation["operationId"], {})
    summary = text.get("summary") or _first_sentence(operation.get("description", ""))
    if summary:
        operation["summary"] = summary
    if "example" in text and "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["example"] = text["example"]
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in PARAMETERS:
            parameter.setdefault("description", PARAMETERS[parameter["name"]])
        examples = PARAMETER_EXAMPLES | text.get("parameter_examples", {})
        example = _example(parameter["schema"], examples.get(parameter["name"]), schemas)
        if example is not None:
            parameter.setdefault("example", example)


def _example(schema: Mapping[str, Any], text: str | None, schemas: Mapping[str, Any]) -> Any:
    """The example: that of the field, the default, the first choice, or a value of the format. If the schema has none
    of these, the given text.
    """
    if "examples" in schema:
        return schema["examples"][0]
    if schema.get("default"):
        return schema["default"]
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].rpartition("/")[2]], text, schemas)
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], text, schemas)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "array":
            item = _example(schema["items"], text, schemas)
            return None if item is None else [item]
        case "boolean":
            return schema.get("default", True)
        case "integer" | "number":
            return schema.get("default", max(1, schema.get("minimum", 1)))
    return FORMAT_EXAMPLES.get(schema.get("format", ""), text)


def _first_sentence(description: str) -> str:
    sentence, stop, _ = " ".join(description.split("\n\n")[0].split()).partition(". ")
    return sentence if stop else sentence.removesuffix(".")


DOCUMENT = "/openapi.json"
ASSETS = "/docs/assets"
# The page starts with one inline script and shows its logo as a data: image.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'"
)


def docs_router(document: ApiDocument) -> Router:
    router = Router(include_in_schema=False)
    directory = resources.files("fastapi_offline").joinpath("static")
    router.mount(ASSETS, StaticFiles(directory=str(directory)))

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url=DOCUMENT,
            title="Callsheet API",
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{ASSETS}/favicon.png",
        )
        page.headers["content-security-policy"] = CONTENT_SECURITY_POLICY
        return page

    @router.head(DOCUMENT)
    @router.get(DOCUMENT)
    async def openapi() -> Response:
        return Response(document.text, media_type="application/json")

    return router
