"""Translates responses of Replicate. Pure: its texts and files come from third-party models, which are not trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from callsheet.providers.media import Prediction
from callsheet.toolbox.redaction.sanitizing import clean_line

NAME = "replicate"
MAX_OUTPUTS = 100
MAX_TEXT_LENGTH = 1_000_000
MAX_LOG_LENGTH = 20_000
_DEEPEST = 32

_STATUSES: Mapping[str, Literal["running", "succeeded", "failed", "canceled"]] = {
    "starting": "running",
    "processing": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "canceled",
    # The deadline of the prediction passed before it started. No user canceled it, so it is not a cancellation.
    "aborted": "failed",
}
_PREDICTION_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ADDRESS = re.compile(r"https?://[!-~]{1,8000}", re.IGNORECASE)
# The progress of tqdm: ` 42%|████      | 21/50 [00:03<00:04,  7.1it/s]`
_PERCENT = re.compile(r"(\d{1,3})%\|")


def is_prediction_id(value: object) -> bool:
    return isinstance(value, str) and _PREDICTION_ID.fullmatch(value) is not None


def prediction_of(body: object) -> Prediction:
    """The prediction in a body. Raises ValueError if there is none. A prediction with an unknown status counts as
    running.
    """
    if not isinstance(body, dict) or not is_prediction_id(body.get("id")) or not isinstance(body.get("status"), str):
        raise ValueError("it is not a prediction")
    status = _STATUSES.get(body["status"], "running")
    webhook = body.get("webhook")
    common: dict[str, Any] = {"callback_url": webhook if isinstance(webhook, str) else None}
    if status == "running":
        return Prediction(body["id"], status, percent=percent_of(body.get("logs")), **common)
    if status == "succeeded":
        outputs, text = outputs_of(body.get("output"))
        if outputs or text is not None:
            return Prediction(body["id"], status, outputs, text, **common)
        error = "its outputs were removed" if body.get("data_removed") else "the model made nothing"
        return Prediction(body["id"], "failed", error=f"Replicate: {error}.", **common)
    if body["status"] == "aborted":
        return Prediction(body["id"], status, error="Replicate gave up the prediction before it started.", **common)
    if status == "canceled":
        return Prediction(body["id"], status, error="The prediction was canceled at Replicate.", **common)
    return Prediction(body["id"], status, error=error_text(body.get("error")), **common)


def outputs_of(output: object) -> tuple[tuple[str, ...], str | None]:
    """URLs of files, and text. Models return a URL, a list, an object of either, text or numbers."""
    addresses: list[str] = []
    words: list[str] = []
    plain = _walk(output, addresses, words, 0)
    if addresses:
        text = "\n".join(words) or None
    elif output is None or output == {}:
        text = None
    elif plain:
        # Language models stream a list of pieces.
        text = "".join(words)
    else:
        text = json.dumps(output, ensure_ascii=False, indent=2)
    return tuple(dict.fromkeys(addresses))[:MAX_OUTPUTS], _storable(text[:MAX_TEXT_LENGTH]) if text else None


def _walk(value: object, addresses: list[str], words: list[str], depth: int) -> bool:
    """Collects URLs and text. Returns whether there was only text, or a list of texts."""
    if isinstance(value, str):
        (addresses if _ADDRESS.fullmatch(value) else words).append(value)
        return True
    if depth > _DEEPEST:
        return False
    if isinstance(value, list):
        plain = [_walk(item, addresses, words, depth + 1) for item in value]
        return all(plain)
    if isinstance(value, dict):
        for item in value.values():
            _walk(item, addresses, words, depth + 1)
    return False


def percent_of(logs: object) -> float | None:
    found = _PERCENT.findall(logs[-MAX_LOG_LENGTH:]) if isinstance(logs, str) else []
    return min(100.0, float(found[-1])) if found else None


def error_text(error: object) -> str:
    """The error for users: the last line of a traceback, without paths and secrets."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] if isinstance(error, str) else []
    if not lines:
        return "The model failed, and Replicate does not say why."
    common = lines[-1] if any(line.startswith("Traceback") for line in lines) else " ".join(lines)
    return clean_line(common)


def _storable(text: str) -> str:
    """Removes lone surrogates, which JSON allows and UTF-8 does not, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
