"""A provider's last word as it is kept until what it made is fetched."""

from __future__ import annotations

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


def of_row(row: dict[str, Any]) -> Prediction:
    return Prediction(row["id"], row["status"], tuple(row.get("outputs") or ()), row.get("text"), row.get("error"))


def _clean(text: str | None) -> str | None:
    """As PostgreSQL can hold it."""
    return None if text is None else text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
