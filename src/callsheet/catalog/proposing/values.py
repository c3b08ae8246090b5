"""Proposes properties for placeholders that are in the graph, for numbers, choices and booleans, and for inputs that an
operator chose. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callsheet.catalog.proposing.chosen import ChosenProperty, Unusable
from callsheet.catalog.proposing.draft import Proposal
from callsheet.catalog.proposing.inputs import (
    MAX_LABEL_LENGTH,
    WHOLE,
    NodeInput,
    declared_type,
    key_of,
    own_title,
    property_of,
    takes_value,
)
from callsheet.providers.comfy.file_inputs import nodes_that_name_files, takes_file
from callsheet.providers.comfy.models import is_model_file
from callsheet.wire.catalog import FILES, MAX_NUMBER, MAX_PROPERTIES, PropertyType

WRITTEN = re.compile(r"\{\{([a-z][a-z0-9_]{0,62})\}\}")
_NUMBERS = (*WHOLE, "cfg", "denoise", "guidance", "strength", "strength_model", "strength_clip")


def propose_written(proposal: Proposal) -> None:
    """Placeholders that are in the graph. They come before other texts, because the user chose their names."""
    of_files = nodes_that_name_files(proposal.graph)
    found: dict[str, list[tuple[NodeInput, PropertyType]]] = {}
    for source in proposal.sources():
        for key in WRITTEN.findall(source.value) if isinstance(source.value, str) else ():
            is_whole = source.value == f"{{{{{key}}}}}"
            kind = (_written_type(proposal, source, key) if is_whole else None) or PropertyType.TEXT
            names_file = source.node_id in of_files or takes_file(source.class_type, source.name)
            if kind is not PropertyType.TEXT or not names_file:
                found.setdefault(key, []).append((source, kind))
    for key, places in found.items():
        if key in proposal.places:
            continue
        # A value that is a number in one place can be written into the texts of the others.
        source, kind = next((each for each in places if each[1] is not PropertyType.TEXT), places[0])
        form = source.form if kind is not PropertyType.TEXT else None
        default = form.default if form is not None and takes_value(kind, form.default) else None
        made = property_of(replace(source, value=default, form=form), kind, key)
        proposal.note(source, made.model_copy(update={"required": default is None}))


def _written_type(proposal: Proposal, source: NodeInput, key: str) -> PropertyType | None:
    chosen = proposal.choice(source, key)
    declared = chosen.type if chosen is not None and chosen.type else declared_type(source.form)
    of_form = (source.form.choices or ()) if source.form is not None else ()
    has_choices = any(takes_value(PropertyType.CHOICE, each) for each in of_form)
    if declared is PropertyType.CHOICE and not has_choices and not (chosen and "choices" in chosen.settings):
        return None
    if declared is not None:
        return None if declared in FILES else declared
    # Another node of the class may have a number in this input.
    others = [node["inputs"].get(source.name) for node in proposal.graph.values() if _is_same(node, source)]
    is_number = source.name in _NUMBERS or any(takes_value(PropertyType.NUMBER, each) for each in others)
    return PropertyType.NUMBER if is_number else None


def _is_same(node: Mapping[str, Any], source: NodeInput) -> bool:
    return bool(node["class_type"] == source.class_type)


def propose_values(
    proposal: Proposal, types_of: Callable[[NodeInput, bool], Sequence[PropertyType]], *, everything: bool
) -> None:
    """Inputs that the operator chose, and with `everything` all numbers, choices and booleans."""
    of_files = nodes_that_name_files(proposal.graph)
    # If there are too many for one workflow, the usual ones are the ones that are kept.
    sources = sorted(proposal.sources(), key=lambda each: (proposal.choice(each) is None, each.name not in _NUMBERS))
    taken = {each.placeholder for each in proposal.properties}
    for source in sources:
        chosen = proposal.choice(source)
        is_taken = isinstance(source.value, str) and any(each in source.value for each in taken)
        if is_taken or (chosen is not None and chosen.is_fixed):
            continue
        if chosen is not None:
            types = types_of(source, source.node_id in of_files)
            _add_chosen(proposal, source, chosen.type or next(iter(types), None), chosen)
        elif everything and (kind := _value_type(source)) is not None:
            if len(proposal.properties) >= MAX_PROPERTIES:
                proposal.left_out += 1
                continue
            key = proposal.key(key_of(source.name))
            # Every seed costs the same, but a user could request a million steps.
            proposal.add(source, property_of(source, kind, key, user_configurable=source.is_seed))


def _add_chosen(proposal: Proposal, source: NodeInput, kind: PropertyType | None, chosen: ChosenProperty) -> None:
    value = chosen.settings.get("default", source.value)
    if kind is None or not takes_value(kind, value):
        what = "a property" if kind is None else f"the default of a property of type {kind.value}"
        shown = str(source.value)[:100]
        raise Unusable(f"{source.node_id}.{source.name}: the value in the graph, {shown}, cannot be {what}.")
    key = proposal.chosen_key(source, key_of(source.name))
    proposal.add(source, property_of(replace(source, value=value), kind, key))


def _value_type(source: NodeInput) -> PropertyType | None:
    """The type of a number, a boolean or a choice; None for any other input."""
    value, form = source.value, source.form
    kind = declared_type(form)
    if form is not None and kind is PropertyType.CHOICE:
        # A model that is a property would no longer be required of an engine.
        is_choice = takes_value(kind, value) and value in (form.choices or ())
        return kind if is_choice and not is_model_file(value) else None
    usual = (PropertyType.BOOLEAN, PropertyType.NUMBER)
    found = next((each for each in usual if takes_value(each, value)), None)
    return found if kind in (None, found) and (found is not PropertyType.NUMBER or abs(value) < MAX_NUMBER) else None


def use_titles(proposal: Proposal) -> None:
    """Titles that people gave to nodes become labels. If a node has several properties, the labels name them, too."""
    count = Counter(proposal.nodes.values())
    for place, each in enumerate(proposal.properties):
        node_id = proposal.nodes.get(each.key)
        if node_id is None or each.key in proposal.labelled:
            continue
        node = proposal.graph[node_id]
        title = own_title(node, proposal.forms.get(node["class_type"]))
        if title is not None:
            label = f"{title}: {each.label}"[:MAX_LABEL_LENGTH] if count[node_id] > 1 else title
            proposal.properties[place] = each.model_copy(update={"label": label})
