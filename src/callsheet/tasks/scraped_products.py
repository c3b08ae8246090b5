"""Turns the result of a scrape into a product, which later jobs of the same user refer to by its id. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from callsheet.toolbox.logs import get_logger
from callsheet.wire.generation import ProductFields
from callsheet.wire.reasons import reason_of

log = get_logger(__name__)
KIND = "scrape"


def with_product(kind: str, job_id: UUID, result: Mapping[str, Any]) -> dict[str, Any]:
    """The `result` of a completed job and, for a scrape, the `product` to store; its id is the id of the job."""
    if kind != KIND:
        return {"result": result}
    found = result.get("result")
    found = found.get("product", found) if isinstance(found, Mapping) else None
    if isinstance(found, Mapping):
        found = {name: value for name, value in found.items() if name in ProductFields.model_fields}
    try:
        product = ProductFields.model_validate(found).model_dump(mode="json")
    except ValidationError as invalid:
        reasons = [f"{'.'.join(map(str, each['loc']))}: {reason_of(each)}" for each in invalid.errors()]
        # The result stays readable for the user. A worker of another version must not make the job fail.
        log.warning("product.not_kept", job_id=str(job_id), error=" ".join(reasons))
        return {"result": result}
    product["url"] = product["url"] or ""
    return {"result": {**result, "product_id": str(job_id)}, "product": product}
