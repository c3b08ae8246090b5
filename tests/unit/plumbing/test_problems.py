"""What every problem says means the same in every problem."""

from __future__ import annotations

import json

from callsheet.plumbing.http.problems import problem_response
from callsheet.wire.errors import WrongState


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
