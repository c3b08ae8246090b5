"""Kinds of values that several settings have."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from callsheet.toolbox.sections import Names

__all__ = ["MediaTypes", "Names", "Network", "Networks", "Origins"]


def _parse_networks(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(_network(part) for part in parts) if isinstance(parts, list | tuple) else parts


def _network(part: object) -> Network:
    try:
        # As text: ip_network takes a bare 5 for 0.0.0.5.
        return ip_network(str(part))
    except ValueError:
        raise ValueError(f"{part!r} must be a network like 10.0.0.0/8, whose last bits are 0") from None


def _parse_media_types(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(str(part).lower() for part in parts) if isinstance(parts, list | tuple) else parts


def _are_media_types(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[a-z0-9!#$&^_.+-]+/(\*|[a-z0-9!#$&^_.+-]+)", value):
            raise ValueError("must be media types like video/mp4 or video/*")
    if not values:
        raise ValueError("must name one media type or more")
    return values


def _parse_origins(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(str(part) for part in parts) if isinstance(parts, list | tuple) else parts


def _are_origins(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        # As browsers send them: lower case, no path, no port that the scheme implies.
        if value != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+", value):
            raise ValueError(f"{value!r} is not an origin; write it like https://shop.example.com, without a path")
        if (value.startswith("https://") and value.endswith(":443")) or (
            value.startswith("http://") and value.endswith(":80")
        ):
            raise ValueError(f"{value!r} must leave out the port, as browsers do")
    if "*" in values and len(values) > 1:
        raise ValueError("* already allows every origin; name no others beside it")
    return values


Network = IPv4Network | IPv6Network
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_parse_networks)]
Origins = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_origins), AfterValidator(_are_origins)]
MediaTypes = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_media_types), AfterValidator(_are_media_types)]
