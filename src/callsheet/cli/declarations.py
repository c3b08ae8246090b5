"""A pipeline as a file declares it, and what it would change of the one that is there. Pure but for reading it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.cli.console import checked
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.pipelines import CreatePipeline, NewStep, Pipeline, Step

LARGEST_FILE = 1024 * 1024
# Where a step stands is told by the order in the file; the rest is compared when the file names it.
PLACED = frozenset({"name", "position", "slug", "effect"})


@dataclass(frozen=True, slots=True)
class Change:
    sign: str
    """`+` is added, `-` is taken away, `~` is another."""
    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        if self.sign == "~":
            return f"~ {self.what}: {_shown(self.before)} → {_shown(self.after)}"
        told = self.after if self.sign == "+" else self.before
        return f"{self.sign} {self.what}" + (f" {_shown(told)}" if told else "")


def read_declaration(file: Path) -> CreatePipeline:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise OperatorError(f"{file} is too large to declare a pipeline.")
        # Editors on Windows begin a text with a mark.
        declared = tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise OperatorError(f"{file} is not text in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"{file} is not TOML: {error}.") from None
    except RecursionError:
        raise OperatorError(f"{file} is nested too deeply to declare a pipeline.") from None
    except ValueError:
        # Of the two things that raise it, the other is caught above.
        raise OperatorError(f"{file} has a number with too many digits.") from None
    try:
        return checked(CreatePipeline, **declared)
    except OperatorError as wrong:
        raise OperatorError(f"{file}: {wrong}") from None


def changes(found: Pipeline | None, wanted: CreatePipeline, effects: Mapping[str, str]) -> list[Change]:
    """What makes `wanted` of `found`. `effects`: ids of the effects that the file names, by slug."""
    ordered = _ordered(wanted.steps)
    if found is None:
        added = [Change("+", f"step {step.name}", after=_told(step)) for step in ordered]
        return [Change("+", f"pipeline {wanted.slug}"), *added]
    changed = [
        Change("~", name, getattr(found, name), getattr(wanted, name))
        for name in ("name", "description")
        if getattr(found, name) != getattr(wanted, name)
    ]
    return [*changed, *_steps(found.steps, ordered, effects)]


def _ordered(steps: Sequence[NewStep]) -> list[NewStep]:
    return sorted(steps, key=lambda step: step.position or 0)


def _steps(found: Sequence[Step], wanted: Sequence[NewStep], effects: Mapping[str, str]) -> Iterator[Change]:
    before, after = _keyed(found), _keyed(wanted)
    for key, (_, gone) in before.items():
        if key not in after:
            yield Change("-", f"step {gone.name}")
    for key, (place, step) in after.items():
        if key not in before:
            yield Change("+", f"step {step.name}", after=_told(step))
            continue
        old_place, old = before[key]
        if old_place != place:
            yield Change("~", f"step {step.name}: place", old_place, place)
        for name, value in _compared(step, effects).items():
            there = getattr(old, name)
            if (str(there) if name == "effect_id" else there) != value:
                yield Change("~", f"step {step.name}: {name}", there, value)


def _keyed(steps: Sequence[Any]) -> dict[tuple[str, int], tuple[int, Any]]:
    """By name, and where several have it by which of them it is."""
    keyed: dict[tuple[str, int], tuple[int, Any]] = {}
    for place, step in enumerate(steps, start=1):
        number = sum(1 for name, _ in keyed if name == step.name)
        keyed[step.name, number] = (place, step)
    return keyed


def _compared(step: NewStep, effects: Mapping[str, str]) -> dict[str, Any]:
    fields = {name: value for name, value in step.model_dump(mode="json").items() if name not in PLACED}
    if step.slug is not None:
        fields["slug"] = step.slug
    if step.effect is not None:
        fields["effect_id"] = effects[step.effect]
    return fields


def _told(step: NewStep) -> dict[str, Any]:
    return step.model_dump(mode="json", exclude_defaults=True, exclude={"name", "position"})


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
