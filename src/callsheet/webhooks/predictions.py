"""The final prediction of a provider as a JSON column, which is kept until the outputs are downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.providers.media import Prediction


def as_row(prediction: Prediction) -> dict[str, Any]:
    return {
        "id": prediction.id,
        "status": prediction.status,
        "outputs": list(prediction.outputs),
        "text": _clean(prediction.text),
        "error": _clean(prediction.error),
    }


def of_row(row: Mapping[str, Any]) -> Prediction:
    return Prediction(row["id"], row["status"], tuple(row.get("outputs") or ()), row.get("text"), row.get("error"))


def _clean(text: str | None) -> str | None:
    """Removes characters that PostgreSQL cannot store."""
    return None if text is None else text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
