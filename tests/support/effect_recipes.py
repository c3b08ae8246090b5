"""An effect as a job takes it, for tests of what its properties become."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from callsheet.catalog.offers import EffectRecipe, Price
from callsheet.wire.catalog import Property


def effect_recipe(*properties: dict[str, Any], **changes: Any) -> EffectRecipe:
    """An effect that is sold for 5 tokens and makes an image. `changes` are fields of it."""
    fields = {
        "effect_id": UUID(int=1),
        "name": "An effect",
        "has_jobs": True,
        "workflow_id": 1,
        "is_active": True,
        "properties": tuple(Property.model_validate(each) for each in properties),
        "overrides": {},
        "price": Price(5),
        "provider": "self_hosted",
        "stage": "production",
        "run_limit_seconds": 3600,
        "lease_seconds": None,
        "max_attempts": None,
        "refund_on_cancel": "all",
        "graph_path": "catalog/workflows/x/y.json",
        "output_node_id": "9",
        "output_extension": "png",
        "output_mime_type": "image/png",
        "keep_metadata": False,
    }
    return EffectRecipe(**{**fields, **changes})
