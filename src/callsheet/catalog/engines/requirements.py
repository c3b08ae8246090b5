"""The requirements of a workflow for an engine, and what an engine lacks. Pure.

A worker that does not report what its engines have, for example a worker of another program, gets every job. A missing
requirement counts only if the worker reports that kind of thing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from operator import eq, ge, gt, le, lt, ne

from callsheet.catalog.graphs import Graph
from callsheet.catalog.proposing.known_nodes import OUTPUTS
from callsheet.providers.comfy.models import classes_of_graph, models_of_graph
from callsheet.wire.catalog import Property
from callsheet.wire.plurals import counted
from callsheet.wire.worker.environment import CONDITION, Environment, Lack, Required, RequiredModel, Requirements

# Maximum number of missing things that are stored for an environment and a workflow.
MAX_MISSING = 20
# Maximum number of missing things that a sentence names. It counts the others.
MAX_NAMED = 5
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True)
class ReportedInventory:
    """The things that the engines of a worker have. None means that the worker does not report them."""

    node_classes: frozenset[str] | None
    # The hash of each file; None if it is unknown.
    models: Mapping[str, str | None] | None
    engine_versions: tuple[str, ...] | None

    @classmethod
    def of(cls, environment: Environment) -> ReportedInventory:
        models = environment.models
        return cls(
            None if environment.node_classes is None else frozenset(environment.node_classes),
            None if models is None else {model.name: model.sha256 for model in models},
            None if environment.engine_versions is None else tuple(environment.engine_versions),
        )


def required_of(graph: Graph | None, properties: Sequence[Property], requirements: Requirements) -> Required | None:
    """Everything that an engine must have. None if the workflow has no graph: engines do not run it."""
    if graph is None:
        return None
    classes: list[str] = []
    models: dict[str, str | None] = {}
    if requirements.from_graph:
        ignored = set(requirements.ignore)
        classes = [name for name in classes_of_graph(graph) if name not in ignored]
        models = {name: None for name in loaded_by(graph, properties) if name not in ignored}
    models |= {model.name: model.sha256 for model in requirements.models}
    return Required(
        node_classes=sorted({*classes, *requirements.node_classes}),
        models=[RequiredModel(name=name, sha256=sha256) for name, sha256 in sorted(models.items())],
        engine_version=requirements.engine_version,
    )


def loaded_by(graph: Graph | None, properties: Sequence[Property]) -> list[str]:
    """The model files that every job of the workflow loads. Models whose names a job sets are left out."""
    placeholders = [each.placeholder for each in properties]
    found = models_of_graph(graph) if graph is not None else []
    return [name for name in found if not any(placeholder in name for placeholder in placeholders)]


def lacks(required: Required, inventory: ReportedInventory) -> list[Lack]:
    """The first things that the engines lack."""
    return list(islice(all_lacks(required, inventory), MAX_MISSING))


def missing_text(counts: Sequence[tuple[Lack, int]], workers: int) -> str:
    """Why no worker can run the workflow. `counts`: how many of the `workers` lack each thing."""
    of_all = sorted((lack for lack, count in counts if count >= workers), key=importance)
    if of_all:
        return f"No worker has {_listed([named(lack) for lack in of_all], 'or')}."
    of_some = sorted(counts, key=lambda each: (-each[1], importance(each[0])))
    parts = [f"{counted(count, 'worker lacks', 'workers lack')} {named(lack)}" for lack, count in of_some]
    return f"{_listed(parts, 'and')}." if parts else "No worker has everything that the workflow requires."


def _listed(parts: Sequence[str], conjunction: str) -> str:
    if len(parts) > MAX_NAMED:
        # More may be missing than is stored.
        least = "at least " if len(parts) >= MAX_MISSING else ""
        return f"{', '.join(parts[:MAX_NAMED])} and {least}{len(parts) - MAX_NAMED} more"
    *others, last = parts
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def importance(lack: Lack) -> tuple[int, str, str]:
    """Custom nodes first: if their package is missing, the rest of the list often is a consequence."""
    is_known = lack.name in OUTPUTS
    return (1 if lack.kind != "node_class" else 2 if is_known else 0), lack.kind, lack.name


def missing_in(environments: Sequence[Sequence[Lack]]) -> str:
    """Why no environment can run the workflow. `environments`: what each of them lacks."""
    counts = Counter((lack.kind, lack.name) for lacking in environments for lack in lacking)
    return missing_text(
        [(Lack(kind=kind, name=name), count) for (kind, name), count in counts.most_common()], len(environments)
    )


def named(lack: Lack) -> str:
    match lack.kind:
        case "node_class":
            return f"the node class {lack.name}"
        case "model":
            return f"the model {lack.name}"
        case "model_hash":
            return f"the model {lack.name} with the required hash"
        case "engine_version":
            return f"an engine of version {lack.name}"
        case "choice":
            return f"the choice {lack.name}"


def all_lacks(required: Required, inventory: ReportedInventory) -> Iterator[Lack]:
    """Everything that the engines lack."""
    if inventory.node_classes is not None:
        for name in sorted(required.node_classes, key=lambda each: (each in OUTPUTS, each)):
            if name not in inventory.node_classes:
                yield Lack(kind="node_class", name=name)
    if inventory.models is not None:
        for model in required.models:
            if model.name not in inventory.models:
                yield Lack(kind="model", name=model.name)
            elif model.sha256 is not None and inventory.models[model.name] != model.sha256:
                yield Lack(kind="model_hash", name=model.name)
    wanted, versions = required.engine_version, inventory.engine_versions
    if wanted is not None and versions is not None and not any(_is_in(version, wanted) for version in versions):
        yield Lack(kind="engine_version", name=wanted)


def _is_in(version: str, conditions: str) -> bool:
    found = _NUMBERS.match(version)
    if found is None:
        return False
    numbers = [int(number) for number in found[1].split(".")]
    return all(_fulfils(numbers, condition) for condition in conditions.split(","))


def _fulfils(numbers: Sequence[int], condition: str) -> bool:
    parsed = CONDITION.fullmatch(condition)
    assert parsed is not None, "the version was checked when it was set"
    wanted = [int(number) for number in parsed[2].split(".")]
    # 0.7 equals 0.7.0.
    pairs = list(zip_longest(numbers, wanted, fillvalue=0))
    difference = next((left - right for left, right in pairs if left != right), 0)
    return _COMPARE[parsed[1]](difference, 0)
