"""Schemas of payloads: each can become a form, and its actor accepts a payload that fits."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from callsheet.providers.actor import Actor
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.parameters import Parameter
from callsheet.providers.payload_forms import form_of, model_schema, parameters_schema
from callsheet.providers.registry import open_registry
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.generation import CopyInput

CONFIG = ProvidersConfig.model_validate(
    {
        "lightbox": {"url": "http://127.0.0.1:9"},
        "replicate": {
            "token": "r8_0123456789012345678901234567890123456",
            "models": {name: {"model": "a/b"} for name in ("static_ad", "ugc_video", "tts")},
        },
    }
)


@pytest.fixture(scope="module")
def actors() -> dict[str, Actor]:
    return dict(open_registry(CONFIG).actors)


@pytest.mark.parametrize("name", ["copy", "scrape", "static_ad", "ugc_video", "tts"])
def test_the_example_of_an_actor_fits_its_schema_and_is_accepted(actors: dict[str, Actor], name: str) -> None:
    form = form_of(actors[name])
    assert form.description
    assert form.example is not None
    jsonschema.Draft202012Validator.check_schema(form.schema)
    jsonschema.validate(dict(form.example), form.schema)
    actors[name].plan(form.example)
    assert "$ref" not in json.dumps(form.schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**form.example, "surprise": 1}, form.schema)


def test_a_schema_has_what_a_form_shows() -> None:
    style = model_schema(CopyInput)["properties"]
    assert style["length"] == {
        "default": "medium",
        "enum": ["short", "medium", "long"],
        "title": "Length",
        "type": "string",
    }
    assert style["product"]["properties"]["title"]["maxLength"] == 300
    assert style["product"]["required"] == ["title"]


def test_each_action_of_each_provider_is_a_variant_of_media(actors: dict[str, Actor]) -> None:
    variants = {(each.provider, each.action): each for each in form_of(actors["media"]).variants}
    image = variants["lightbox", "txt2img"]
    assert image.values == {"provider": "lightbox", "action_type": "txt2img"}
    params = image.schema["properties"]["params"]["properties"]
    assert params["width"]["type"] == "integer"
    payload: dict[str, Any] = {**image.values, "prompt": "a fox", "params": {"width": 64}}
    jsonschema.validate(payload, image.schema)
    actors["media"].plan(payload)
    wrong = {**payload, "params": {"width": "wide"}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, image.schema)
    with pytest.raises(InvalidRequest) as refused:
        actors["media"].plan(wrong)
    assert [each.field for each in refused.value.errors] == ["payload.params.width"]


def test_parameters_keep_their_limits() -> None:
    schema = parameters_schema(
        {
            "steps": Parameter(type="integer", minimum=1, maximum=50, default=20),
            "mood": Parameter(choices=("calm", "wild"), required=True),
            "blur": Parameter(type="number", minimum=0.5),
        }
    )
    assert schema["required"] == ["mood"]
    assert schema["properties"]["steps"] == {
        "type": "integer",
        "title": "Steps",
        "minimum": 1,
        "maximum": 50,
        "default": 20,
    }
    assert schema["properties"]["mood"]["enum"] == ["calm", "wild"]
    assert schema["properties"]["blur"] == {"type": "number", "title": "Blur", "minimum": 0.5}


def test_an_actor_without_a_schema_accepts_any_object() -> None:
    class Silent:
        name = "silent"

    assert form_of(Silent()).schema == {"type": "object", "additionalProperties": True}  # type: ignore[arg-type]
