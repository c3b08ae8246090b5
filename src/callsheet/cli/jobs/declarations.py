"""Reads the declaration of a pipeline from a file, and compares it with the existing pipeline."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.cli.shared.console import checked
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.pipelines.pipelines import CreatePipeline, NewStep, Pipeline, Step

MAX_FILE_BYTES = 1024 * 1024
# Fields that distinguish steps, and fields that the control plane sets.
IDENTITY = {"id", "name", "position"}
# Fields that are derived from the name and the workflow unless the file sets them: a new step has nothing to compare.
DERIVED = {"slug", "effect_id"}


@dataclass(frozen=True, slots=True)
class Change:
    sign: str
    """`+`: added, `-`: removed, `~`: changed."""
    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        if self.sign == "~":
            return f"~ {self.what}: {_shown(self.before)} → {_shown(self.after)}"
        value = self.after if self.sign == "+" else self.before
        return f"{self.sign} {self.what}" + (f" {_shown(value)}" if value else "")


def read_declaration(file: Path) -> CreatePipeline:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise OperatorError(f"{file} is too large for the declaration of a pipeline.")
        # Editors on Windows start a text with a byte order mark.
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
        # The only other cause is handled above.
        raise OperatorError(f"{file} has a number with too many digits.") from None
    try:
        return checked(CreatePipeline, **declared)
    except OperatorError as wrong:
        raise OperatorError(f"{file}: {wrong}") from None


def changes(found: Pipeline | None, planned: Pipeline) -> list[Change]:
    """The changes that turn `found` into `planned`."""
    if found is None:
        added = [Change("+", f"step {step.name}", after=_described(step)) for step in planned.steps]
        return [Change("+", f"pipeline {planned.slug}"), *added]
    changed = [
        Change("~", name, getattr(found, name), getattr(planned, name))
        for name in ("name", "description")
        if getattr(found, name) != getattr(planned, name)
    ]
    return [*changed, *_steps(found.steps, planned.steps)]


def _steps(found: Sequence[Step], planned: Sequence[Step]) -> Iterator[Change]:
    before, after = _keyed(found), _keyed(planned)
    for key, gone in before.items():
        if key not in after:
            yield Change("-", f"step {gone.name}")
    for key, step in after.items():
        if key not in before:
            yield Change("+", f"step {step.name}", after=_described(step))
            continue
        old = before[key]
        if old.position != step.position:
            yield Change("~", f"step {step.name}: place", old.position, step.position)
        there = _fields(old)
        for name, value in _fields(step).items():
            if there[name] != value:
                yield Change("~", f"step {step.name}: {name}", there[name], value)


def _keyed(steps: Sequence[Step]) -> dict[tuple[str, int], Step]:
    """Steps by name; steps with the same name are numbered."""
    keyed: dict[tuple[str, int], Step] = {}
    for step in steps:
        number = sum(1 for name, _ in keyed if name == step.name)
        keyed[step.name, number] = step
    return keyed


def _fields(step: Step) -> dict[str, Any]:
    return step.model_dump(mode="json", exclude=IDENTITY)


def _described(step: Step) -> dict[str, Any]:
    """The fields of a step that differ from their defaults."""
    usual = NewStep(name=step.name, workflow=step.workflow).model_dump(mode="json", exclude={"workflow"})
    return {
        name: value
        for name, value in _fields(step).items()
        if name not in DERIVED and (name not in usual or usual[name] != value)
    }


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
