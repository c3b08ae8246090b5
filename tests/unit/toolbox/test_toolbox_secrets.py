"""Secrets are masked by their name and by their shape; what helps a reader stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.redaction.redaction import redact_json, redact_start, redact_text
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.toolbox.redaction.secret_shapes import seems_generated
from tests.support.secret_texts import ORDINARY, SECRETS


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_by_its_name_or_its_shape(name: str) -> None:
    text, secret = SECRETS[name]
    for around in ("{}", "Node 4 failed: {}", "first line\n{}\nlast line", "{} at the end", '"{}"', "({})"):
        masked = redact_text(around.format(text))
        assert secret not in masked, masked
        assert "***" in masked
        assert redact_text(masked) == masked


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_reaches_users(name: str) -> None:
    text, secret = SECRETS[name]
    assert secret not in clean_line(f"It failed: {text}")


def test_all_secrets_of_one_text_are_masked() -> None:
    masked = redact_text("\n".join(text for text, _ in SECRETS.values() if "PRIVATE" not in text))
    assert [secret for _, secret in SECRETS.values() if secret in masked] == []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_readable(text: str) -> None:
    assert redact_text(text) == text
    assert redact_text(f"Error: {text} (attempt 2)") == f"Error: {text} (attempt 2)"


def test_the_rest_of_the_text_stays() -> None:
    sentence = "POST https://u:p@api.example/v1 with Authorization: Basic dXNlcjpwYXNzd29yZA== gave 401 at node 7"
    assert redact_text(sentence) == "POST https://u:***@api.example/v1 with Authorization: Basic *** gave 401 at node 7"


def test_documents_keep_their_form_and_their_numbers() -> None:
    document = {
        "api_key": "hunter2",
        "retry_after_seconds": 10**400,
        "seed": 7,
        "nested": [{"name": "Authorization", "value": "anything"}, ["X-Api-Key", "hunter2"], None, 0.5],
        "sk-proj-abcdef1234567890abcd": "as a name",
    }
    assert redact_json(document) == {
        "api_key": "***",
        "retry_after_seconds": 10**400,
        "seed": 7,
        "nested": [{"name": "Authorization", "value": "***"}, ["X-Api-Key", "***"], None, 0.5],
        "***": "as a name",
    }


def test_a_document_may_be_nested_deeper_than_it_is_read() -> None:
    document: object = {"password": "hunter2"}
    for _ in range(200):
        document = [document]
    masked = json.dumps(redact_json(document))  # type: ignore[arg-type]
    assert "hunter2" not in masked
    assert "<too deep>" in masked


@pytest.mark.parametrize("name", SECRETS)
def test_a_cut_leaves_no_half_of_a_secret(name: str) -> None:
    text, secret = SECRETS[name]
    for max_length in range(len(text)):
        masked = redact_start(text, max_length)
        assert len(masked) <= len(text) + 10
        assert secret not in masked
        # Five characters may be a word before it.
        assert secret[:6] not in masked.removesuffix("…"), masked


HOSTILE = [
    "a",
    "A1b",
    "-",
    "=",
    ":",
    "'",
    '"',
    "\\",
    " ",
    "\n",
    "/",
    "://",
    "://a:",
    "https://a",
    "@",
    "password",
    "password=",
    "password='",
    'password="',
    "token: ",
    "--key ",
    "authorization: a ",
    "cookie: a=b; ",
    "basic ",
    "bearer ",
    "bearer a1",
    "eyJa.",
    "eyJaaaaaaaaaa.",
    "sk-a_",
    "r8_",
    "cs_",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN A ",
    "0190a5c0-7b1c-7c3e-8d2f-5e6a7b8c9d0e:",
    "M" + "a" * 23 + ".aaaaaa.",
    "sha256-",
    ", a=",
    " -u a:",
    "12345678:AA",
]


def repeated(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


@pytest.mark.few_forms
@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    # Quadratic masking would need hours for this, not a moment: no clock is needed to see it.
    assert len(redact_text(repeated(unit, 100_000))) <= 150_000


def test_a_megabyte_of_hostile_text_is_masked() -> None:
    hostile = "".join(repeated(unit, 1_000_000 // len(HOSTILE)) for unit in HOSTILE)
    assert len(redact_text(hostile)) <= 1_500_000


@given(st.text(alphabet="passwordtoken:=' \"\\@/-_aA1eyJ.", max_size=200))
def test_masking_again_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(redact_text(once)) == redact_text(once)


@given(st.binary(min_size=32, max_size=32))
def test_hashes_do_not_look_like_generated_secrets(value: bytes) -> None:
    assert not seems_generated(value.hex())
