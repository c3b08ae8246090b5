"""Finds the values in which the items of a batch differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.wire.effects import BatchItemValues, BatchValues


class SentValue(NamedTuple):
    item: int
    key: str
    # Null if the value is null.
    text: str | None
    hash: str | None


def differing_values(rows: Sequence[SentValue]) -> BatchValues:
    """A key that only some items have differs, too."""
    items: dict[int, dict[str, SentValue]] = {}
    for row in rows:
        items.setdefault(row.item, {})[row.key] = row
    keys = dict.fromkeys(row.key for row in rows)
    differing = [key for key in keys if len({sent[key].hash if key in sent else "" for sent in items.values()}) > 1]
    return BatchValues(
        keys=differing,
        items=[
            BatchItemValues(item=item, values={key: sent[key].text or "" for key in differing if key in sent})
            for item, sent in items.items()
        ],
    )
