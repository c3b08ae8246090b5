"""Typed requests: what each needs, what it refuses, and what its actor gets of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from callsheet.wire.base import UserRequest
from callsheet.wire.generation import (
    CopyInput,
    GenerateCopy,
    GenerateScrape,
    GenerateSpeech,
    GenerateStaticAd,
    GenerateVideo,
    Product,
    StaticAdInput,
    VideoInput,
    actor_payload,
)

LAMP = {"title": "Lamp"}
ID = str(UUID(int=7))


def wrong_fields(model: type[UserRequest], **body: Any) -> list[str]:
    try:
        model.model_validate(body)
    except ValidationError as wrong:
        return [".".join(map(str, each["loc"])) for each in wrong.errors()]
    return []


@pytest.mark.parametrize("model", [GenerateCopy, GenerateStaticAd])
def test_exactly_one_product_is_needed(model: type[UserRequest]) -> None:
    assert wrong_fields(model, product=LAMP) == wrong_fields(model, product_id=ID) == []
    assert wrong_fields(model) == wrong_fields(model, product=LAMP, product_id=ID) == ["product"]
    assert wrong_fields(model, product_id="seven") == ["product_id"]
    assert wrong_fields(model, product={}) == ["product.title"]


def test_a_video_needs_a_script_or_a_product() -> None:
    for body in ({"script": "Look."}, {"product": LAMP}, {"product_id": ID}, {"product_id": ID, "script": "Look."}):
        assert wrong_fields(GenerateVideo, **body) == []
    assert wrong_fields(GenerateVideo) == ["script"]
    assert wrong_fields(GenerateVideo, product=LAMP, product_id=ID) == ["product"]
    # What is wrong with the product is said, and not that there is none.
    assert wrong_fields(GenerateVideo, product={"title": ""}) == ["product.title"]


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (GenerateCopy, {"product": LAMP, "colour": "red"}, "colour"),
        (GenerateCopy, {"product": LAMP, "language": "english please"}, "language"),
        (GenerateCopy, {"product": {**LAMP, "stock": 3}}, "product.stock"),
        (GenerateCopy, {"product": {**LAMP, "currency": "eur"}}, "product.currency"),
        (GenerateCopy, {"product": {**LAMP, "images": ["https://a.test/x"] * 21}}, "product.images"),
        (GenerateCopy, {"product": {**LAMP, "text": "x" * 20_001}}, "product.text"),
        (GenerateScrape, {}, "url"),
        (GenerateScrape, {"url": "javascript:alert(1)"}, "url"),
        (GenerateScrape, {"url": "https://user:password@shop.test/"}, "url"),
        (GenerateScrape, {"url": "https://shop.test/a b"}, "url"),
        (GenerateScrape, {"url": "https://shop.test/" + "x" * 2000}, "url"),
        (GenerateScrape, {"url": "http://["}, "url"),
        (GenerateScrape, {"url": "http://shop.test:99999/"}, "url"),
        (GenerateVideo, {"script": "x", "duration_seconds": True}, "duration_seconds"),
        (GenerateVideo, {"script": "x", "duration_seconds": 61}, "duration_seconds"),
        (GenerateSpeech, {"text": "a\0b"}, "text"),
        (GenerateSpeech, {"text": "\ud800"}, "text"),
        (GenerateSpeech, {"text": "x" * 5001}, "text"),
        (GenerateSpeech, {"text": "x", "speed": float("nan")}, "speed"),
        (GenerateSpeech, {"text": "x", "idempotency_key": ""}, "idempotency_key"),
    ],
)
def test_a_wrong_field_is_named(model: type[UserRequest], body: dict[str, Any], field: str) -> None:
    assert wrong_fields(model, **body) == [field]


def test_an_actor_gets_the_fields_of_the_product_whichever_way_it_was_named() -> None:
    kept = Product(
        id=UUID(ID),
        url="https://shop.test/",
        title="Lamp",
        description="",
        images=[],
        text="",
        created_at=datetime.now(UTC),
    )
    named = actor_payload(GenerateCopy.model_validate({"product_id": ID, "idempotency_key": "k"}), kept)
    inline = actor_payload(GenerateCopy.model_validate({"product": {**LAMP, "url": "https://shop.test/"}}))
    assert named == inline
    assert CopyInput.model_validate(named).product.title == "Lamp"
    StaticAdInput.model_validate(actor_payload(GenerateStaticAd.model_validate({"product": LAMP})))
    # The product of a page whose URL was too long to be kept.
    CopyInput.model_validate(
        actor_payload(GenerateCopy.model_validate({"product_id": ID}), kept.model_copy(update={"url": ""}))
    )
    VideoInput.model_validate(actor_payload(GenerateVideo.model_validate({"script": "Look."})))
