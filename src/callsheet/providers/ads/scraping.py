"""Fetches and parses the page of a product: with guards and limits, and only if its site's robots.txt allows it."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from pydantic import ValidationError

from callsheet.providers.ads.scraping_config import AGENT, ScrapingConfig
from callsheet.providers.errors import ProviderError
from callsheet.toolbox.errors import how_to_install
from callsheet.toolbox.http.client import (
    AddressRefused,
    GuardedClient,
    OutgoingError,
    RequestImpossible,
    Response,
    TooLarge,
)
from callsheet.wire.generation import ProductFields

MAX_ROBOTS_BYTES: Final = 512_000
# Statuses that may change soon. 501 and 505 mean that the server never accepts such a request.
PASSING: Final = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
READER: Final = "callsheet.providers.ads.product_pages"
PAGES: Final = ("text/html", "application/xhtml+xml", "text/plain", "")
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# Python has more codecs than the web has encodings, and some of those take hours.
_ENCODING: Final = re.compile(
    r"utf-?8(-sig)?|utf-?16(le|be)?|(us-)?ascii|(iso-?8859-?|latin-?|windows-?|cp)\d{1,4}|koi8-[ru]|shift[_-]jis|euc-(jp|kr)"
    r"|gbk|gb2312|gb18030|big5(-hkscs)?|tis-620",
    re.IGNORECASE,
)
_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)


class Scraper:
    def __init__(self, config: ScrapingConfig, client: GuardedClient):
        self._config = config
        self._client = client

    async def scrape(self, url: str) -> Mapping[str, Any]:
        """The product, in its stored form. Raises ProviderError."""
        rules = await self._rules(url)
        refuse_unless_allowed(rules, url)
        page = await self._fetch(url, self._config.max_bytes)
        # The request was redirected, also to another page of the same site.
        rules = rules if _origin(page.url) == _origin(url) else await self._rules(page.url)
        refuse_unless_allowed(rules, page.url)
        refuse_unless_page(page)
        found = await self._read(decoded(page), page.url)
        return product_of({**found, "url": page.url})

    async def _rules(self, url: str) -> RobotFileParser | None:
        """The robots.txt of the site of this page; None if the site has none, or if the settings ignore robots.txt."""
        if not self._config.robots:
            return None
        response = await self._fetch(f"{_origin(url)}/robots.txt", MAX_ROBOTS_BYTES)
        # RFC 9309: a site without rules allows everything. A site whose server fails allows nothing.
        if response.status >= 500:
            retryable = response.status in PASSING
            raise ProviderError(
                "page_refused", f"The server of {_host(url)} failed with status {response.status}.", retryable=retryable
            )
        if response.status >= 300:
            return None
        # This runs in a thread: the largest files take half a second, in which the process would send no other
        # response.
        return await asyncio.to_thread(_parsed, response.content)

    async def _fetch(self, url: str, max_bytes: int) -> Response:
        headers = {"user-agent": self._config.user_agent, "accept": "text/html,application/xhtml+xml,text/plain;q=0.5"}
        try:
            return await self._client.fetch(
                "GET", url, headers=headers, timeout_seconds=self._config.timeout_seconds, max_bytes=max_bytes
            )
        except AddressRefused as refused:
            raise ProviderError("address_refused", str(refused)) from refused
        except TooLarge as large:
            raise ProviderError("page_too_large", str(large)) from large
        except OutgoingError as failed:
            retryable = not isinstance(failed, RequestImpossible)
            raise ProviderError("page_unreachable", str(failed), retryable=retryable) from failed

    async def _read(self, html: str, url: str) -> Mapping[str, Any]:
        if find_spec("selectolax") is None:
            message = f"A package that reads pages is missing: {how_to_install('scraping')}."
            raise ProviderError("parser_missing", message, retryable=True)
        # This runs in another process, which can be ended if a page keeps the parser busy.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", READER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The process gets no environment that a page could try to read.
            env={},
        )
        given = json.dumps({"url": url}).encode() + b"\n" + html.encode("utf-8", "replace")
        try:
            async with asyncio.timeout(self._config.read_seconds):
                output, _ = await process.communicate(given)
        except TimeoutError:
            raise ProviderError("page_unreadable", "The page takes too long to read.") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise ProviderError("page_unreadable", "The page cannot be read.", details={"exit": process.returncode})
        found: Mapping[str, Any] = json.loads(output)
        return found


def refuse_unless_allowed(rules: RobotFileParser | None, url: str) -> None:
    if rules is not None and not rules.can_fetch(AGENT, url):
        raise ProviderError("robots_refused", f"{_host(url)} does not allow robots to read this page (robots.txt).")


def refuse_unless_page(page: Response) -> None:
    host = _host(page.url)
    if page.status in PASSING:
        raise ProviderError(
            "page_refused", f"The server of {host} failed (status {page.status}). Try again later.", retryable=True
        )
    if page.status != 200:
        raise ProviderError("page_refused", f"The server of {host} does not return the page (status {page.status}).")
    kind = page.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in PAGES:
        raise ProviderError("not_a_page", f"{host} returned {kind[:100]}, which is not a web page.")


def decoded(page: Response) -> str:
    """Decodes by the first bytes, the header or the page itself. Invalid bytes are replaced."""
    content = page.content
    header = re.search(r"charset\s*=\s*[\"']?([\w:.-]{1,40})", page.headers.get("content-type", ""), re.IGNORECASE)
    declared = _CHARSET.search(content[:4096])
    names = [name for mark, name in _MARKS if content.startswith(mark)]
    names += [header.group(1)] if header else []
    names += [declared.group(1).decode("ascii")] if declared else []
    for name in [*names, "utf-8"]:
        if _ENCODING.fullmatch(name):
            with suppress(LookupError, UnicodeError):
                return content.decode(name)
    # Browsers assume this encoding for a page that names no charset and is not UTF-8.
    return content.decode("utf-8" if names else "cp1252", "replace")


def product_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The product, checked like the input of a user, because the page is not trusted."""
    if not found.get("title"):
        raise ProviderError("no_product", "The page shows no product, because it has no title.")
    kept = dict(found)
    for _ in range(len(kept) + len(kept.get("images", ()))):
        try:
            product = ProductFields.model_validate(kept)
        except ValidationError as wrong:
            kept = _without(kept, wrong.errors()[0]["loc"])
            continue
        return product.model_dump(mode="json")
    raise ProviderError("no_product", "The page shows no product with valid fields.")


def _without(found: dict[str, Any], place: tuple[int | str, ...]) -> dict[str, Any]:
    name = str(place[0])
    if name == "images" and len(place) > 1:
        return {**found, "images": [image for number, image in enumerate(found["images"]) if number != place[1]]}
    return {key: value for key, value in found.items() if key != name}


def _parsed(robots: bytes) -> RobotFileParser:
    rules = RobotFileParser()
    rules.parse(robots.decode("utf-8", "replace").splitlines())
    return rules


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
