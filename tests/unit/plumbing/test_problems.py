"""What every problem says means the same in every problem."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.plumbing.http.problems import (
    PROBLEM_RESPONSES,
    document_problems,
    problem_response,
    rate_limit_headers,
)
from callsheet.wire.errors import RateLimited, RatePolicy, WrongState


def test_extra_data_of_a_refusal_does_not_replace_standard_fields() -> None:
    refusal = WrongState("It is over.", status="completed", code="mine", type="mine", title="mine", place=3)
    body = json.loads(problem_response(refusal, "request-1").body)
    assert body == {
        "type": "urn:callsheet:error:wrong_state",
        "title": WrongState.title(),
        "status": 409,
        "code": "wrong_state",
        "place": 3,
        "detail": "It is over.",
        "request_id": "request-1",
    }


@pytest.mark.parametrize(
    ("policy", "headers"),
    [
        (RatePolicy("submits", 600, 60), ('"submits";q=600;w=60', '"submits";r=0;t=12')),
        (RatePolicy("polls", 100, None), ('"polls";q=100;qu="concurrent-requests"', '"polls";r=0;t=12')),
    ],
)
def test_a_limit_of_requests_is_described_in_the_standard_headers(policy: RatePolicy, headers: tuple[str, str]) -> None:
    response = problem_response(RateLimited(12, policy))
    names = ("RateLimit-Policy", "RateLimit")
    assert tuple(response.headers[name] for name in names) == headers
    assert response.headers["Retry-After"] == "12"
    assert not any(name in problem_response(WrongState("It is over.")).headers for name in names)


def test_the_document_declares_every_header_of_a_limit() -> None:
    document: dict[str, Any] = {}
    document_problems(document)
    sent = {name.lower() for name in rate_limit_headers(RatePolicy("submits", 600, 60), 12)} | {"retry-after"}
    assert {name.lower() for name in document["components"]["headers"]} == sent
    assert {name.lower() for name in PROBLEM_RESPONSES["4XX"]["headers"]} == sent
