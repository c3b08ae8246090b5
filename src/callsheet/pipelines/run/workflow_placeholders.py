"""The placeholders of a step's workflow: `{{prompt}}`, `{{parent_image_path}}`, `{{seed}}` and variables. Pure.

A property of the workflow may describe a placeholder and limit its value. A placeholder without a property takes any
text, number or boolean. In both cases the catalog replaces the placeholder in parsed values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from callsheet.catalog.graphs import Graph, texts_of
from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.placeholders import as_text
from callsheet.catalog.pricing.prices import depends_on_files
from callsheet.catalog.properties import Unfit, check_properties, fit, primary_input
from callsheet.wire.catalog import FILES, MAX_TEXT_LENGTH, Limits, Property, PropertyType
from callsheet.wire.errors import FieldProblem
from callsheet.wire.pipelines.pipelines import MAX_SEED

PROMPT, PARENT, SEED = "prompt", "parent_image_path", "seed"
NAME = re.compile(r"\{\{([^{}]*)\}\}")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,62}")


class WorkflowProperties(Protocol):
    """The properties of a workflow, which describe its placeholders."""

    @property
    def properties(self) -> tuple[Property, ...]: ...


@dataclass(frozen=True, slots=True)
class Needs:
    """The values of the run and the parent that a step uses."""

    prompt: bool = False
    parent: bool = False
    variables: bool = False
    # Values of the step by key of a property. A text may contain placeholders.
    values: Mapping[str, Any] = field(default_factory=dict)


def placeholder(name: str) -> str:
    return "{{" + name + "}}"


def names_of(value: object) -> list[str]:
    """The names between double braces in the value of a property."""
    return NAME.findall(value) if isinstance(value, str) else []


def names_in_values(needs: Needs) -> set[str]:
    return {name for value in needs.values.values() for name in names_of(value)}


def filled_text(text: Any, values: Mapping[str, Any]) -> Any:
    """The text with its placeholders replaced in one pass. A text that consists of one placeholder becomes the value
    with its type. A placeholder without a value and a value that is not a text stay unchanged.
    """
    if not isinstance(text, str):
        return text
    only = NAME.fullmatch(text)
    if only is not None:
        return values.get(only[1], text)
    return NAME.sub(lambda found: as_text(values[found[1]]) if found[1] in values else found[0], text)


def undescribed(recipe: WorkflowProperties, graph: Graph) -> set[str]:
    """Names between double braces in the graph that no property of the workflow describes."""
    found = {name for text in texts_of(graph) for name in NAME.findall(text.text)}
    return {name for name in found if not any(placeholder(name) in each.placeholder for each in recipe.properties)}


def property_of(recipe: WorkflowProperties, name: str) -> Property | None:
    """The property that a name sets: by its placeholder, or else by its key."""
    by_placeholder = next((each for each in recipe.properties if each.placeholder == placeholder(name)), None)
    return by_placeholder or next((each for each in recipe.properties if each.key == name), None)


def file_property(recipe: WorkflowProperties) -> Property | None:
    """The property that gets the parent's image."""
    named = property_of(recipe, PARENT)
    return primary_input(recipe.properties) or (named if named and named.type in FILES else None)


def completed(recipe: EffectRecipe, graph: Graph, given: Mapping[str, Any]) -> EffectRecipe:
    """The recipe with a property for every undescribed placeholder, of the type of the given value."""
    added = []
    for name in sorted(undescribed(recipe, graph)):
        is_parent = name == PARENT
        kind = PropertyType.IMAGE if is_parent else _type_of(given.get(name, ""))
        added.append(
            Property(
                key=name,
                type=kind,
                placeholder=placeholder(name),
                required=True,
                user_configurable=True,
                is_primary_input=is_parent,
                limits=Limits(max_length=MAX_TEXT_LENGTH) if kind is PropertyType.TEXT else Limits(),
            )
        )
    return replace(recipe, properties=(*recipe.properties, *added))


def _type_of(value: object) -> PropertyType:
    match value:
        case bool():
            return PropertyType.BOOLEAN
        case int() | float():
            return PropertyType.NUMBER
    return PropertyType.TEXT


PRICED_BY_FILE = (
    "The price of this effect depends on a file, and the files of a run are not measured before its jobs start. Choose "
    "an effect with another price."
)


def check_step(recipe: EffectRecipe, graph: Graph, needs: Needs, position: int) -> Iterator[FieldProblem]:
    """Problems of the workflow as a step that do not depend on a run, by the field of the step."""
    names = undescribed(recipe, graph)
    refused = [reason for name in sorted(names) if (reason := unknown(name, needs))]
    yield from (FieldProblem("workflow", reason) for reason in refused)
    if depends_on_files(recipe.price.formula):
        yield FieldProblem("workflow", PRICED_BY_FILE)
    if refused:
        return
    whole = completed(recipe, graph, {})
    for problem in check_properties(whole.properties, graph):
        yield FieldProblem("workflow", f"The workflow cannot be filled. {problem.reason}")
    if needs.prompt and property_of(whole, PROMPT) is None and PROMPT not in names_in_values(needs):
        yield FieldProblem("needs_run_prompt", "The step needs the run's prompt, but the workflow has no {{prompt}}.")
    yield from _check_parent(recipe, file_property(whole) is not None, needs, position)
    yield from _check_values(whole, needs)
    yield from _check_required(whole, needs)


