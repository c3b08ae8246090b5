"""What a worker says went wrong reaches users as one clean line, and admins as it was."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from callsheet.fleet.protocol.worker_errors import FALLBACK, failure_of, sanitize_worker_error
from callsheet.jobs.lease.leases import retry_delay
from callsheet.toolbox.redaction.sanitizing import MAX_MESSAGE_LENGTH, clean_line
from callsheet.wire.worker.protocol import FailRequest

PROMPT_REFUSED = {
    "error": {
        "type": "prompt_outputs_failed_validation",
        "message": "Prompt outputs failed validation",
        "details": "",
    },
    "node_errors": {"4": {"errors": []}},
}
TRACEBACK = """Traceback (most recent call last):
  File "/opt/ComfyUI/execution.py", line 327, in execute
    output_data = get_output_data(obj)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"exception_message": "CUDA out of memory", "error_message": "second"}, "CUDA out of memory"),
        ({"error_message": "The model is missing"}, "The model is missing"),
        ({"exception_message": "  ", "error_message": "The model is missing"}, "The model is missing"),
        (PROMPT_REFUSED, "Prompt outputs failed validation"),
        ({"error": "plainly wrong"}, "plainly wrong"),
        ({"message": "from elsewhere"}, "from elsewhere"),
        ({"exception_message": 7, "node": "4"}, FALLBACK),
        (json.dumps({"exception_message": "CUDA out of memory\nsecond line"}), "CUDA out of memory"),
        (json.dumps(PROMPT_REFUSED), "Prompt outputs failed validation"),
        ('Engine said {"exception_message": "No \\"seed\\" given", "trace', 'No "seed" given'),
        ("ComfyError({'exception_message': 'it\\'s broken', 'node_id': '3'})", "it's broken"),
        ('{"exception_message": "cut off in the mid', FALLBACK),
        ("The engine stopped.\nAt node 4\n", "The engine stopped."),
        ("\n\n   \n-----\nAfter a rule", "After a rule"),
        (TRACEBACK, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (f"Node 4 failed.\n{TRACEBACK}", "Node 4 failed."),
        ({"exception_message": TRACEBACK}, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        ('Traceback (most recent call last):\n  File "x.py", line 3', FALLBACK),
        ("", FALLBACK),
        (None, FALLBACK),
        ({}, FALLBACK),
        ("[]", FALLBACK),
        ("{" * 5000, FALLBACK),
        (["", [], 7, {"node": 4}, "the last word"], "the last word"),
        ('[{"error_message": "The model is missing"}]', "The model is missing"),
        ("[" * 900 + "]" * 900, FALLBACK),
        (json.dumps(json.dumps({"exception_message": "encoded twice"})), "encoded twice"),
        ('"in quotes"', "in quotes"),
        (137, FALLBACK),
        (True, FALLBACK),
        ("<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>", "502 Bad Gateway"),
        ("\n<html>\r\n<body><h1 class=x>Not today</h1>", "Not today"),
        ("<html><body></body></html>", FALLBACK),
        ("<lora:style> is not loaded", "<lora:style> is not loaded"),
        ("[Errno 1094995529] Invalid data found: '/opt/input/clip.mp4'", "Invalid data found: clip.mp4"),
        ("[VHS] no frames in this video", "no frames in this video"),
        ('[Errno 5] {"node": 4', FALLBACK),
    ],
)
def test_the_message_is_found_wherever_the_worker_put_it(raw: JsonValue, shown: str) -> None:
    assert sanitize_worker_error(raw) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open /home/ubuntu/ComfyUI/models/sd_xl.safetensors", "cannot open sd_xl.safetensors"),
        ("no room in /var/lib/engine", "no room in [path]"),
        ("No such file: '/data/my videos/in put.mp4'", "No such file: [path]"),
        ("cannot read C:\\Users\\gpu\\input.png", "cannot read input.png"),
        ("cannot read \\\\server\\share\\secret", "cannot read [path]"),
        ("GET https://bucket.example/x?X-Amz-Signature=abc gave 403", "GET [address] gave 403"),
        ("width/height must be 8/16, and/or equal", "width/height must be 8/16, and/or equal"),
        ("api_key=sk-12345678 was refused", "api_key=*** was refused"),
        ("Key sk-proj-abcdef1234567890abcd is wrong", "Key *** is wrong"),
        ("AKIAIOSFODNN7EXAMPLE may not", "*** may not"),
        ("sk-image and hf_models are missing", "sk-image and hf_models are missing"),
        ("bell\x07 and\x1b[31m red\x00 text\u202e", "bell and [31m red text"),
        ("a\tb\r\n c", "a b c"),
    ],
)
def test_details_of_the_machine_are_hidden_from_users(text: str, shown: str) -> None:
    assert clean_line(text) == shown


