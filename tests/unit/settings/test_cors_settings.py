"""Origins are written as browsers send them, or the control plane does not start."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from callsheet.settings import ServerSettings


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ()),
        ("https://shop.example.com", ("https://shop.example.com",)),
        (" https://a.example , http://localhost:5173", ("https://a.example", "http://localhost:5173")),
        ("http://[::1]:3000", ("http://[::1]:3000",)),
        ("*", ("*",)),
    ],
)
def test_origins_are_comma_separated(text: str, origins: tuple[str, ...]) -> None:
    assert ServerSettings(cors_origins=text).cors_origins == origins  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *["shop.example.com", "https://shop.example.com/", "https://shop.example.com/path", "https://Shop.example.com"],
        *[
            "https://shop.example.com:443",
            "http://shop.example.com:80",
            "https://*.example.com",
            "null",
            "*, https://a.b",
        ],
    ],
)
def test_an_origin_in_a_form_that_no_browser_sends_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="cors_origins"):
        ServerSettings(cors_origins=text)  # type: ignore[arg-type]


def test_cookies_require_listed_origins() -> None:
    with pytest.raises(ValidationError, match="name each origin"):
        ServerSettings(cors_origins="*", cors_credentials=True)  # type: ignore[arg-type]
    assert ServerSettings(cors_origins="https://a.example", cors_credentials=True).cors_credentials  # type: ignore[arg-type]
