"""The base class of all sections of the settings. It is here because providers describe their own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic_settings import NoDecode

# Neither a variable nor TOML can express null. This word removes the default of a setting that may have no value.
NULLS = ("null", "none")


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _words_for_null(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {name: None if value in NULLS and cls._is_nullable(name) else value for name, value in values.items()}

    @classmethod
    def _is_nullable(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and type(None) in get_args(field.annotation)


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
WebAddresses = Annotated[tuple[WebAddress, ...], NoDecode, BeforeValidator(_parse_names)]
