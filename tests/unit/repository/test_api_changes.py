"""The OpenAPI document has no change that breaks a client of the last release (docs/api-stability.md)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.api_changes import breaking_changes, current_document, keep, released_document

JOBS = "/api/jobs"


def document() -> dict[str, Any]:
    """A small API with a list, a request with its bounds, and a tree that contains itself."""
    submit = {
        "type": "object",
        "properties": {
            "effect": {"type": "string", "maxLength": 200, "enum": ["noir", "sepia"]},
            "priority": {"type": "integer", "minimum": -3, "maximum": 0},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["effect"],
        "additionalProperties": False,
    }
    job = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "status": {"type": "string", "enum": ["queued", "done"]},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}},
        },
        "required": ["id", "status"],
    }
    shown = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}}}
    limit = {"in": "query", "name": "limit", "required": False, "schema": {"type": "integer", "maximum": 200}}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Submit"}}}}
    return {
        "paths": {
            JOBS: {
                "get": {"parameters": [limit], "responses": {"200": shown}},
                "post": {"requestBody": body, "responses": {"201": shown}},
            }
        },
        "components": {"schemas": {"Submit": submit, "Job": job}},
    }


def schema(api: dict[str, Any], name: str) -> Any:
    return api["components"]["schemas"][name]


def parameter(**changes: Any) -> dict[str, Any]:
    return {"in": "query", "name": "status", "required": False, "schema": {"type": "string"}} | changes


def change(edit: Callable[[dict[str, Any]], object]) -> list[str]:
    new = copy.deepcopy(document())
    edit(new)
    return breaking_changes(document(), new)


BREAKING: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "path": (lambda api: api["paths"].pop(JOBS), f"GET {JOBS} was removed"),
    "method": (lambda api: api["paths"][JOBS].pop("post"), f"POST {JOBS} was removed"),
    "parameter": (lambda api: api["paths"][JOBS]["get"].pop("parameters"), "parameter limit was removed"),
    "new required parameter": (
        lambda api: api["paths"][JOBS]["get"]["parameters"].append(parameter(required=True)),
        "parameter status is now required",
    ),
    "smaller bound of a parameter": (
        lambda api: api["paths"][JOBS]["get"]["parameters"][0]["schema"].update(maximum=100),
        "limit: maximum is now 100",
    ),
    "status": (
        lambda api: api["paths"][JOBS]["post"].update(responses={"202": {}}),
        f"POST {JOBS} no longer returns 201",
    ),
    "media type": (
        lambda api: api["paths"][JOBS]["get"]["responses"]["200"].update(content={"text/html": {}}),
        "no longer returns application/json with 200",
    ),
    "member of a response": (lambda api: schema(api, "Job")["properties"].pop("id"), "Job.id was removed"),
    "member that can be missing": (lambda api: schema(api, "Job")["required"].pop(), "Job.status can now be missing"),
    "type of a response": (
        lambda api: schema(api, "Job")["properties"].update(id={"type": "integer"}),
        "Job.id can now be integer",
    ),
    "null in a response": (
        lambda api: schema(api, "Job")["properties"].update(id={"type": ["string", "null"]}),
        "Job.id can now be null",
    ),
    "member of a request": (lambda api: schema(api, "Submit")["properties"].pop("note"), "Submit.note was removed"),
    "new required member": (
        lambda api: schema(api, "Submit")["required"].append("note"),
        "Submit.note is now required",
    ),
    "choice": (
        lambda api: schema(api, "Submit")["properties"]["effect"]["enum"].remove("sepia"),
        "Submit.effect no longer takes sepia",
    ),
    "shorter text": (
        lambda api: schema(api, "Submit")["properties"]["effect"].update(maxLength=100),
        "Submit.effect: maxLength is now 100",
    ),
    "higher minimum": (
        lambda api: schema(api, "Submit")["properties"]["priority"].update(minimum=-2),
        "Submit.priority: minimum is now -2",
    ),
    "pattern": (
        lambda api: schema(api, "Submit")["properties"]["effect"].update(pattern="^a"),
        "Submit.effect has another pattern",
    ),
    "null in a request": (
        lambda api: schema(api, "Submit")["properties"].update(note={"type": "string"}),
        "Submit.note no longer takes null",
    ),
}
ADDITIVE: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": lambda api: None,
    "path": lambda api: api["paths"].update({"/api/new": {"get": {"responses": {"200": {}}}}}),
    "optional parameter": lambda api: api["paths"][JOBS]["get"]["parameters"].append(parameter()),
    "member of a response": lambda api: schema(api, "Job")["properties"].update(title={"type": "string"}),
    "value of a response": lambda api: schema(api, "Job")["properties"]["status"]["enum"].append("expired"),
    "member of a request": lambda api: schema(api, "Submit")["properties"].update(seed={"type": "integer"}),
    "choice": lambda api: schema(api, "Submit")["properties"]["effect"]["enum"].append("new"),
    "longer text": lambda api: schema(api, "Submit")["properties"]["effect"].update(maxLength=300),
    "member that is no longer required": lambda api: schema(api, "Submit")["required"].clear(),
    "words": lambda api: schema(api, "Job").update(description="Other words."),
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_breaking_change_is_named(name: str) -> None:
    edit, sentence = BREAKING[name]
    found = change(edit)
    assert any(sentence in each for each in found), found


@pytest.mark.parametrize("name", ADDITIVE)
def test_an_additive_change_is_allowed(name: str) -> None:
    assert change(ADDITIVE[name]) == []


def test_an_operation_may_be_removed_after_a_release_in_which_it_was_deprecated() -> None:
    old = document()
    old["paths"][JOBS]["get"]["deprecated"] = True
    new = copy.deepcopy(old)
    del new["paths"][JOBS]["get"]
    assert breaking_changes(old, new) == []


@pytest.mark.thorough
def test_the_document_of_a_release_is_stored_and_compared(tmp_path: Path) -> None:
    current, file = current_document(), tmp_path / "released.json.gz"
    assert released_document(file) is None
    keep(current, file)
    released = released_document(file)
    assert released is not None
    assert breaking_changes(released, current) == []
    del current["components"]["schemas"]["Job"]["properties"]["cost"]
    assert "Job.cost was removed." in breaking_changes(released, current)


def test_the_api_has_no_breaking_change_since_the_last_release() -> None:
    current = current_document()
    # Before the first release there is nothing to compare with.
    assert breaking_changes(released_document() or current, current) == []
