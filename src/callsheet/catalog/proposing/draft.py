"""A proposal while it is made: a graph, and the properties of its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.catalog.proposing.chosen import ChosenProperty, Unusable, with_settings
from callsheet.catalog.proposing.inputs import NodeInput
from callsheet.catalog.proposing.outputs import ProposedOutput
from callsheet.providers.comfy.file_inputs import is_link
from callsheet.providers.comfy.node_forms import NodeForms
from callsheet.wire.catalog import Property

ANY = ""
_KEY = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(slots=True)
class Proposal:
    """A graph that contains placeholders, and one property for each placeholder."""

    graph: dict[str, Any]
    # The engines' declarations about the classes of the graph, as far as it is known.
    forms: NodeForms = field(default_factory=dict)
    # Keys are node and input, or ANY and the key of a property.
    chosen: Mapping[tuple[str, str], ChosenProperty] = field(default_factory=dict)
    properties: list[Property] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """The place of the placeholder, for people, by key of a property."""
    outputs: list[ProposedOutput] = field(default_factory=list)
    left_out: int = 0
    """Number of inputs that would be properties, if a workflow could have more of them."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The node whose title can be the label, by key of a property."""
    labelled: set[str] = field(default_factory=set)
    """Keys of properties whose labels were chosen."""

    def sources(self) -> Iterator[NodeInput]:
        """Every input that is not a link. Nodes are in numerical order of their ids."""
        for node_id in sorted(self.graph, key=lambda each: (len(each), each)):
            node = self.graph[node_id]
            form = self.forms.get(node["class_type"])
            for name, value in list(node["inputs"].items()):
                if not is_link(value):
                    declared = form.inputs.get(name) if form is not None else None
                    yield NodeInput(node_id, node["class_type"], name, value, declared)

    def choice(self, source: NodeInput, key: str | None = None) -> ChosenProperty | None:
        """The operator's choice for the input, or for the property with this key."""
        return self.chosen.get((source.node_id, source.name)) or self.chosen.get((ANY, key or ""))

    def add(self, source: NodeInput, wanted: Property, before: str = "") -> None:
        """`before`: text of the input in front of the placeholder."""
        self.graph[source.node_id]["inputs"][source.name] = before + wanted.placeholder
        self.nodes[wanted.key] = source.node_id
        self.note(source, wanted)

    def note(self, source: NodeInput, wanted: Property) -> None:
        chosen = self.choice(source, wanted.key)
        if chosen is not None:
            if chosen.type not in (None, wanted.type):
                place = f"{source.node_id}.{source.name}"
                raise Unusable(
                    f"The property {wanted.key!r} has the type {wanted.type.value}. Name its input: {place}."
                )
            wanted = with_settings(wanted, chosen.settings)
            if "label" in chosen.settings:
                self.labelled.add(wanted.key)
        self.properties.append(wanted)
        self.places[wanted.key] = f"{source.class_type} {source.node_id}, {source.name}"

    def key(self, wanted: str) -> str:
        """The wanted key, with a number appended if the key is taken."""
        taken = {each.key for each in self.properties}
        names = (wanted if number == 1 else f"{wanted}_{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def chosen_key(self, source: NodeInput, wanted: str) -> str:
        """The key that the operator chose for the input, or else the wanted key."""
        chosen = self.choice(source)
        if chosen is None or "key" not in chosen.settings:
            return self.key(wanted)
        key = str(chosen.settings["key"])
        if not _KEY.fullmatch(key):
            raise Unusable(
                f"The key {key[:100]!r} must start with a letter and contain lower case letters, digits and _."
            )
        if key != self.key(key):
            raise Unusable(f"There are two properties with the key {key!r}. Choose another key for one of them.")
        return key

    def refuse_unknown_keys(self) -> None:
        for node_id, key in self.chosen:
            if node_id == ANY and key not in self.places:
                known = ", ".join(self.places) or "none"
                raise Unusable(
                    f"There is no property {key!r}. Properties: {known}. To add one, name its node and input."
                )
