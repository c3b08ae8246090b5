"""Draws the seeds that a client leaves out, so that the same request twice makes two results. Pure but for the draw."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from callsheet.catalog.offers import EffectRecipe
from callsheet.wire.catalog import Property, PropertyType

# The largest seed that is drawn without a maximum: every engine takes it, and each language reads it exactly in JSON.
MAX_SEED = 2**32 - 1
_SEED = re.compile(r"(^|_)seed(_|$)")


def with_seeds(
    recipe: EffectRecipe, given: Mapping[str, Any], below: Callable[[int], int] = secrets.randbelow
) -> dict[str, Any]:
    """The values of a request, with a random one for each seed that it could set and left out.

    A seed that the effect sets is the operator's choice and stays.
    """
    drawn = {}
    for each in recipe.properties:
        if _is_seed(each) and each.key not in given and each.key not in recipe.overrides:
            low, high, step = _range_of(each)
            drawn[each.key] = low + step * below((high - low) // step + 1)
    return {**given, **drawn}


def _is_seed(each: Property) -> bool:
    if each.type is not PropertyType.NUMBER or not each.user_configurable or not _SEED.search(each.key):
        return False
    low, high, _ = _range_of(each)
    step = each.limits.step
    return low <= high and (step is None or (float(step).is_integer() and float(each.limits.min or 0).is_integer()))


def _range_of(each: Property) -> tuple[int, int, int]:
    limits = each.limits
    low = math.ceil(limits.min or 0)
    high = math.floor(limits.max) if limits.max is not None else max(low, MAX_SEED)
    return low, min(high, max(low, 2**53 - 1)), max(1, int(limits.step or 1))
