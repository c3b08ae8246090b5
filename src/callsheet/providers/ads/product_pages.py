"""Reads the product that a web page shows: from JSON-LD, then microdata, then OpenGraph, then plain HTML.

This runs as a separate process (`python -m callsheet.providers.ads.product_pages`, with the page on standard input):
100 kB of nested tags keep the parser busy for 2 seconds, 2 MB for more than a minute. A process can be ended, a thread
cannot.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_IMAGES = 20
MAX_URL_LENGTH = 2_000
MAX_TITLE_LENGTH = 300
MAX_TEXT_LENGTH = 20_000
# Maximum number of candidates that are read; a page may have a million.
MAX_INSPECTED = 500
MAX_NODES = 10_000
_CPU_SECONDS = 20
_MEMORY_BYTES = 2**30
_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "zł": "PLN"}
_PRICE = re.compile(r"\d[\d.,'\u00a0\u202f ]{0,20}")
_MONEY = re.compile(r"([€$£¥₹₩₽]|\b[A-Z]{3}\b)\s?(\d[\d.,' ]{0,15})|(\d[\d.,' ]{0,15})\s?([€$£¥₹₩₽]|zł|\b[A-Z]{3}\b)")
_UNSEEN = "script, style, noscript, template, svg, iframe, nav, footer, header"
# In descending order of trust.
_TITLES = ('meta[property="og:title"]', 'meta[name="twitter:title"]')
_DESCRIPTIONS = ('meta[property="og:description"]', 'meta[name="twitter:description"]', 'meta[name="description"]')
_PRICES = ('meta[property="product:price:amount"]', 'meta[property="og:price:amount"]')
_CURRENCIES = ('meta[property="product:price:currency"]', 'meta[property="og:price:currency"]')
_IMAGES = 'meta[property="og:image"], meta[property="og:image:url"], meta[name="twitter:image"]'

Found = dict[str, Any]


def read_page(html: str, url: str) -> Found:
    """The fields of a product. Fields that the page does not have are empty or None. Raises ImportError if
    selectolax is not installed.
    """
    from selectolax.lexbor import LexborHTMLParser

    page = LexborHTMLParser(html)
    base = page.css_first("base[href]")
    base_url = _joined(url, (base.attributes.get("href") or "") if base else "") or url
    sources = [_json_ld(page), _microdata(page), _open_graph(page), _plain(page)]
    found = {name: next((each[name] for each in sources if each.get(name)), None) for name in ("title", "description")}
    images = [image for each in sources for image in each.get("images", ())]
    priced = next((each for each in sources if each.get("price")), {})
    currency = priced.get("currency") or next((each["currency"] for each in sources if each.get("currency")), None)
    return {
        "title": _short(found["title"], MAX_TITLE_LENGTH),
        "description": _short(found["description"], MAX_TEXT_LENGTH),
        "price": priced.get("price"),
        "currency": currency if priced else None,
        "images": _addresses(images, base_url),
        "text": _short(_text(page), MAX_TEXT_LENGTH),
    }


def price_of(value: object, *, declared: bool = False) -> str | None:
    """A plain number: `1.299,00`, `1,299.00` and 1299 are the same price. In `declared` values, which are
    written for programs, the dot is the decimal point: `1.299` is less than 2."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if declared and re.fullmatch(r"\d{1,15}(\.\d{1,10})?", str(value).strip()):
        return str(value).strip()
    match = _PRICE.search(str(value)[:200])
    if match is None:
        return None
    digits = re.sub(r"['\u00a0\u202f ]", "", match.group()).rstrip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    if last < 0:
        return digits
    whole, decimals = re.sub(r"[.,]", "", digits[:last]), digits[last + 1 :]
    thousands = len(decimals) == 3 and whole != "0"
    return whole + decimals if thousands else f"{whole}.{decimals}"


def currency_of(value: object) -> str | None:
    text = value.strip().upper() if isinstance(value, str) else ""
    if re.fullmatch(r"[A-Z]{3}", text):
        return text
    return _SYMBOLS.get(text.lower()) or _SYMBOLS.get(text)


def _json_ld(page: LexborHTMLParser) -> Found:
    for script in page.css('script[type="application/ld+json"]')[:MAX_INSPECTED]:
        try:
            data = json.loads(script.text(), strict=False)
        except (ValueError, RecursionError):
            continue
        for product in _products_in(data):
            if found := _of_schema(product):
                return found
    return {}


def _products_in(data: object) -> Iterator[Mapping[str, Any]]:
    waiting, seen = [data], 0
    while waiting and seen < MAX_NODES:
        seen += 1
        match waiting.pop():
            case list() as items:
                waiting.extend(reversed(items[:MAX_INSPECTED]))
            case dict() as members:
                kinds = members.get("@type")
                names = kinds if isinstance(kinds, list) else [kinds]
                if any(str(name).rpartition("/")[2] in ("Product", "ProductGroup") for name in names):
                    yield members
                waiting.extend(members[name] for name in ("mainEntity", "@graph") if name in members)


