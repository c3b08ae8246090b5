"""Pages are fetched from a real server: politely, within bounds, and never from our own networks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web

from callsheet.providers.ads.scraping import Scraper
from callsheet.providers.ads.scraping_config import ScrapingConfig
from callsheet.providers.errors import ProviderError
from callsheet.toolbox.http.client import GuardedClient

LOCAL = ip_network("127.0.0.1/32")
PAGE = "<title>Lämp</title><p>Schön</p>"


@dataclass
class Site:
    url: str = ""
    robots: str | int = 404
    requests: list[tuple[str, str]] = field(default_factory=list)
    pages: dict[str, Callable[[], web.StreamResponse]] = field(default_factory=dict)

    async def response(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, request.headers.get("user-agent", "")))
        if request.path == "/robots.txt":
            return web.Response(status=self.robots) if isinstance(self.robots, int) else web.Response(text=self.robots)
        if request.path == "/slow":
            await asyncio.Event().wait()
        return self.pages[request.path]()

    def shows(self, path: str = "/lamp", body: bytes | str = PAGE, **options: Any) -> str:
        content = body.encode() if isinstance(body, str) else body
        headers = {"content-type": options.pop("content_type", "text/html"), **options.pop("headers", {})}
        self.pages[path] = lambda: web.Response(body=content, headers=headers, **options)
        return f"{self.url}{path}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application()
    app.router.add_get("/{path:.*}", site.response)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


@pytest.fixture(scope="module")
async def scraping_client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_networks=[LOCAL]) as client:
        yield client


@pytest.fixture
def scraper(scraping_client: GuardedClient) -> Scraper:
    return Scraper(ScrapingConfig(contact="mailto:robots@shop.test", max_bytes=100_000), scraping_client)


async def refused(scraper: Scraper, url: str) -> ProviderError:
    with pytest.raises(ProviderError) as refused:
        await scraper.scrape(url)
    return refused.value


async def test_a_page_becomes_a_product_and_the_request_names_its_user_agent(site: Site, scraper: Scraper) -> None:
    product = await scraper.scrape(site.shows())
    assert product == {
        "title": "Lämp",
        "description": "",
        "price": None,
        "currency": None,
        "images": [],
        "text": "Schön",
        "url": f"{site.url}/lamp",
    }
    assert [path for path, _ in site.requests] == ["/robots.txt", "/lamp"]
    assert all(agent.startswith("Callsheet/") and "mailto:robots@shop.test" in agent for _, agent in site.requests)


@pytest.mark.parametrize("closed_to", ["*", "Callsheet"])
async def test_a_page_that_robots_may_not_read_is_left_alone(site: Site, scraper: Scraper, closed_to: str) -> None:
    site.robots = f"User-agent: {closed_to}\nDisallow: /lamp\n"
    error = await refused(scraper, site.shows())
    assert (error.type, error.retryable) == ("robots_refused", False)
    assert [path for path, _ in site.requests] == ["/robots.txt"]


async def test_a_page_that_robots_may_not_read_is_not_read_by_way_of_another(site: Site, scraper: Scraper) -> None:
    site.robots = "User-agent: *\nDisallow: /lamp\n"
    site.shows()
    error = await refused(scraper, site.shows("/door", status=302, headers={"location": "/lamp"}))
    assert error.type == "robots_refused"
    assert (await scraper.scrape(site.shows("/chair")))["title"] == "Lämp"


async def test_the_rules_of_a_site_can_be_switched_off(site: Site, scraping_client: GuardedClient) -> None:
    site.robots = "User-agent: *\nDisallow: /\n"
    await Scraper(ScrapingConfig(robots=False), scraping_client).scrape(site.shows())
    assert [path for path, _ in site.requests] == ["/lamp"]


async def test_a_site_whose_rules_cannot_be_read_is_tried_later(site: Site, scraper: Scraper) -> None:
    site.robots = 503
    error = await refused(scraper, site.shows())
    assert (error.type, error.retryable) == ("page_refused", True)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (PAGE.encode("latin-1"), "text/html; charset=ISO-8859-1"),
        (b'<meta charset="windows-1252">' + PAGE.encode("cp1252"), "text/html"),
        (PAGE.encode("cp1252"), "text/html"),
        (PAGE.encode("utf-16"), "text/html"),
        (PAGE.encode("utf-8-sig"), "text/html"),
        (PAGE.encode(), "text/html; charset=punycode"),
        (PAGE.encode(), "text/html; charset=nonsense"),
    ],
)
async def test_pages_in_every_encoding_are_read(site: Site, scraper: Scraper, body: bytes, content_type: str) -> None:
    assert (await scraper.scrape(site.shows(body=body, content_type=content_type)))["title"] == "Lämp"


@pytest.mark.parametrize(
    ("options", "type", "retryable"),
    [
        ({"status": 404}, "page_refused", False),
        ({"status": 503}, "page_refused", True),
        ({"status": 429}, "page_refused", True),
        ({"content_type": "application/pdf"}, "not_a_page", False),
        ({"body": b"x" * 100_001}, "page_too_large", False),
        ({"body": b"<p>nothing"}, "no_product", False),
        ({"status": 302, "headers": {"location": "http://169.254.169.254/"}}, "address_refused", False),
        ({"status": 302, "headers": {"location": "http://127.0.0.2/"}}, "address_refused", False),
        ({"status": 302, "headers": {"location": "/lamp"}}, "page_unreachable", False),
        ({"status": 302, "headers": {"location": "ftp://shop.example/"}}, "page_unreachable", False),
        ({"status": 501}, "page_refused", False),
        ({"status": 505}, "page_refused", False),
        ({"status": 408}, "page_refused", True),
    ],
)
async def test_a_page_without_a_product_is_refused(
    site: Site, scraper: Scraper, options: dict[str, Any], type: str, retryable: bool
) -> None:
    error = await refused(scraper, site.shows(**options))
    assert (error.type, error.retryable) == (type, retryable)


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://10.0.0.1/", "http://[::1]/", "http://127.0.0.2/"]
)
async def test_private_networks_are_not_read(scraper: Scraper, url: str) -> None:
    assert (await refused(scraper, url)).type == "address_refused"


async def test_a_host_that_does_not_exist_is_not_asked_again_and_one_that_is_down_is(scraper: Scraper) -> None:
    error = await refused(scraper, "http://no-such-shop.invalid/lamp")
    assert (error.type, error.retryable, error.message) == (
        "page_unreachable",
        False,
        "The host no-such-shop.invalid could not be found.",
    )
    error = await refused(scraper, "http://127.0.0.1:1/lamp")
    assert (error.type, error.retryable) == ("page_unreachable", True)


async def test_a_page_that_does_not_arrive_is_given_up(site: Site, scraping_client: GuardedClient) -> None:
    error = await refused(Scraper(ScrapingConfig(timeout_seconds=0.3), scraping_client), f"{site.url}/slow")
    assert (error.type, error.retryable) == ("page_unreachable", True)


async def test_the_error_names_the_package_of_a_missing_parser(
    site: Site, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.providers.ads.scraping.find_spec", lambda name: None)
    error = await refused(scraper, site.shows())
    assert (error.type, ".[scraping]" in error.message) == ("parser_missing", True)


async def test_a_page_that_keeps_the_parser_busy_is_given_up(site: Site, scraping_client: GuardedClient) -> None:
    scraper = Scraper(ScrapingConfig(read_seconds=0.5), scraping_client)
    error = await refused(scraper, site.shows(body="<div>" * 400_000))
    assert (error.type, error.retryable) == ("page_unreadable", False)
