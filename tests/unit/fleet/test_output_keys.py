"""Where outputs go, what a completion claims, and what its files are judged by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.dispatch.facts import Lease
from callsheet.fleet.protocol.deliveries import (
    fresh_inputs,
    input_file,
    own_path,
    stored_assets,
    url_seconds,
    with_urls,
)
from callsheet.fleet.protocol.outputs import (
    ExpectedOutput,
    OutputClaim,
    claims_of,
    extension_of,
    judge,
    oddity,
    output_key,
)
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.media.storage.keys import validate_key
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.worker.protocol import CompleteRequest

TENANT, JOB, LEASE, OTHER = (UUID(int=number) for number in (1, 2, 3, 4))
PNG = b"\x89PNG\r\n\x1a\n"


def started(payload: dict[str, Any], kind: str = "effect") -> StartedLease:
    now = datetime.now(UTC)
    lease = Lease(1, TENANT, JOB, 1, LEASE, 1, now, 900, 1, "self_hosted", kind, "worker-1", 1, 3600)
    return StartedLease(lease, uuid4(), None, payload)


def request(**fields: Any) -> CompleteRequest:
    return CompleteRequest.model_validate({"dispatch_id": 1, "lease_token": str(LEASE), **fields})


def test_a_key_has_the_place_the_protocol_promises() -> None:
    key = output_key(TENANT, JOB, LEASE, "", "mp4")
    assert key.startswith(f"tenants/{TENANT}/ai-jobs/{JOB}/output-")
    assert key.endswith(".mp4")


def test_each_lease_and_each_name_has_keys_of_its_own_and_always_the_same() -> None:
    keys = [output_key(TENANT, JOB, lease, name, "png") for lease in (LEASE, OTHER) for name in ("", "a.png", "b.png")]
    assert len(set(keys)) == 6
    assert output_key(TENANT, JOB, LEASE, "a.png", "png") == keys[1]


@given(st.text(max_size=200))
def test_an_output_of_any_name_has_a_valid_key(name: str) -> None:
    validate_key(output_key(TENANT, JOB, LEASE, name, extension_of(name)))


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.png", "png"),
        ("A.PNG", "png"),
        ("a.tar.gz", "gz"),
        ("noextension", "bin"),
        ("a.", "bin"),
        ("a.../../etc", "bin"),
        ("a.waytoolongextension", "bin"),
        (".mp4", "mp4"),
    ],
)
def test_the_extension_of_a_key_comes_from_the_name(name: str, extension: str) -> None:
    assert extension_of(name) == extension


@pytest.mark.parametrize(
    ("payload", "kind", "expected"),
    [
        (
            {"workflow": {}, "output_extension": "png", "output_mime_type": "image/png"},
            "effect",
            (True, "png", "image/png"),
        ),
        ({"workflow": {}}, "effect", (True, "mp4", "video/mp4")),
        ({"workflow": {}, "output_extension": "../x", "output_mime_type": 7}, "effect", (True, "mp4", "video/mp4")),
        ({"prompt": "a cat"}, "effect", (False, "bin", "application/octet-stream")),
        ({"workflow": {}}, "task", (False, "bin", "application/octet-stream")),
    ],
)
def test_the_expected_output_is_read_from_the_payload_of_an_engine_job(
    payload: dict[str, Any], kind: str, expected: tuple[bool, str, str]
) -> None:
    found = ExpectedOutput.of(started(payload, kind))
    assert (found.is_engine, found.extension, found.mime_type) == expected


def test_the_one_output_comes_first_and_named_ones_keep_their_order() -> None:
    output = {"size": 3, "mime_type": "video/mp4"}
    outputs = [{"name": name, "size": 1, "mime_type": "image/png"} for name in ("z.png", "a.png")]
    claims = claims_of(request(output=output, outputs=outputs), ExpectedOutput(True, "mp4"), TENANT, JOB, LEASE)
    assert [(claim.field, claim.name) for claim in claims] == [
        ("output", "output.mp4"),
        ("outputs.0", "z.png"),
        ("outputs.1", "a.png"),
    ]
    assert claims[1].key == output_key(TENANT, JOB, LEASE, "z.png", "png")


@pytest.mark.parametrize(
    ("mime_type", "name"),
    [
        ("video/mp4", "output.mp4"),
        ("image/png", "output.png"),
        ("image/jpeg", "output.jpg"),
        ("text/plain", "output.txt"),
        ("application/octet-stream", "output.mp4"),
        ("x-made/up", "output.mp4"),
    ],
)
def test_a_single_output_is_named_by_its_type_and_stored_where_its_url_said(mime_type: str, name: str) -> None:
    output = {"size": 3, "mime_type": mime_type}
    [claim] = claims_of(request(output=output), ExpectedOutput(True, "mp4", "video/mp4"), TENANT, JOB, LEASE)
    assert claim.name == name
    assert claim.key == output_key(TENANT, JOB, LEASE, "", "mp4")


def test_a_name_twice_is_refused() -> None:
    outputs = [{"name": "a.png", "size": 1, "mime_type": "image/png"}] * 2
    with pytest.raises(InvalidRequest, match="Two outputs have the name"):
        claims_of(request(outputs=outputs), ExpectedOutput(True), TENANT, JOB, LEASE)


CLAIM = OutputClaim("output", "key", "output.mp4", "video/mp4", 5, "a" * 64, {})


@pytest.mark.parametrize(
    ("claim", "size", "sha256", "reason"),
    [
        (CLAIM, 5, "a" * 64, None),
        (replace(CLAIM, sha256=None), 5, None, None),
        (CLAIM, None, None, "The output was not uploaded. Upload it and report again."),
        (CLAIM, 0, None, "The uploaded output is empty. Upload it again and report again."),
        (
            replace(CLAIM, size=0),
            0,
            None,
            f"The output {CLAIM.name!r} is empty. Report a failure of the type empty_output instead.",
        ),
        (
            CLAIM,
            6,
            "a" * 64,
            "The uploaded output has 6 bytes, but its declared size is 5. Upload it again and report again.",
        ),
        (CLAIM, 5, "b" * 64, f"The uploaded output has the SHA-256 {'b' * 64}, but {'a' * 64} was declared."),
        (CLAIM, 5, None, f"The uploaded output has the SHA-256 None, but {'a' * 64} was declared."),
    ],
)
def test_an_output_is_accepted_only_if_the_object_matches_the_report(
    claim: OutputClaim, size: int | None, sha256: str | None, reason: str | None
) -> None:
    assert judge(claim, size, sha256) == reason


@pytest.mark.parametrize(
    ("mime_type", "start", "found"),
    [
        ("image/png", PNG, None),
        ("image/jpeg", PNG, None),
        ("video/mp4", b"\0\0\0\x18ftypmp42", None),
        ("audio/wav", b"RIFF\x24\0\0\0WAVEfmt ", None),
        ("image/tiff", b"II*\0" + b"\0" * 20, None),
        ("video/mp4", PNG + b"\0" * 100, "The output looks like image/png, but video/mp4 was declared."),
        ("video/mp4", b"<html>not found</html>", "The output looks like text/html, but video/mp4 was declared."),
        (
            "image/png",
            b"\x01\x02\x03 nothing anybody knows",
            "The output looks like no known format of images, but image/png was declared.",
        ),
        ("image/png", b"%PDF-1.7\n", "The output looks like application/pdf, but image/png was declared."),
        ("video/mp4", b"\x7fELF\x02\x01", "The output looks like a program, but video/mp4 was declared."),
        ("application/zip", b"PK\x03\x04", None),
        ("application/zip", b"whatever", "The output looks like text, but application/zip was declared."),
        ("text/plain", PNG, "The output looks like image/png, but text/plain was declared."),
    ],
)
def test_first_bytes_of_another_kind_than_declared_cause_a_warning(
    mime_type: str, start: bytes, found: str | None
) -> None:
    assert oddity(mime_type, start) == found


ASSETS: list[Any] = [
    {"key": "mask", "path": "catalog/mask.png", "disk": "s3", "content_hash": "x"},
    {"key": "text", "placeholder": "__T__"},
    "odd",
    {"key": "video", "placeholder": "__INPUT_PATH__", "path": "tenants/1/v.mp4", "is_primary_input": True},
]


def test_paths_in_storage_are_replaced_by_urls_and_nothing_else_changes() -> None:
    payload = {"workflow": {"1": {}}, "assets": ASSETS}
    assert [(place, path) for place, _, path in stored_assets(payload)] == [
        (0, "catalog/mask.png"),
        (3, "tenants/1/v.mp4"),
    ]
    shown = with_urls(payload, {0: "https://a", 3: "https://b"})
    assert shown["assets"] == [
        {"key": "mask", "content_hash": "x", "download_url": "https://a"},
        {"key": "text", "placeholder": "__T__"},
        "odd",
        {"key": "video", "placeholder": "__INPUT_PATH__", "is_primary_input": True, "download_url": "https://b"},
    ]
    assert (shown["workflow"], payload["assets"]) == ({"1": {}}, ASSETS)
    assert [(each.key, each.download_url) for each in fresh_inputs(payload, {0: "https://a", 3: "https://b"})] == [
        ("mask", "https://a"),
        ("video", "https://b"),
    ]


@pytest.mark.parametrize("assets", [None, {}, "text", [], [7]])
def test_unusual_assets_are_passed_on_unchanged(assets: object) -> None:
    payload = {"workflow": {}, "assets": assets}
    assert with_urls(payload, {}) == payload
    assert fresh_inputs(payload, {}) == []
    assert input_file(payload).name == "input"


def test_g6_a_path_of_another_tenant_is_never_signed() -> None:
    assert own_path(f"tenants/{TENANT}/x", TENANT)
    assert own_path("catalog/x", TENANT)
    with pytest.raises(InvalidRequest, match="another tenant"):
        own_path(f"tenants/{OTHER}/x", TENANT)
    with pytest.raises(InvalidRequest, match="another tenant"):
        own_path(f"tenants/{TENANT}0/x", TENANT)


@pytest.mark.parametrize(("ttl", "seconds"), [(900.0, 900), (0.2, 1), (-5.0, 1), (12.3, 13), (10_000_000.0, 604_800)])
def test_urls_last_as_long_as_the_lease_within_the_limit_of_storage(ttl: float, seconds: int) -> None:
    assert url_seconds(ttl) == seconds