@given(st.one_of(st.text(), st.dictionaries(st.text(), st.text())))
def test_users_get_one_short_printable_line_for_any_error(raw: str | dict[str, str]) -> None:
    shown = sanitize_worker_error(raw)
    assert 0 < len(shown) <= MAX_MESSAGE_LENGTH
    assert "\n" not in shown
    assert not any(ord(character) < 32 for character in shown)


def test_a_long_message_is_cut() -> None:
    shown = sanitize_worker_error("word " * 1000)
    assert len(shown) <= MAX_MESSAGE_LENGTH
    assert shown.endswith("…")


def reported(**fields: Any) -> FailRequest:
    return FailRequest.model_validate({"dispatch_id": 1, "lease_token": str(uuid4()), **fields})


def test_admins_see_type_details_traceback_and_the_report() -> None:
    failure = failure_of(
        reported(
            error_message="cannot open /srv/models/x.ckpt",
            error={
                "type": "FileNotFoundError",
                "message": "deep inside",
                "details": {"node": 4},
                "traceback": "Traceback …",
                "retryable": True,
            },
        )
    )
    assert (failure.type, failure.message, failure.traceback) == (
        "FileNotFoundError",
        "cannot open x.ckpt",
        "Traceback …",
    )
    assert failure.details == {
        "node": 4,
        "message": "deep inside",
        "reported": "cannot open /srv/models/x.ckpt",
    }
    assert failure.retryable


def test_type_and_traceback_come_from_the_report_of_the_engine() -> None:
    engine = {"exception_type": "torch.OutOfMemoryError", "exception_message": "too big", "traceback": ["one", "two"]}
    failure = failure_of(reported(error_message=engine))
    assert (failure.type, failure.message, failure.traceback) == ("torch.OutOfMemoryError", "too big", "one\ntwo")
    assert failure.details == {"reported": engine}
    assert not failure.retryable


def test_a_traceback_may_be_lines_and_is_what_postgresql_can_hold() -> None:
    lines = ["one\n", "two\n", 3]
    assert failure_of(reported(error_message="m", error={"traceback": lines})).traceback == "one\ntwo\n3"
    hidden = json.dumps({"exception_message": "m", "traceback": "bad \0\ud800 name"})
    assert failure_of(reported(error_message=hidden)).traceback == "bad ? name"


def test_a_structured_error_alone_is_enough() -> None:
    failure = failure_of(reported(error={"message": "The engine is gone."}))
    assert (failure.type, failure.message) == ("worker_error", "The engine is gone.")


def test_a_failure_report_without_details_fails_the_job() -> None:
    failure = failure_of(reported(error_message=None, error=None))
    assert (failure.type, failure.message, failure.details) == ("worker_error", FALLBACK, None)


def test_a_type_that_is_not_a_name_is_not_shown() -> None:
    assert failure_of(reported(error={"type": "/opt/engine failed <b>"})).type == "worker_error"


@pytest.mark.parametrize(
    ("requested", "minimum", "maximum"),
    [
        (120, 120, 125),
        (7.5, 7.5, 12.5),
        (10**9, 300, 300),
        (10**400, 300, 300),
        (-5, 0, 5),
        (-(10**400), 0, 5),
        (None, 0, 5),
        ("soon", 0, 5),
        (True, 0, 5),
    ],
)
def test_a_retry_after_time_is_respected_within_limits(requested: object, minimum: float, maximum: float) -> None:
    body = {
        "dispatch_id": 1,
        "lease_token": "00000000-0000-0000-0000-000000000000",
        "error": {"type": "provider_unavailable", "retryable": True, "details": {"retry_after_seconds": requested}},
    }
    failure = failure_of(FailRequest.model_validate(body))
    assert minimum <= retry_delay(1, failure) <= maximum
