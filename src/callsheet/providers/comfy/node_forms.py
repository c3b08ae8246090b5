"""The declarations of an engine about its node classes: the type, limits and choices of each input. Pure.

`/object_info` of a large installation has several megabytes. A form keeps only what is needed to make properties of
inputs. Forms of all classes are sent compressed, because as JSON they would have more values than a body may have.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from callsheet.wire.worker.environment import MAX_NODE_FORMS_LENGTH

InputKind = Literal["text", "integer", "number", "boolean", "choice", "image", "video", "audio"]
Choice = str | int | float

# Highest number of choices of a property (`MAX_CHOICES`). A longer list is left out.
MAX_CHOICES = 200
MAX_CHOICE_LENGTH = 1000
# In bytes. The forms of 10,000 classes have about 4 MB.
MAX_UNPACKED_BYTES = 16 * 1024 * 1024

_KINDS: Mapping[str, InputKind] = {"INT": "integer", "FLOAT": "number", "STRING": "text", "BOOLEAN": "boolean"}
# Options of inputs whose choices are files that a user uploads into the engine's folder.
_UPLOADS: Mapping[str, InputKind] = {
    "image_upload": "image",
    "animated_image_upload": "image",
    "video_upload": "video",
    "audio_upload": "audio",
}
_MEDIA: Mapping[InputKind, re.Pattern[str]] = {
    "image": re.compile(r".*\.(png|jpe?g|webp|gif|bmp|tiff?|avif)", re.IGNORECASE),
    "video": re.compile(r".*\.(mp4|webm|mov|mkv|avi|m4v)", re.IGNORECASE),
    "audio": re.compile(r".*\.(wav|mp3|flac|ogg|opus|m4a|aac)", re.IGNORECASE),
}
_SEED = re.compile(r"seed", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputForm:
    """An input whose value is in the graph. The limits are those that the engine checks."""

    kind: InputKind
    default: bool | int | float | str | None = None
    min: int | float | None = None
    max: int | float | None = None
    step: int | float | None = None
    is_multiline: bool = False
    # None: not known, or too many.
    choices: tuple[Choice, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeForm:
    inputs: Mapping[str, InputForm] = field(default_factory=dict)
    # The title of a new node in ComfyUI's page.
    title: str | None = None
    # Whether the engine runs the node for its own sake, for example because it saves a file.
    is_output: bool = False


NodeForms = Mapping[str, NodeForm]


def forms_of_object_info(info: Mapping[str, Any]) -> dict[str, NodeForm]:
    return {name: _form(node) for name, node in info.items() if isinstance(node, Mapping)}


def _form(node: Mapping[str, Any]) -> NodeForm:
    title = node.get("display_name")
    groups = node.get("input")
    found = [groups.get(group) for group in ("required", "optional")] if isinstance(groups, Mapping) else []
    inputs = {
        str(name): form
        for group in found
        if isinstance(group, Mapping)
        for name, declared in group.items()
        if (form := _input_form(str(name), declared)) is not None
    }
    return NodeForm(inputs, title if isinstance(title, str) and title else None, node.get("output_node") is True)


def _input_form(name: str, declared: object) -> InputForm | None:
    """The form of `["INT", {"min": 1}]`. None if the input takes a link only."""
    if not isinstance(declared, list) or not declared:
        return None
    kind = declared[0]
    options = declared[1] if len(declared) > 1 and isinstance(declared[1], Mapping) else {}
    if isinstance(kind, list) or kind == "COMBO":
        return _choice(kind if isinstance(kind, list) else options.get("options"), options)
    if kind not in _KINDS or options.get("forceInput") is True:
        return None
    default = options.get("default")
    # The default of a seed is sometimes a new random number at each reading.
    known = not _SEED.search(name) and isinstance(default, bool | str | int | float) and _is_finite(default)
    limits = options if kind in ("INT", "FLOAT") else {}
    return InputForm(
        _KINDS[kind],
        default if known else None,
        _number(limits.get("min")),
        _number(limits.get("max")),
        _number(limits.get("step")),
        is_multiline=kind == "STRING" and options.get("multiline") is True,
    )


def _choice(listed: object, options: Mapping[str, Any]) -> InputForm | None:
    if options.get("multiselect") is True:
        return None
    upload = next((kind for flag, kind in _UPLOADS.items() if options.get(flag) is True), None)
    choices = listed if isinstance(listed, list) else []
    if upload is None and choices:
        is_media = (kind for kind, name in _MEDIA.items() if all(name.fullmatch(str(each)) for each in choices))
        upload = next(is_media, None)
    if upload is not None:
        # The names of uploaded files change with every job.
        return InputForm(upload)
    usable = [each for each in choices if _is_choice(each)]
    default = options.get("default")
    if not usable or len(usable) != len(choices) or len(usable) > MAX_CHOICES:
        return InputForm("choice", default if _is_choice(default) else None)
    return InputForm("choice", default if default in usable else usable[0], choices=tuple(usable))


def _is_choice(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CHOICE_LENGTH
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def _number(value: object) -> int | float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and _is_finite(value) else None  # type: ignore[return-value]


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def agreed(several: Iterable[NodeForms]) -> dict[str, NodeForm]:
    """The forms that all of these engines accept, by class: an input has the narrowest limits and the choices of all.
    An input whose kind differs is left out. A class that one engine does not have is as the others declare it.
    """
    found: dict[str, NodeForm] = {}
    for forms in several:
        for name, form in forms.items():
            known = found.get(name)
            found[name] = form if known is None or known == form else _both(known, form)
    return found


def _both(one: NodeForm, other: NodeForm) -> NodeForm:
    inputs = {
        name: _narrower(form, other.inputs[name])
        for name, form in one.inputs.items()
        if name in other.inputs and form.kind == other.inputs[name].kind
    }
    return NodeForm(inputs, one.title, one.is_output or other.is_output)


def _narrower(one: InputForm, other: InputForm) -> InputForm:
    choices = one.choices
    if one.choices is not None and other.choices is not None:
        shared = set(other.choices)
        choices = tuple(each for each in one.choices if each in shared) or None
    lows = [each for each in (one.min, other.min) if each is not None]
    highs = [each for each in (one.max, other.max) if each is not None]
    return InputForm(
        one.kind,
        one.default,
        max(lows, default=None),
        min(highs, default=None),
        one.step if one.step == other.step else None,
        one.is_multiline,
        choices if one.choices is not None and other.choices is not None else None,
    )


def packed(forms: NodeForms) -> str | None:
    """The forms as a worker sends them: base64 of compressed JSON. None if they are too large, also without choices."""
    for keeps_choices in (True, False):
        text = json.dumps(
            {name: _plain(form, keeps_choices) for name, form in sorted(forms.items())}, separators=(",", ":")
        )
        made = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        if len(made) <= MAX_NODE_FORMS_LENGTH and len(text) <= MAX_UNPACKED_BYTES:
            return made
    return None


def _plain(form: NodeForm, keeps_choices: bool) -> dict[str, Any]:
    inputs = {
        name: {
            key: value
            for key, value in asdict(each).items()
            if value is not None and (key, value) != ("is_multiline", False) and (keeps_choices or key != "choices")
        }
        for name, each in form.inputs.items()
    }
    about = {"title": form.title, "is_output": form.is_output, "inputs": inputs}
    return {key: value for key, value in about.items() if value}


def unpacked(content: bytes, classes: Iterable[str]) -> dict[str, NodeForm]:
    """The forms of these classes. Anything that does not have the expected form is left out, because a worker of
    another program may have sent it."""
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(content, MAX_UNPACKED_BYTES)
        document = json.loads(text) if reader.eof else None
    except (zlib.error, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        name: NodeForm(
            dict(_parsed_inputs(node.get("inputs"))),
            title if isinstance(title := node.get("title"), str) else None,
            node.get("is_output") is True,
        )
        for name in classes
        if isinstance(node := document.get(name), dict)
    }


def _parsed_inputs(inputs: object) -> Iterator[tuple[str, InputForm]]:
    """Written as in `/object_info` and read by the same rules, so that a value of a wrong type is left out."""
    kinds: dict[str, str] = {kind: name for name, kind in _KINDS.items()}
    flags: dict[str, str] = {kind: flag for flag, kind in _UPLOADS.items()}
    for name, each in inputs.items() if isinstance(inputs, dict) else ():
        if not isinstance(each, dict) or not isinstance(kind := each.get("kind"), str):
            continue
        declared: list[Any] = [kinds.get(kind, "COMBO"), {**each, "multiline": each.get("is_multiline")}]
        if kind in flags:
            declared = ["COMBO", {flags[kind]: True}]
        elif kind == "choice":
            declared = ["COMBO", {"options": each.get("choices"), "default": each.get("default")}]
        elif kind not in kinds:
            continue
        form = _input_form(name, declared)
        if form is not None:
            yield name, form
