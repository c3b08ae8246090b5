"""What every section of the settings is. Here, because providers describe their own settings."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_settings import NoDecode


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _is_web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be like https://host or http://host:port")
    return value


WebAddress = Annotated[str, AfterValidator(_is_web_address)]


def _parse_names(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(parts) if isinstance(parts, list) else parts


# A list in TOML, comma separated in the environment.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_names)]
