"""Finds changes of the HTTP API that would break a client of the last release: docs/api-stability.md has the rules.

For each release, from 0.1.0 on, run `.venv/bin/python -m tools.api_changes`. It stores the OpenAPI document of the
release, and a test then compares every later document with it. Before the first release there is no stored document.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from callsheet.app.control_plane import openapi_document
from callsheet.settings import load_settings

RELEASED = Path(__file__).parents[1] / "tests" / "samples" / "released_api.json.gz"
Schema = Mapping[str, Any]
# What a schema describes: a value that clients send, or one that they receive.
Direction = Literal["sent", "received"]
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")


def current_document() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        return openapi_document(load_settings(home=Path(home)))


def released_document(file: Path = RELEASED) -> dict[str, Any] | None:
    """The document of the last release. None before the first release."""
    if not file.exists():
        return None
    document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return document


def keep(document: Mapping[str, Any], file: Path = RELEASED) -> None:
    file.write_bytes(gzip.compress(json.dumps(document, sort_keys=True).encode(), mtime=0))


def breaking_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Each change that breaks a client which was written for the old document, as a sentence."""
    found = list(_of_operations(_Comparison(old, new), old["paths"], new["paths"]))
    return list(dict.fromkeys(found))


@dataclass
class _Comparison:
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    # Pairs of named schemas that are compared already: a schema may contain itself.
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def schemas(self, where: str, old: Schema, new: Schema, direction: Direction) -> Iterator[str]:
        if "$ref" in old and "$ref" in new:
            pair = (old["$ref"], new["$ref"], direction)
            if pair in self.seen:
                return
            self.seen.add(pair)
            where = old["$ref"].rpartition("/")[2]
        before, after = _forms(old, self.old), _forms(new, self.new)
        for kind in before.keys() - after.keys() if direction == "sent" else after.keys() - before.keys():
            verb = "no longer takes" if direction == "sent" else "can now be"
            yield f"{where} {verb} {kind}."
        for kind in sorted(before.keys() & after.keys()):
            # Several forms of one kind have no names by which they could be matched, so only their number is compared.
            if len(before[kind]) == len(after[kind]) == 1:
                yield from self._form(where, before[kind][0], after[kind][0], direction)
            elif direction == "sent" and len(after[kind]) < len(before[kind]):
                yield f"{where} takes fewer forms of {kind}."

    def _form(self, where: str, old: Schema, new: Schema, direction: Direction) -> Iterator[str]:
        yield from _values(where, old, new, direction)
        yield from self._members(where, old, new, direction)
        for part in ("items", "additionalProperties"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from self.schemas(f"{where}[]", old[part], new[part], direction)
        if direction == "sent" and new.get("additionalProperties") is False and old.get("additionalProperties", True):
            yield f"{where} no longer takes other members."

    def _members(self, where: str, old: Schema, new: Schema, direction: Direction) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before.keys() - after.keys():
            yield f"{where}.{name} was removed."
        for name in sorted(before.keys() & after.keys()):
            yield from self.schemas(f"{where}.{name}", before[name], after[name], direction)
        required = set(old.get("required", ())), set(new.get("required", ()))
        if direction == "sent":
            yield from (f"{where}.{name} is now required." for name in sorted(required[1] - required[0]))
        else:
            yield from (
                f"{where}.{name} can now be missing." for name in sorted((required[0] - required[1]) & set(after))
            )


def _of_operations(both: _Comparison, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in old.items():
        for method, before in methods.items():
            where = f"{method.upper()} {path}"
            after = new.get(path, {}).get(method)
            if after is not None:
                yield from _of_parameters(both, where, before, after)
                yield from _of_body(both, where, before, after)
                yield from _of_responses(both, where, before, after)
            elif not before.get("deprecated"):
                yield f"{where} was removed, and the last release did not say that it is deprecated."


def _of_parameters(both: _Comparison, where: str, old: Schema, new: Schema) -> Iterator[str]:
    before, after = ({(each["in"], each["name"]): each for each in one.get("parameters", ())} for one in (old, new))
    for place, name in before.keys() - after.keys():
        # A parameter that is unknown is refused.
        yield f"{where}: the {place} parameter {name} was removed."
    for key, each in after.items():
        place, name = key
        if each.get("required") and not before.get(key, {}).get("required"):
            yield f"{where}: the {place} parameter {name} is now required."
        if key in before:
            yield from both.schemas(f"{where}: {name}", before[key]["schema"], each["schema"], "sent")


def _of_body(both: _Comparison, where: str, old: Schema, new: Schema) -> Iterator[str]:
    before, after = old.get("requestBody"), new.get("requestBody")
    if after is None:
        if before is not None:
            yield f"{where} no longer takes a body."
        return
    if after.get("required") and not (before or {}).get("required"):
        yield f"{where} now needs a body."
    for media, content in (before or {}).get("content", {}).items():
        if media not in after["content"]:
            yield f"{where} no longer takes {media}."
        else:
            yield from both.schemas(f"{where}: body", content["schema"], after["content"][media]["schema"], "sent")


def _of_responses(both: _Comparison, where: str, old: Schema, new: Schema) -> Iterator[str]:
    for status, before in old["responses"].items():
        after = new["responses"].get(status)
        if after is None:
            yield f"{where} no longer returns {status}."
            continue
        for media, content in before.get("content", {}).items():
            if media not in after.get("content", {}):
                yield f"{where} no longer returns {media} with {status}."
            elif "schema" in content:
                shown = after["content"][media].get("schema", {})
                yield from both.schemas(f"{where}: {status}", content["schema"], shown, "received")


def _values(where: str, old: Schema, new: Schema, direction: Direction) -> Iterator[str]:
    """Changes of the values that a text, a number or a list may have. A response may get new values, and stays within
    the limits of requests.
    """
    if direction == "received":
        return
    if "enum" in new and (gone := [value for value in old.get("enum", ["any value"]) if value not in new["enum"]]):
        yield f"{where} no longer takes {', '.join(map(str, gone))}."
    for name in UPPER:
        if name in new and (name not in old or new[name] < old[name]):
            yield f"{where}: {name} is now {new[name]}."
    for name in LOWER:
        if name in new and new[name] > old.get(
            name, 0 if name.startswith("min") and name != "minimum" else float("-inf")
        ):
            yield f"{where}: {name} is now {new[name]}."
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{where} has another pattern."


def _forms(schema: Schema, document: Mapping[str, Any]) -> Mapping[str, Sequence[Schema]]:
    """The forms that a value may have, by the type of JSON: `string` or `null`, for example."""
    if "$ref" in schema:
        return _forms(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    forms: dict[str, list[Schema]] = {}
    for option in schema.get("anyOf") or schema.get("oneOf") or ():
        for kind, found in _forms(option, document).items():
            forms.setdefault(kind, []).extend(found)
    if not forms:
        if "const" in schema:
            schema = {**schema, "enum": [schema["const"]]}
        kinds = schema.get("type", "any value")
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            forms[kind] = [schema]
    return forms


def main() -> None:
    keep(current_document())


if __name__ == "__main__":
    main()
