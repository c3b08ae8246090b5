"""Keys, ranges and headers: the rules of storage that need no storage."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.media.storage.disk import _key, _path
from callsheet.media.storage.keys import (
    clean_name,
    content_disposition,
    validate_content_type,
    validate_folder,
    validate_key,
)
from callsheet.media.storage.port import ObjectInfo
from callsheet.media.storage.responses import Plan, plan_range, plan_response, response_headers
from callsheet.media.storage.signed_urls import Grant, UrlSigner
from callsheet.toolbox.clock import ManualClock
from callsheet.wire.errors import InvalidRequest, RangeNotSatisfiable, SignatureExpired, SignatureInvalid

SEGMENT = st.from_regex(r"[A-Za-z0-9_=+@-][A-Za-z0-9._=+@-]{0,20}", fullmatch=True)
KEY = st.lists(SEGMENT, min_size=1, max_size=8).map("/".join)
INFO = ObjectInfo("clip", 10, "video/mp4", '"etag"', None, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@given(KEY)
def test_ordinary_keys_are_accepted(key: str) -> None:
    assert validate_key(key) == key
    assert validate_folder(f"{key}/") == key


@given(st.text())
def test_a_key_that_passes_cannot_leave_its_folder(key: str) -> None:
    harmless = key.isascii() and key.isprintable() and "\\" not in key
    with contextlib.suppress(InvalidRequest):
        validate_key(key)
        assert harmless
        assert not {"", ".", ".."} & set(key.split("/"))


@given(KEY, KEY)
def test_different_keys_are_different_files_also_where_case_does_not_count(one: str, other: str) -> None:
    assert _key(_path(one)) == one
    assert ("/".join(_path(one)).lower() == "/".join(_path(other)).lower()) == (one == other)


def test_the_longest_name_fits_on_disk() -> None:
    (name,) = _path(validate_key("A" * 120))
    assert len(f"{name},json") <= 255


def test_media_types_with_parameters_are_accepted() -> None:
    for good in (
        "video/mp4",
        "text/plain; charset=utf-8",
        'video/mp4; codecs="avc1.42E01E, mp4a.40.2"',
        "image/svg+xml",
    ):
        assert validate_content_type(good) == good


@pytest.mark.parametrize(
    ("requested", "plan"),
    [
        ("bytes=0-0", Plan(206, 0, 1)),
        ("bytes=0-9", Plan(206, 0, 10)),
        ("bytes=5-", Plan(206, 5, 10)),
        ("bytes=-4", Plan(206, 6, 10)),
        ("bytes=-400", Plan(206, 0, 10)),
        ("bytes=9-999999", Plan(206, 9, 10)),
        ("bytes=5-2", Plan(200, 0, 10)),
        ("bytes=-", Plan(200, 0, 10)),
        ("bytes=0-1,3-4", Plan(200, 0, 10)),
        ("items=0-1", Plan(200, 0, 10)),
        ("bytes=a-b", Plan(200, 0, 10)),
        ("bytes=²-", Plan(200, 0, 10)),
        ("bytes=" + "9" * 5000 + "-", Plan(200, 0, 10)),
    ],
)
def test_a_range_header_selects_its_bytes(requested: str, plan: Plan) -> None:
    assert plan_range(requested, 10) == plan


@pytest.mark.parametrize(("requested", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-1", 0)])
def test_a_range_outside_is_refused_with_the_size(requested: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable) as refusal:
        plan_range(requested, size)
    assert refusal.value.size == size


@given(st.text(alphabet="bytes=0123456789-, ", max_size=30), st.integers(0, 100))
def test_every_range_header_gets_bytes_of_the_object_or_a_refusal(requested: str, size: int) -> None:
    try:
        plan = plan_range(requested, size)
    except RangeNotSatisfiable:
        return
    assert 0 <= plan.start <= plan.end <= size
    assert plan.status == 200 or plan.start < plan.end


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if-none-match": '"etag"'}, 304),
        ({"if-none-match": 'W/"etag"'}, 304),
        ({"if-none-match": '"other", "etag"'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-none-match": '"other"', "range": "bytes=0-1"}, 206),
        ({"range": "bytes=0-1", "if-range": '"etag"'}, 206),
        ({"range": "bytes=0-1", "if-range": "Fri, 02 Jan 2026 03:04:05 GMT"}, 206),
        ({"range": "bytes=0-1", "if-range": 'W/"etag"'}, 200),
        ({"range": "bytes=0-1", "if-range": '"other"'}, 200),
    ],
)
def test_conditions_are_honoured(headers: dict[str, str], status: int) -> None:
    assert plan_response(headers, INFO).status == status


@given(st.text(min_size=1), st.sampled_from([200, 206, 304]))
def test_no_download_name_breaks_a_header(name: str, status: int) -> None:
    headers = response_headers(INFO, Plan(status, 0, 5), name)
    for value in headers.values():
        assert value.isascii()
        assert value.isprintable()
    assert content_disposition(name).count('"') == 2
    assert not set(clean_name(name)) & set('/\\"\0\r\n')
    assert clean_name(name).strip(". ") == clean_name(name) != ""


@pytest.mark.parametrize(
    ("name", "clean"), [("..", "file"), (".profile", "profile"), ("a.mp4. .", "a.mp4"), ("." * 300 + "x", "x")]
)
def test_no_name_leads_to_another_folder_or_a_hidden_file(name: str, clean: str) -> None:
    assert clean_name(name) == clean


def test_a_grant_comes_back_as_it_was_signed_until_it_expires() -> None:
    clock = ManualClock()
    signer = UrlSigner(b"secret", "http://callsheet", clock)
    expires = int(clock.now().timestamp()) + 10
    grant = Grant("PUT", "a/b+c", expires, "video/mp4; x=1", 5, "0" * 64, None, is_exact=True)
    query = signer.url(grant).partition("?")[2].encode()
    assert signer.read("PUT", "a/b+c", query) == grant
    clock.advance(10)
    with pytest.raises(SignatureExpired):
        signer.read("PUT", "a/b+c", query)


def test_another_secret_makes_another_signature() -> None:
    clock = ManualClock()
    url = UrlSigner(b"one", "http://callsheet", clock).url(Grant("GET", "key", 2**33))
    with pytest.raises(SignatureInvalid):
        UrlSigner(b"other", "http://callsheet", clock).read("GET", "key", url.partition("?")[2].encode())


def test_a_repeated_parameter_is_refused() -> None:
    signer = UrlSigner(b"secret", "http://callsheet", ManualClock())
    query = signer.url(Grant("GET", "key", 2**33)).partition("?")[2]
    for doubled in query.split("&"):
        with pytest.raises(SignatureInvalid):
            signer.read("GET", "key", f"{query}&{doubled}".encode())


@given(st.binary(max_size=200))
def test_an_invalid_signature_is_refused(query: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        UrlSigner(b"secret", "http://callsheet", ManualClock()).read("GET", "key", query)
