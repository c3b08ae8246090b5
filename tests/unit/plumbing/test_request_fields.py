"""The fields in which a request differs from an earlier one with the same idempotency key."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from callsheet.plumbing.http.request_fields import MAX_FIELDS, differing, fields_of, id_in

FILE = "019a0000-0000-7000-8000-000000000001"
REQUEST: dict[str, Any] = {
    "effect_id": "noir",
    "input_file_id": FILE,
    "input_payload": {"prompt": "a cat", "strength": 1},
    "client_reference": None,
}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"effect_id": "other"}, ["effect_id"]),
        ({"client_reference": "order 7"}, ["client_reference"]),
        ({"input_payload": {"strength": 1, "prompt": "a cat"}}, []),
        ({"input_payload": {"prompt": "a dog", "strength": 1}}, ["input_payload.prompt"]),
        ({"input_payload": {"prompt": "a cat"}}, ["input_payload.strength"]),
        ({"input_payload": {"prompt": "a cat", "strength": None}}, ["input_payload.strength"]),
        ({"input_payload": {"prompt": "a cat", "strength": "1"}}, ["input_payload.strength"]),
        ({"input_payload": {}}, ["input_payload", "input_payload.prompt", "input_payload.strength"]),
        ({"input_file_id": FILE.replace("1", "2")}, ["input_file_id"]),
        ({"input_file_id": None}, ["input_file_id"]),
    ],
    ids=str,
)
def test_a_request_differs_in_the_named_fields(changes: dict[str, Any], fields: list[str]) -> None:
    assert differing(fields_of(REQUEST), fields_of(REQUEST | changes)) == fields


def test_only_an_id_can_be_read_from_its_mark() -> None:
    marks = fields_of(REQUEST)
    assert id_in(marks["input_file_id"]) == UUID(FILE)
    assert [id_in(marks[name]) for name in ("effect_id", "input_payload.prompt")] == [None, None]
    assert id_in(None) is None
    assert "cat" not in str(marks)


def test_a_large_request_is_compared_by_its_top_level() -> None:
    large = REQUEST | {"input_payload": {f"key_{number}": number for number in range(MAX_FIELDS)}}
    changed = large | {"input_payload": {**large["input_payload"], "key_7": "other"}}
    assert len(fields_of(large)) == 3
    assert differing(fields_of(large), fields_of(changed)) == ["input_payload"]
    long = {"payload": {"k" * 300: 1}}
    assert list(fields_of(long)) == ["payload"]
