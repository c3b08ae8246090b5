"""Makes a property of an input of a node: its type, limits, default and label. Pure.

Type and limits are those that engines declare. Without an engine they follow from the value in the graph.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.catalog.properties import DEFAULT_INPUT_PLACEHOLDER, Unfit, fit
from callsheet.providers.comfy.node_forms import InputForm, NodeForm
from callsheet.wire.catalog import (
    FILES,
    MAX_CHOICES,
    MAX_NUMBER,
    MAX_TEXT_LENGTH,
    Limits,
    Property,
    PropertyType,
)

SEEDS = ("seed", "noise_seed")
WHOLE = (*SEEDS, "steps")
# A maximum of 2^64 - 1 is 2^64 as a float, which engines refuse.
_BELOW_MAX_NUMBER = math.nextafter(float(MAX_NUMBER), 0)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_LETTERS = re.compile(r"[\W_]+")
_NOT_KEY = re.compile(r"[^a-z0-9]+")
MAX_KEY_LENGTH = 50
MAX_LABEL_LENGTH = 200


@dataclass(frozen=True, slots=True)
class NodeInput:
    """An input of a node with a value of its own. `form`: what engines declare, if that is known."""

    node_id: str
    class_type: str
    name: str
    value: Any
    form: InputForm | None = None

    @property
    def is_seed(self) -> bool:
        return self.name in SEEDS


def declared_type(form: InputForm | None) -> PropertyType | None:
    if form is None:
        return None
    if form.kind in ("integer", "number"):
        return PropertyType.NUMBER
    return next((each for each in PropertyType if each.value == form.kind), None)


def takes_value(kind: PropertyType, value: object) -> bool:
    """Whether a value of the graph can be the default of a property of this type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_usable_number = is_number and abs(value) <= MAX_NUMBER  # type: ignore[arg-type]
    is_usable_text = isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH and not CONTROL.search(value)
    match kind:
        case PropertyType.NUMBER:
            return is_usable_number
        case PropertyType.BOOLEAN:
            return isinstance(value, bool)
        case PropertyType.CHOICE:
            return is_usable_text or is_usable_number
        case PropertyType.TEXT:
            return is_usable_text
    return isinstance(value, str)


def property_of(
    source: NodeInput, kind: PropertyType, key: str, *, is_primary: bool = False, user_configurable: bool = True
) -> Property:
    """The property whose default is the value in the graph. A file has no default: it is the user's own."""
    is_file = kind in FILES
    return Property(
        key=key,
        type=kind,
        label=words(key),
        placeholder=placeholder_of(key, kind, is_primary=is_primary),
        default=None if is_file else source.value,
        required=is_file,
        user_configurable=user_configurable,
        is_primary_input=is_primary,
        limits=limits_of(kind, source),
    )


def placeholder_of(key: str, kind: PropertyType, *, is_primary: bool = False) -> str:
    if kind not in FILES:
        return f"{{{{{key}}}}}"
    return DEFAULT_INPUT_PLACEHOLDER if is_primary else f"__{key.upper()}__"


def limits_of(kind: PropertyType, source: NodeInput) -> Limits:
    """The limits that engines declare, as far as the value in the graph keeps them."""
    value, form = source.value, source.form
    if kind is PropertyType.CHOICE:
        choices = [*(form.choices or ())] if form is not None else []
        usable = [each for each in (choices if value in choices else [value, *choices]) if takes_value(kind, each)]
        # Some engines declare a choice twice.
        known = list(dict.fromkeys(usable))
        return Limits(choices=known[:MAX_CHOICES]) if known else Limits()
    if kind is not PropertyType.NUMBER:
        return Limits()
    if form is None or form.kind not in ("integer", "number"):
        is_whole = source.name in WHOLE and (value is None or float(value).is_integer())
        if not source.is_seed:
            return Limits(integer=is_whole)
        # Some nodes use -1 for "any".
        return Limits(integer=is_whole, min=min(0, value or 0), max=MAX_NUMBER - 1)
    is_whole = form.kind == "integer" and (value is None or float(value).is_integer())
    low, high = _widened(form.min, value, min), _widened(form.max, value, max)
    if low is not None and high is not None and low > high:
        low = high = None
    has_step = form.step is not None and 0 < form.step <= MAX_NUMBER
    # Every whole number is a multiple of 1.
    step = None if not has_step or (is_whole and form.step == 1) else form.step
    limits = Limits(integer=is_whole, min=low, max=high, step=step)
    return limits if value is None or _fits(value, limits) else limits.model_copy(update={"step": None})


def _widened(limit: float | None, value: float | None, outermost: Any) -> float | None:
    if limit is None or abs(limit) > MAX_NUMBER:
        return None
    known = limit if value is None else outermost(limit, value)
    is_below = limit == MAX_NUMBER - 1 and (value is None or value <= _BELOW_MAX_NUMBER)
    return _BELOW_MAX_NUMBER if is_below else float(known)


def _fits(value: Any, limits: Limits) -> bool:
    wanted = Property(key="value", type=PropertyType.NUMBER, placeholder="{{value}}", limits=limits)
    try:
        fit(wanted, value)
    except Unfit:
        return False
    return True


def words(key: str) -> str:
    return key.replace("_", " ").strip().capitalize()


def key_of(name: str) -> str:
    """The name of an input as the key of a property."""
    clean = _NOT_KEY.sub("_", name.lower()).strip("_")[:MAX_KEY_LENGTH].strip("_")
    return clean if clean[:1].isalpha() else f"value_{clean}".strip("_")


def own_title(node: Mapping[str, Any], form: NodeForm | None) -> str | None:
    """The title that a person gave to the node. None if it has the title of every new node of its class."""
    about = node.get("_meta")
    title = about.get("title") if isinstance(about, Mapping) else None
    if not isinstance(title, str):
        return None
    shown = " ".join("".join(each if each.isprintable() else " " for each in title).split())[:MAX_LABEL_LENGTH]
    plain, of_class = _letters(shown), _letters(str(node["class_type"]))
    if form is not None and form.title is not None:
        is_usual = plain in (_letters(form.title), of_class)
    else:
        # Such as "Load Image" or "CLIP Text Encode (Prompt)".
        is_usual = _letters(shown.split("(")[0]) in of_class
    return None if is_usual or not plain else shown


def _letters(text: str) -> str:
    return _LETTERS.sub("", text).casefold()
