"""Reads the headers about what a client accepts (RFC 9110 §12.5). Pure."""

from __future__ import annotations

from collections.abc import Iterable


def accepts_html(accept: str) -> bool:
    """Whether a browser requests a page. `*/*` alone is a program, which gets a plain error."""
    return any(name == "text/html" and weight > 0 for name, weight in _weights(accept))


def chosen_encoding(accept_encoding: str, offered: Iterable[str]) -> str | None:
    """The first of the offered encodings that the client accepts; None for the plain form."""
    weights = dict(_weights(accept_encoding))
    rest = weights.get("*", 0.0)
    return next((name for name in offered if weights.get(name, rest) > 0), None)


def matches_etag(if_none_match: str, etag: str) -> bool:
    given = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return etag in given or "*" in given


def _weights(header: str) -> list[tuple[str, float]]:
    return [_weight(each) for each in header.split(",") if each.strip()]


def _weight(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0
