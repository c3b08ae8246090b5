"""Makes the items of a batch from its request. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from callsheet.wire.effects import MAX_ITEMS, BatchGrid, SubmitBatch, SubmitEffectJob
from callsheet.wire.errors import FieldProblem, InvalidRequest, Refusal
from callsheet.wire.plurals import counted

FILE = "input_file_id"
VALUES = "input_payload"


@dataclass(frozen=True, slots=True)
class Item:
    wanted: SubmitEffectJob
    # The field of the batch that is named instead of a field of the job.
    places: Mapping[str, str]
    client_reference: str | None = None
    metadata: Mapping[str, str] | None = None

    def problems(self, errors: Sequence[FieldProblem]) -> Iterator[FieldProblem]:
        """The problems of the job, as problems of the request for the batch."""
        for each in errors:
            yield FieldProblem(self.places.get(each.field, each.field), each.reason)

    def named(self, refusal: Refusal) -> Refusal:
        """The refusal of the job, as one of the request for the batch."""
        if isinstance(refusal, InvalidRequest):
            return InvalidRequest.of([*self.problems(refusal.errors)])
        return refusal.with_errors(self.problems(refusal.errors))


def items_of(request: SubmitBatch) -> list[Item]:
    if (request.items is None) == (request.grid is None):
        raise InvalidRequest.field("items", "Send either items or grid.")
    if request.grid is not None:
        return [_item(request, file_id, values, places) for file_id, values, places in _of_grid(request.grid)]
    found = []
    for number, each in enumerate(request.items or ()):
        places = {f"{VALUES}.{key}": f"items.{number}.{VALUES}.{key}" for key in each.input_payload}
        places |= {FILE: f"items.{number}.{FILE}", VALUES: f"items.{number}.{VALUES}"}
        item = _item(request, each.input_file_id, each.input_payload, places)
        found.append(Item(item.wanted, item.places, each.client_reference, each.metadata))
    return found


def _item(request: SubmitBatch, file_id: UUID | None, values: Mapping[str, Any], places: Mapping[str, str]) -> Item:
    # The parts were checked with the request.
    wanted = SubmitEffectJob.model_construct(
        effect_id=request.effect_id,
        input_file_id=file_id,
        input_payload={**request.input_payload, **values},
        priority=request.priority,
    )
    return Item(wanted, places)


def _of_grid(grid: BatchGrid) -> Iterator[tuple[UUID | None, dict[str, Any], dict[str, str]]]:
    """The file, the values, and the fields that they came from, for each item."""
    lists: dict[str, Sequence[Any]] = {} if grid.input_file_ids is None else {FILE: grid.input_file_ids}
    lists |= {f"{VALUES}.{key}": values for key, values in grid.values.items()}
    if not lists:
        raise InvalidRequest.field("grid", "The grid has no list. Send input_file_ids, or values of properties.")
    for chosen in _positions(grid, [len(values) for values in lists.values()]):
        values = {name: each[at] for (name, each), at in zip(lists.items(), chosen, strict=True)}
        places = {name: f"{_place(name)}.{at}" for name, at in zip(lists, chosen, strict=True)}
        file_id = values.pop(FILE, None)
        yield (
            file_id,
            {name.removeprefix(f"{VALUES}."): each for name, each in values.items()},
            {
                FILE: "grid.input_file_ids",
                VALUES: "grid.values",
                **places,
            },
        )


def _place(name: str) -> str:
    return "grid.input_file_ids" if name == FILE else f"grid.values.{name.removeprefix(f'{VALUES}.')}"


def _positions(grid: BatchGrid, lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if grid.mode == "zipped":
        if len(set(lengths)) > 1:
            found = ", ".join(map(str, sorted(set(lengths))))
            raise InvalidRequest.field(
                "grid", f"The lists have different lengths: {found}. With the mode zipped, all have the same length."
            )
        return ((place,) * len(lengths) for place in range(lengths[0]))
    number = math.prod(lengths)
    if number > MAX_ITEMS:
        found = counted(number, "combination") if number < 10**9 else "far too many combinations"
        raise InvalidRequest.field(
            "grid", f"The lists have {found}. The limit is {MAX_ITEMS}: send several batches, or shorter lists."
        )
    return itertools.product(*map(range, lengths))
