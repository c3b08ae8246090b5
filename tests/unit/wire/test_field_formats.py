"""Errors say what a field should look like, never the regular expression it did not match."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

import callsheet.wire
from callsheet.wire import forms
from callsheet.wire.base import UserRequest
from callsheet.wire.reasons import reason_of

BAD = "ü b"


def refused(form: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(form).validate_python(BAD)
    return reason_of(caught.value.errors()[0])


@pytest.mark.parametrize(
    "name",
    [
        "Slug",
        "Email",
        "WorkflowSlug",
        "PropertyKey",
        "Placeholder",
        "Extension",
        "Provider",
        "WorkerId",
        "Sha256",
    ],
)
def test_every_field_format_has_its_own_error_sentence(name: str) -> None:
    sentence = refused(getattr(forms, name))
    assert sentence.startswith("Use ")
    assert sentence.endswith(".")
    assert "^" not in sentence


def _requests(of: type[UserRequest] = UserRequest) -> Iterator[type[UserRequest]]:
    for module in iter_modules(callsheet.wire.__path__):
        import_module(f"callsheet.wire.{module.name}")
    for request in of.__subclasses__():
        yield request
        yield from _requests(request)


def _kinds(schema: dict[str, Any]) -> set[str]:
    return {kind.get("type", "") for kind in schema.get("anyOf", [schema])}


def test_a_field_documented_as_a_boolean_takes_nothing_else() -> None:
    switches = []
    for request in _requests():
        for name, field in request.model_fields.items():
            form = TypeAdapter(Annotated[field.annotation, Field(), *field.metadata])  # type: ignore[valid-type]
            kinds = _kinds(form.json_schema()) - {"null"}
            if kinds == {"boolean"}:
                switches.append(f"{request.__name__}.{name}")
                assert form.validate_python(True) is True
                for lookalike in (0, 1, "true", "no", 1.0):
                    with pytest.raises(ValidationError):
                        form.validate_python(lookalike)
    assert {"CreateEffect.is_published", "UpdateWorkflow.is_active", "NewStep.requires_approval"} <= set(switches)