def _of_schema(product: Mapping[str, Any]) -> Found:
    offer = _first(product.get("offers"))
    specification = _first(offer.get("priceSpecification"))
    price = offer.get("price") or offer.get("lowPrice") or specification.get("price")
    images = product.get("image")
    listed = images if isinstance(images, list) else [images]
    addresses = [each.get("url") or each.get("contentUrl") if isinstance(each, dict) else each for each in listed]
    return {
        "title": _plain_text(product.get("name")),
        "description": _plain_text(product.get("description")),
        "price": price_of(price, declared=True),
        "currency": currency_of(offer.get("priceCurrency") or specification.get("priceCurrency")),
        "images": [each for each in addresses if isinstance(each, str)],
    }


def _first(value: object) -> Mapping[str, Any]:
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _microdata(page: LexborHTMLParser) -> Found:
    scope = page.css_first('[itemtype*="schema.org/Product"]')
    if scope is None:
        return {}
    values: dict[str, list[str]] = {}
    for node in scope.css("[itemprop]")[:MAX_INSPECTED]:
        name = node.attributes.get("itemprop") or ""
        values.setdefault(name, []).append(_value_of(node))
    values_of_product = {name: next((value for value in found if value), None) for name, found in values.items()}
    return {
        "title": values_of_product.get("name"),
        "description": values_of_product.get("description"),
        "price": price_of(values_of_product.get("price") or values_of_product.get("lowPrice"), declared=True),
        "currency": currency_of(values_of_product.get("priceCurrency")),
        "images": values.get("image", []),
    }


def _value_of(node: LexborNode) -> str:
    for name in ("content", "src", "href", "value"):
        if value := node.attributes.get(name):
            return value
    return node.text(separator=" ")


def _open_graph(page: LexborHTMLParser) -> Found:
    return {
        "title": _content(page, _TITLES),
        "description": _content(page, _DESCRIPTIONS),
        "price": price_of(_content(page, _PRICES), declared=True),
        "currency": currency_of(_content(page, _CURRENCIES)),
        "images": [node.attributes.get("content") or "" for node in page.css(_IMAGES)[:MAX_INSPECTED]],
    }


def _content(page: LexborHTMLParser, selectors: tuple[str, ...]) -> str | None:
    nodes = (page.css_first(selector) for selector in selectors)
    return next((value for node in nodes if node and (value := node.attributes.get("content"))), None)


def _plain(page: LexborHTMLParser) -> Found:
    heading, title = page.css_first("h1"), page.css_first("title")
    images = [node for node in page.css("img[src]")[:MAX_INSPECTED] if not _tiny(node)]
    paragraph = next((node for node in page.css("p")[:50] if len(node.text().strip()) > 60), None)
    return {
        "title": (heading.text(separator=" ").strip() if heading else "") or (title.text() if title else None),
        "description": paragraph.text(separator=" ") if paragraph else None,
        "images": [node.attributes.get("src") or "" for node in images],
        **_shown_price(page),
    }


def _tiny(node: LexborNode) -> bool:
    """Whether the image is an icon or a tracking pixel."""
    sizes = [node.attributes.get(name) or "" for name in ("width", "height")]
    return any(size.isdecimal() and int(size[:6]) < 50 for size in sizes)


def _shown_price(page: LexborHTMLParser) -> Found:
    for node in page.css('[class*="price"], [id*="price"]')[:50]:
        match = _MONEY.search(node.text(separator=" ")[:500])
        if match:
            before, amount, other_amount, after = match.groups()
            return {"price": price_of(amount or other_amount), "currency": currency_of(before or after)}
    return {}


def _text(page: LexborHTMLParser) -> str:
    if page.body is None:
        return ""
    for node in page.css(_UNSEEN):
        node.decompose()
    return page.body.text(separator="\n")


def _plain_text(value: object) -> str | None:
    """The text without HTML: shops put HTML into descriptions."""
    return unescape(re.sub(r"<[^<>]{0,500}>", " ", value[: 2 * MAX_TEXT_LENGTH])) if isinstance(value, str) else None


def _short(text: str | None, max_length: int) -> str:
    """The lines with single spaces, without control characters."""
    kept = "".join(character if character.isprintable() or character == "\n" else " " for character in text or "")
    lines = (" ".join(line.split()) for line in kept.split("\n"))
    return "\n".join(line for line in lines if line)[:max_length].strip()


def _addresses(images: list[str], base_url: str) -> list[str]:
    found: dict[str, None] = {}
    for image in images[: 2 * MAX_INSPECTED]:
        address = _joined(base_url, image)
        if re.fullmatch(r"https?://[!-~]+", address) and len(address) <= MAX_URL_LENGTH:
            found[address] = None
        if len(found) == MAX_IMAGES:
            break
    return list(found)


def _joined(base_url: str, address: str) -> str:
    try:
        return urljoin(base_url, address.strip())
    except ValueError:
        return ""


def main() -> int:
    """Reads a line of JSON, `{"url": …}`, then the page as UTF-8; writes the product as JSON."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    url = json.loads(sys.stdin.buffer.readline())["url"]
    found = read_page(sys.stdin.buffer.read().decode("utf-8", "replace"), url)
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
