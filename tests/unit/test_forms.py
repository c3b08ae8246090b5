"""People are told what a text should look like, never the regular expression it did not match."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from callsheet.wire import forms

BAD = "ü b"


def refused(form: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(form).validate_python(BAD)
    return forms.reason_of(caught.value.errors()[0])


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
def test_every_form_has_its_sentence(name: str) -> None:
    sentence = refused(getattr(forms, name))
    assert sentence.startswith("should be ")
    assert "^" not in sentence