def unknown(name: str, needs: Needs) -> str | None:
    if not _KEY.fullmatch(name):
        return f"The placeholder {{{{{name[:100]}}}}} is not a valid name."
    match name:
        case "prompt" if not needs.prompt:
            return "There is a {{prompt}}, but the step does not use the run's prompt. Set needs_run_prompt."
        case "parent_image_path" if not needs.parent:
            return "There is a {{parent_image_path}}, but the step uses no parent. Set needs_parent_image_path."
        case "prompt" | "parent_image_path" | "seed":
            return None
    return (
        None
        if needs.variables
        else f"The placeholder {placeholder(name)} is unknown. To use the run's variables, set needs_run_variables."
    )


def _check_parent(recipe: EffectRecipe, takes_file: bool, needs: Needs, position: int) -> Iterator[FieldProblem]:
    field = "needs_parent_image_path"
    if needs.parent and position == 1:
        yield FieldProblem(field, "The first step has no parent.")
    elif needs.parent and not takes_file:
        yield FieldProblem(field, "The workflow has no {{parent_image_path}} and takes no image.")
    elif not needs.parent and primary_input(recipe.properties) is not None:
        reason = "This workflow works on an image, but the first step has no parent." if position == 1 else None
        yield FieldProblem(field, reason or "This workflow works on an image. Set needs_parent_image_path.")


def _check_values(recipe: EffectRecipe, needs: Needs) -> Iterator[FieldProblem]:
    by_key = {each.key: each for each in recipe.properties}
    for key, value in needs.values.items():
        where = f"values.{key[:100]}"
        each = by_key.get(key)
        if each is None:
            yield FieldProblem(where, "This workflow has no such property.")
        elif each.type in FILES:
            yield FieldProblem(where, "This property is a file, which a step cannot set.")
        elif not each.user_configurable:
            yield FieldProblem(where, "Users cannot set this property.")
        elif wrong := [reason for name in names_of(value) if (reason := _not_in_values(name, needs))]:
            yield from (FieldProblem(where, reason) for reason in wrong)
        elif _is_template(each, value):
            # Each run checks the text that results from its values.
            continue
        else:
            try:
                fit(each, value)
            except Unfit as unfit:
                yield FieldProblem(where, str(unfit))


def _not_in_values(name: str, needs: Needs) -> str | None:
    if name == PARENT:
        return f"A value cannot contain {placeholder(PARENT)}: the workflow gets the parent's image by itself."
    return unknown(name, needs)


def _is_template(each: Property, value: object) -> bool:
    """Whether the value is known only in a run. Only a text can have other characters beside a placeholder."""
    whole = isinstance(value, str) and NAME.fullmatch(value) is not None
    return bool(names_of(value)) and (whole or each.type is PropertyType.TEXT)


def _check_required(recipe: EffectRecipe, needs: Needs) -> Iterator[FieldProblem]:
    if needs.variables:
        # Each run checks its own variables.
        return
    filled = {each.key for name in _given_names(needs) if (each := property_of(recipe, name))}
    for each in recipe.properties:
        has_value = recipe.overrides.get(each.key, each.default) is not None
        if each.required and not each.is_primary_input and not has_value and each.key not in filled | set(needs.values):
            yield FieldProblem(f"values.{each.key}", "This property is required. Set it here.")


def _given_names(needs: Needs) -> set[str]:
    return {SEED} | ({PROMPT} if needs.prompt else set()) | ({PARENT} if needs.parent else set())


def given_values(
    recipe: EffectRecipe, needs: Needs, prompt: str | None, variables: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """The values for the step's job, by key of a property. Names without a property are left out."""
    named: dict[str, Any] = {SEED: seed}
    if needs.variables:
        named |= variables
    if needs.prompt and prompt is not None:
        named[PROMPT] = prompt
    # A seed that the scheduler draws is larger than the maximum of most engines.
    drawn = {} if SEED in variables else {placeholder(SEED): seed}
    limits = {each.key: each.limits for each in recipe.properties if each.type is PropertyType.NUMBER}
    values = {
        key: _within(limits[key], drawn[value]) if key in limits and value in drawn else filled_text(value, named)
        for key, value in needs.values.items()
    }
    for name, value in named.items():
        each = property_of(recipe, name)
        if each is None or each.type in FILES or names_of(needs.values.get(each.key)):
            # The text of the step contains the place of the value.
            continue
        if name != SEED or name in variables:
            values[each.key] = value
        elif each.user_configurable and each.type is PropertyType.NUMBER and each.key not in values:
            # The seed is optional: a workflow whose users cannot set a seed has its own.
            values[each.key] = _within(each.limits, seed)
    return values


def _within(limits: Limits, seed: int) -> int:
    """The seed within the limits of the engine."""
    low = math.ceil(limits.min or 0)
    high = math.floor(limits.max) if limits.max is not None else MAX_SEED
    return low + seed % max(1, high - low + 1)


def taken_variables(recipe: EffectRecipe, graph: Graph, needs: Needs) -> set[str]:
    """The names of variables that a step uses."""
    if not needs.variables:
        return set()
    described = {each.key for each in recipe.properties if each.type not in FILES}
    braced = {name for each in recipe.properties for name in NAME.findall(each.placeholder)}
    return (described | braced | undescribed(recipe, graph) | names_in_values(needs)) - {PROMPT, PARENT}


def lacking_variables(needs: Needs, variables: Mapping[str, Any]) -> list[str]:
    """The variables that the values of the step use and that the run does not give."""
    return sorted(names_in_values(needs) - variables.keys() - {PROMPT, SEED}) if needs.variables else []


def seed_used(value: object, drawn: int) -> int:
    """`value` if it is a valid seed, or else the drawn seed."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEED:
        return value
    return drawn
