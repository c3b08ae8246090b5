"""Adds summaries, examples and descriptions of parameters to the OpenAPI document, from openapi_texts.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from fastapi import FastAPI

TEXTS: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    resources.files("callsheet.plumbing").joinpath("openapi_texts.toml").read_text(encoding="utf-8")
)
PARAMETERS: Final[Mapping[str, str]] = TEXTS["parameters"]


def describe_operations(app: FastAPI) -> None:
    describe = app.openapi

    def describe_in_words() -> dict[str, Any]:
        # FastAPI creates the document once and then returns the same object.
        document = describe()
        for methods in document["paths"].values():
            for operation in methods.values():
                _describe(operation)
        return document

    app.openapi = describe_in_words  # type: ignore[method-assign]


def _describe(operation: dict[str, Any]) -> None:
    """An operation that the file does not name gets the first sentence of its docstring."""
    text = TEXTS.get(operation["operationId"], {})
    summary = text.get("summary") or _first_sentence(operation.get("description", ""))
    if summary:
        operation["summary"] = summary
    if "example" in text and "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["example"] = text["example"]
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in PARAMETERS:
            parameter.setdefault("description", PARAMETERS[parameter["name"]])


def _first_sentence(description: str) -> str:
    sentence, stop, _ = " ".join(description.split("\n\n")[0].split()).partition(". ")
    return sentence if stop else sentence.removesuffix(".")
