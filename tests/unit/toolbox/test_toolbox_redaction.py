import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.redaction.redaction import _PLAIN_NAME, is_secret_key, redact, redact_text
from callsheet.toolbox.redaction.secret_names import mask_named
from callsheet.toolbox.redaction.secret_shapes import mask_shapes

SECRET = "hunter2-0123456789"


@pytest.mark.parametrize(
    "key",
    [
        *["password", "PASSWORD", "user_password", "password_hash", "passwd", "secret", "client_secret", "secret_key"],
        *["token", "lease_token", "accessToken", "X-CSRF-Token", "Authorization", "proxy-authorization", "cookie"],
        *["Set-Cookie", "api_key", "apiKey", "APIKey", "x-api-key", "apikey", "dsn", "database_dsn", "private_key"],
        *["x-fleet-secret", "fleetSecret", "secrets", "credentials", "signature", "X-Amz-Signature", "session_key"],
    ],
)
def test_names_of_secrets_are_recognised(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize(
    "key",
    [
        *["token_count", "tokens", "required_tokens", "balance_tokens", "lease_seq", "token_id", "secret_name"],
        *["idempotency_key", "key", "storage_key", "workflow", "event", "ts", "level", "cookie_secure", "keyboard"],
        *["api_key_id", "access_key_id", "url", "author", "tokenizer", "passed", "", "___", "é"],
    ],
)
def test_names_that_only_resemble_secrets_are_not_masked(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgresql://u:p@h", "postgresql://u:***@h"),
        ("see postgres://bob:p@ss:w?rd@db:5432/x and", "see postgres://bob:***@db:5432/x and"),
        ("redis://:hunter2@cache", "redis://:***@cache"),
        ("a postgresql://u:p@h/x, b postgresql://v:q@i/y", "a postgresql://u:***@h/x, b postgresql://v:***@i/y"),
        ("host=h user=u password=hunter2 port=1", "host=h user=u password=*** port=1"),
        ("password='two words' x", "password=*** x"),
        ("{'password': 'hunter2', 'a': 1}", "{'password': ***, 'a': 1}"),
        ('{"api_key": "hunter2"}', '{"api_key": ***}'),
        ("https://b/k?X-Amz-Signature=abc&x=1", "https://b/k?X-Amz-Signature=***&x=1"),
        ("Authorization: Bearer csk_abcdefgh123", "Authorization: Bearer ***"),
        ("db password is hunter2 at 10.0.0.5:5432", "db password is *** at 10.0.0.5:5432"),
        ("The password is swordfish.", "The password is ***."),
        ("the api_key was: 'sk live'", "the api_key was: ***"),
    ],
)
def test_secrets_inside_text_are_masked(text: str, clean: str) -> None:
    assert redact_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8400/path@2x.png",
        "https://example.com/?email=a@b.c",
        "required_tokens=5 balance=3",
        "password: is too short",
        "the bearer of this",
        "a token was refused",
        "password is too short",
        "The password was never set, the secret is unavailable.",
        "the API key is read-only and the token is stale",
        "10:30 mail to a@b.c",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_masking_is_linear_on_hostile_text() -> None:
    hostile = "://" * 50_000 + "a:" * 50_000 + "password='" * 20_000 + "bearer " * 20_000
    assert len(redact_text(hostile)) <= len(hostile)


def test_empty_values_and_flags_stay_visible() -> None:
    assert redact({"password": None, "secret": True, "token": 7}) == {"password": None, "secret": True, "token": "***"}


def test_headers_as_pairs_are_masked() -> None:
    headers = [(b"authorization", b"Bearer x"), ("Cookie", "a=b"), (b"accept", b"*/*")]
    assert redact(headers) == [["authorization", "***"], ["Cookie", "***"], ["accept", "*/*"]]


def test_deeply_nested_values_are_not_shown() -> None:
    value: object = {"Authorization": SECRET}
    for _ in range(100):
        value = {"inside": value}
    assert SECRET not in json.dumps(redact(value))
    assert "<too deep>" in json.dumps(redact(value))


SECRET_KEYS = st.sampled_from(["password", "apiKey", "lease_token", "Authorization", "dsn", "set-cookie"])
HOLDERS = st.recursive(
    st.builds(lambda key: {key: SECRET}, SECRET_KEYS)
    | st.builds(lambda key: {key: [SECRET, {"x": SECRET}]}, SECRET_KEYS)
    | st.just(f"postgresql://u:{SECRET}@h/x")
    | st.builds(lambda key: (key, SECRET), SECRET_KEYS),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
    max_leaves=8,
)


@given(HOLDERS)
def test_a_secret_never_shows_however_deep_it_lies(value: object) -> None:
    shown = json.dumps(redact(value))
    assert SECRET not in shown
    assert "***" in shown or "<too deep>" in shown


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(f"{text} postgresql://u:p@h password=x")
    assert redact_text(once) == once


@given(st.from_regex(_PLAIN_NAME, fullmatch=True) | st.uuids().map(str))
def test_texts_that_skip_the_search_contain_nothing_to_mask(text: str) -> None:
    assert redact_text(text) == text == mask_shapes(mask_named(text))


@pytest.mark.parametrize("text", ["hvs.abcdefghijklmnopqrstuvwxyz", "password=abc", "token: abc", "a b"])
def test_texts_that_may_contain_a_secret_are_searched(text: str) -> None:
    assert _PLAIN_NAME.fullmatch(text) is None
