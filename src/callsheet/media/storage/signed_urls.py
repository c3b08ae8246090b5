"""URLs of the local backend that carry their own permission: an HMAC over everything they allow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import parse_qsl, quote

from callsheet.toolbox.clock import Clock
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import SignatureExpired, SignatureInvalid

PATH = "/storage/"
# It is before the signature and in what is signed, so that a later scheme can live beside this one.
VERSION = "v1"
_PURPOSE = "storage-urls"
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*")


@dataclass(frozen=True, slots=True)
class Grant:
    """The access that one signed URL allows."""

    method: Literal["GET", "PUT"]
    key: str
    expires: int
    content_type: str = ""
    max_bytes: int | None = None
    sha256: str | None = None
    download_name: str | None = None
    # Whether the body must have exactly `max_bytes`.
    is_exact: bool = False

    @property
    def expires_at(self) -> datetime:
        return datetime.fromtimestamp(self.expires, UTC)


class UrlSigner:
    def __init__(self, secret: Master, public_url: str, clock: Clock):
        self._keys = SigningKeys(secret, _PURPOSE)
        self._base = public_url + PATH
        self._clock = clock

    def url(self, grant: Grant) -> str:
        fields = _fields(grant)
        fields["signature"] = f"{VERSION}.{self._keys.sign(VERSION, grant.method, grant.key, *_signed(fields))}"
        query = "&".join(f"{name}={_quoted(value)}" for name, value in fields.items())
        return f"{self._base}{_quoted(grant.key, safe='/')}?{query}"

    def read(self, method: Literal["GET", "PUT"], key: str, query: bytes) -> Grant:
        """The grant behind a URL; raises SignatureInvalid or SignatureExpired."""
        fields = _parse(query)
        version, _, signature = fields.pop("signature", "").partition(".")
        if version != VERSION or not self._keys.verify(signature, VERSION, method, key, *_signed(fields)):
            raise SignatureInvalid()
        grant = Grant(
            method,
            key,
            expires=int(fields["expires"]),
            content_type=fields.get("type", ""),
            max_bytes=int(fields["max"]) if "max" in fields else None,
            sha256=fields.get("sha256"),
            download_name=fields.get("name"),
            is_exact="exact" in fields,
        )
        if self._clock.now().timestamp() >= grant.expires:
            raise SignatureExpired()
        return grant


def _quoted(text: str, safe: str = "") -> str:
    """Most of what is in these URLs needs no quoting, and finding that out by `quote` took half of a poll's
    work on them."""
    return text if _UNRESERVED.fullmatch(text.replace("/", "") if safe else text) else quote(text, safe=safe)


def _fields(grant: Grant) -> dict[str, str]:
    fields = {"expires": str(grant.expires)}
    if grant.method == "PUT":
        fields["type"] = grant.content_type
        fields["max"] = str(grant.max_bytes)
        if grant.is_exact:
            fields["exact"] = "1"
    elif grant.content_type:
        fields["type"] = grant.content_type
    if grant.sha256 is not None:
        fields["sha256"] = grant.sha256
    if grant.download_name is not None:
        fields["name"] = grant.download_name
    return fields


def _signed(fields: dict[str, str]) -> list[str]:
    """Names and values in one order: a parameter that was added, removed or changed is another signature."""
    return [part for name in sorted(fields) for part in (name, fields[name])]


def _parse(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=16, errors="strict")
    except ValueError:
        raise SignatureInvalid() from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise SignatureInvalid()
    return fields
