"""Reads `--set KEY=VALUE`, with the type of each property. Values are checked before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

from callsheet.client.transfers import media_type
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.catalog import FILES, MAX_NUMBER, PropertyType
from callsheet.wire.effects import Effect, EffectProperty
from callsheet.wire.plurals import counted


def read_values(effect: Effect, pairs: Sequence[str]) -> dict[str, Any]:
    """The values. A file is still a path here."""
    known = {each.key: each for each in effect.properties}
    given: dict[str, Any] = {}
    for pair in pairs:
        key, text = _split(pair)
        if key not in known:
            offered = ", ".join(known) or "none"
            raise OperatorError(f"{key}: {effect.slug} has no such property. It has: {offered}.")
        given[key] = _value(known[key], text)
    missing = [each.key for each in effect.properties if each.required and each.key not in given]
    if missing:
        raise OperatorError(f"{missing[0]}: {effect.slug} needs a value. Add --set {missing[0]}=…")
    return given


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Keys and values as JSON or text, without a check of their meaning."""
    return {key: _json_or_text(text) for key, text in map(_split, pairs)}


def read_labels(client_reference: str | None, metadata: Sequence[str], webhook_url: str | None) -> dict[str, Any]:
    """What the client calls a job, for its request."""
    return {
        "client_reference": client_reference,
        "metadata": dict(map(_split, metadata)) or None,
        "webhook_url": webhook_url,
    }


def read_payload(pairs: Sequence[str]) -> dict[str, Any]:
    """The payload of a task. Only its actor knows the allowed fields. A dotted key sets a field of a nested object."""
    payload: dict[str, Any] = {}
    for pair in pairs:
        key, text = _split(pair)
        *outer, last = key.split(".")
        inside = payload
        for name in outer:
            inside = inside.setdefault(name, {})
            if not isinstance(inside, dict):
                raise OperatorError(f"{key}: {name} already has a value.")
        inside[last] = _json_or_text(text)
    return payload


def _split(pair: str) -> tuple[str, str]:
    key, separator, text = pair.partition("=")
    if not separator or not key or not is_text(key):
        raise OperatorError(f"--set takes KEY=VALUE, not {pair!r}.")
    if not is_text(text):
        raise OperatorError(f"{key}: its value is not text in UTF-8.")
    return key, text


def _json_or_text(text: str) -> Any:
    try:
        # NaN and Infinity are Python's extensions of JSON.
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def is_text(value: str) -> bool:
    """Whether the value is valid text. Arguments that are not UTF-8 contain halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def with_article(kind: str) -> str:
    return {"image": "an image", "audio": "an audio file"}.get(kind, f"a {kind}")


def _value(each: EffectProperty, text: str) -> Any:
    if each.type is PropertyType.TEXT:
        return _text(each, text)
    if each.type in FILES:
        return _file(each, text)
    if each.type is PropertyType.CHOICE:
        return _choice(each, text)
    return _boolean(each, text) if each.type is PropertyType.BOOLEAN else _number(each, text)


def _text(each: EffectProperty, text: str) -> str:
    max_length = each.limits.max_length
    if max_length is not None and len(text) > max_length:
        raise OperatorError(f"{each.key}: The text has {counted(len(text), 'character')}. The limit is {max_length}.")
    return text


def _file(each: EffectProperty, text: str) -> Path:
    path = Path(text)
    if not isfile(path):
        raise OperatorError(f"{each.key}: There is no file {text}.")
    if not media_type(path).startswith(f"{each.type.value}/"):
        raise OperatorError(f"{each.key}: {text} is {media_type(path)}. Use {with_article(each.type.value)}.")
    return path


def _choice(each: EffectProperty, text: str) -> Any:
    choices = each.limits.choices or []
    for choice in choices:
        if text in (str(choice), json.dumps(choice)):
            return choice
    raise OperatorError(
        f"{each.key}: {text!r} is not allowed. Choose one of: {', '.join(str(choice) for choice in choices)}."
    )


def _boolean(each: EffectProperty, text: str) -> bool:
    if text not in ("true", "false"):
        raise OperatorError(f"{each.key}: {text!r} is neither true nor false.")
    return text == "true"


def _number(each: EffectProperty, text: str) -> int | float:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    # NaN is within no limits.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        raise OperatorError(f"{each.key}: {text!r} is not a number.")
    low, high = each.limits.min, each.limits.max
    if low is not None and value < low:
        raise OperatorError(f"{each.key}: The value must be {low:g} or more.")
    if high is not None and value > high:
        raise OperatorError(f"{each.key}: The value must be {high:g} or less.")
    return value
