"""Converts a worker's error into one line for the lists of operators, who also get the rest. Users read only the
sentence of its type (`wire/job_errors.py`). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from callsheet.jobs.lease.outcomes import Failure
from callsheet.toolbox.redaction.redaction import cut, redact_json, redact_start, redact_text
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.wire.worker.fields import TRACEBACK
from callsheet.wire.worker.protocol import FailRequest, WorkerError

FALLBACK = "Processing failed."
# One less than the limit of the protocol: a text with the length of the limit was cut, perhaps in the middle of a
# secret.
MAX_RAW_LENGTH = TRACEBACK - 1
DEFAULT_TYPE = "worker_error"
TIMES_ENCODED = 2

_FIELDS = ("exception_message", "error_message")
# Fields of an object that is not complete JSON: it was cut off, printed by Python, or is inside a sentence.
_FIELD_IN_TEXT = re.compile(
    r"""["'](?:exception_message|error_message)["']\s*:\s*(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)')"""
)
# Python puts such a tag before system errors, and custom nodes put it before any text. It is not JSON, and useless for
# users.
_TAG = re.compile(r"\[[A-Za-z][\w .-]{0,60}\]:?\s+(?=\S)")
_TYPE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_TRACEBACK = "Traceback (most recent call last)"
# The line that ends a traceback: `package.Error: what happened`.
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: *(.*))?$")
_FRAME = re.compile(r"^\s*File \".*\", line \d+")

# A page that a proxy returned instead of the engine. Its title describes the error.
_PAGE = re.compile(r"<(?:!doctype html|html|head|title)\b", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1)\b[^<>]*>([^<>]+)", re.IGNORECASE)


def sanitize_worker_error(raw: JsonValue) -> str:
    """One line, taken from the engine's JSON, from a field in the text, or from the first line with
    content.
    """
    return clean_line(_message_of(raw)) or FALLBACK


def failure_of(request: FailRequest) -> Failure:
    """The recorded failure of a run."""
    failure = failure_of_error(request.error or WorkerError(), request.error_message)
    return replace(failure, provider_job_id=request.provider_job_id)


def failure_of_error(error: WorkerError, error_message: JsonValue = None) -> Failure:
    raw = error_message or error.message
    parsed = _parsed(raw)
    engine = parsed if isinstance(parsed, Mapping) else {}
    return Failure(
        type=_type_of(error.type, engine.get("exception_type"), _within(engine, "error", "type")),
        message=sanitize_worker_error(raw),
        details=_details(error, raw),
        traceback=_text_of(error.traceback) or _text_of(engine.get("traceback")),
        retryable=bool(error.retryable),
    )


def _message_of(raw: JsonValue) -> str:
    match _parsed(raw):
        case Mapping() as engine:
            return _line_of(_message_in(engine))
        case list() as several:
            # Nested lists are skipped: they may exceed the recursion limit.
            found = (_message_of(each) for each in several if not isinstance(each, list))
            return next((text for text in found if text), "")
        case str() as text:
            return _message_in_text(text)
    return ""


def _message_in_text(text: str) -> str:
    found = _FIELD_IN_TEXT.search(text)
    if found is not None:
        return _line_of(_unescaped(found[1] or found[2]))
    if _PAGE.match(text.lstrip()):
        title = _TITLE.search(text)
        return title[2] if title else ""
    tag = _TAG.match(text.lstrip())
    message = text.lstrip()[tag.end() :] if tag is not None else text
    return "" if message.lstrip().startswith(("{", "[")) else _line_of(message)


def _parsed(raw: JsonValue) -> JsonValue:
    """The decoded JSON of a text, also if it was encoded twice. Other text is unchanged, but cut to the stored length.

    Secrets are masked here, before a line is chosen: a single line of a private key cannot be recognized.
    """
    for _ in range(TIMES_ENCODED):
        if not isinstance(raw, str) or not raw.lstrip().startswith(("{", "[", '"')):
            break
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            break
    return redact_start(raw, MAX_RAW_LENGTH) if isinstance(raw, str) else redact_json(raw)


def _message_in(engine: Mapping[str, Any]) -> str:
    nested = engine.get("error")
    candidates = [*(engine.get(name) for name in _FIELDS), _within(engine, "error", "message"), nested]
    candidates += [engine.get("message"), engine.get("detail")]
    return next((text for text in candidates if isinstance(text, str) and text.strip()), "")


def _within(value: Mapping[str, Any], outer: str, inner: str) -> object:
    nested = value.get(outer)
    return nested.get(inner) if isinstance(nested, Mapping) else None


def _line_of(text: str) -> str:
    """The first line with content; for a traceback, the error at its end."""
    before, traceback, after = text.partition(_TRACEBACK)
    first = _first_line(before)
    if first or not traceback:
        return first
    raised = [found for line in after.splitlines() if (found := _RAISED.match(line)) is not None]
    return (raised[-1][1] or "").strip() if raised else ""


def _first_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines() if not _FRAME.match(line))
    return next((line for line in lines if any(character.isalnum() for character in line)), "")


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text.replace("\\n", "\n").replace("\\'", "'")


def _type_of(*candidates: object) -> str:
    names = (text for text in candidates if isinstance(text, str) and _TYPE.fullmatch(text))
    return next((name for name in names if redact_text(name) == name), DEFAULT_TYPE)


def _details(error: WorkerError, raw: JsonValue) -> dict[str, Any] | None:
    details: dict[str, Any] = dict(error.details or {})
    if error.message and error.message != raw:
        details["message"] = cut(error.message, MAX_RAW_LENGTH)
    if raw:
        details["reported"] = cut(raw, MAX_RAW_LENGTH) if isinstance(raw, str) else raw
    return details or None


def _text_of(traceback: object) -> str | None:
    if isinstance(traceback, list):
        traceback = "\n".join(str(line).rstrip("\n") for line in traceback)
    if not isinstance(traceback, str) or not traceback:
        return None
    # PostgreSQL cannot store every character, and JSON inside JSON may contain any.
    return cut(traceback, MAX_RAW_LENGTH).replace("\0", "").encode("utf-8", "replace").decode("utf-8")
