"""Products of web pages: a page can return nothing else than a product."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.providers.ads.product_pages import currency_of, price_of, read_page
from callsheet.providers.ads.scraping import product_of
from callsheet.providers.errors import ProviderError

URL = "https://shop.test/lamps/7"


def page(body: str = "", head: str = "") -> str:
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>"


def json_ld(data: Any) -> str:
    return f'<script type="application/ld+json">{json.dumps(data)}</script>'


LAMP = {
    "@type": "Product",
    "name": "Lamp &amp; Shade",
    "description": "<p>It <b>shines</b>.</p>",
    "image": ["/a.png", {"url": "b.png"}, "/a.png"],
    "offers": [{"@type": "Offer", "price": "1299.000", "priceCurrency": "eur"}],
}


@pytest.mark.parametrize(
    "data",
    [
        LAMP,
        [{"@type": "BreadcrumbList"}, LAMP],
        {"@graph": [{"@type": "WebPage"}, {**LAMP, "@type": ["Thing", "Product"]}]},
        {"@type": "WebPage", "mainEntity": {**LAMP, "@type": "http://schema.org/Product"}},
    ],
)
def test_json_ld_takes_precedence_wherever_the_product_is_in_it(data: Any) -> None:
    found = read_page(page("<h1>Other</h1>", f'<meta property="og:title" content="Other">{json_ld(data)}'), URL)
    assert (found["title"], found["description"]) == ("Lamp & Shade", "It shines .")
    assert (found["price"], found["currency"]) == ("1299.000", "EUR")
    assert found["images"] == ["https://shop.test/a.png", "https://shop.test/lamps/b.png"]


def test_microdata_is_read() -> None:
    html = """<div itemscope itemtype="https://schema.org/Product"><span itemprop="name">Lamp</span>
        <img itemprop="image" src="/a.png"><div itemprop="description">It shines.</div>
        <div itemprop="offers" itemscope><meta itemprop="priceCurrency" content="USD">
        <span itemprop="price" content="19.5">$19.50</span></div></div>"""
    found = read_page(page(html), URL)
    assert (found["title"], found["description"], found["price"], found["currency"]) == (
        "Lamp",
        "It shines.",
        "19.5",
        "USD",
    )
    assert found["images"] == ["https://shop.test/a.png"]


def test_open_graph_is_read() -> None:
    given = {
        "og:title": "Lamp",
        "og:description": "It shines.",
        "og:image": "https://cdn.test/a.png",
        "product:price:amount": "19.90",
        "product:price:currency": "GBP",
    }
    head = "".join(f'<meta property="{name}" content="{value}">' for name, value in given.items())
    found = read_page(page(head=head), URL)
    assert list(found.values()) == ["Lamp", "It shines.", "19.90", "GBP", ["https://cdn.test/a.png"], ""]


def test_plain_html_is_read_without_its_scripts_and_menus() -> None:
    long = "This lamp shines for hours and hours, and it is made of paper and of wood."
    html = f"""<nav>Menu</nav><h1>Paper <i>lamp</i></h1><p>{long}</p><span class="new-price">now € 1.299,00</span>
        <img src="lamp.jpg"><img src="dot.gif" width="1"><img src="data:image/png;base64,AAAA"><script>bad()</script>"""
    found = read_page(page(html, '<base href="https://cdn.test/x/"><title>Paper lamp | Shop</title>'), URL)
    assert (found["title"], found["description"]) == ("Paper lamp", long)
    assert (found["price"], found["currency"]) == ("1299.00", "EUR")
    assert found["images"] == ["https://cdn.test/x/lamp.jpg"]
    assert "Menu" not in found["text"]
    assert "bad()" not in found["text"]


@pytest.mark.parametrize(
    ("given", "price"),
    [
        ("1.299,00 €", "1299.00"),
        ("1,299.00", "1299.00"),
        ("1 299,50", "1299.50"),
        ("1'299.50", "1299.50"),
        ("from 5", "5"),
        ("19,9", "19.9"),
        ("1.299", "1299"),
        ("0.999", "0.999"),
        (12.5, "12.5"),
        ("12,345,678", "12345678"),
        ("free", None),
        (True, None),
        ({}, None),
        ("9" * 500, "9" * 21),
    ],
)
def test_prices_are_plain_numbers(given: object, price: str | None) -> None:
    assert price_of(given) == price


@pytest.mark.parametrize(
    ("given", "currency"), [("eur", "EUR"), ("€", "EUR"), ("zł", "PLN"), ("euros", None), (3, None)]
)
def test_currencies_are_codes(given: object, currency: str | None) -> None:
    assert currency_of(given) == currency


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<",
        "\0\0\0",
        "<title>",
        "<div>" * 5_000,
        "<a><b><i>" * 2_000,
        "<img src=x>" * 50_000,
        "<img " + " ".join(f"a{number}=1" for number in range(5_000)) + ">",
        "<img src='" + "x" * 500_000,
        page(head=json_ld([[[[LAMP]]]] * 1000) + '<script type="application/ld+json">' + "[" * 100_000 + "</script>"),
        page(
            head='<script type="application/ld+json">{"@type": "Product", "name": 7, "offers": 3, "image": {}}</script>'
        ),
        page("<h1>\ud800 half</h1>".encode("utf-8", "replace").decode(), "<base href='http://['>"),
    ],
)
def test_the_result_of_any_page_has_the_documented_shape_and_bounds(html: str) -> None:
    found = read_page(html, URL)
    assert set(found) == {"title", "description", "price", "currency", "images", "text"}
    assert len(found["title"]) <= 300
    assert len(found["text"]) <= 20_000
    assert len(found["images"]) <= 20
    assert all(image.startswith(("http://", "https://")) for image in found["images"])


def test_invalid_fields_of_a_product_are_dropped() -> None:
    found = {
        "title": "Lamp",
        "description": "It shines.",
        "price": "1" * 50,
        "currency": "euro",
        "images": ["https://a.test/1.png", "https://user:password@a.test/2.png", "https://a.test/3.png"],
        "text": "",
        "url": URL,
    }
    kept = product_of(found)
    assert (kept["title"], kept["price"], kept["currency"]) == ("Lamp", None, None)
    assert kept["images"] == ["https://a.test/1.png", "https://a.test/3.png"]
    with pytest.raises(ProviderError, match="no title"):
        product_of({**found, "title": ""})
