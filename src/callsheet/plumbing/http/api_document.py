"""The OpenAPI document of all routes, with its texts and its problems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from callsheet.plumbing.http.openapi_texts import describe_operations
from callsheet.plumbing.http.problems import document_problems
from callsheet.plumbing.http.routing import DeclaredRoute, MountedFiles, build


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
