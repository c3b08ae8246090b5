"""`GET /` describes the server: a page for people, links for programs, and nothing confidential."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx

from callsheet import __version__
from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.front_page import HOW_TO_PAGES
from callsheet.plumbing.http.health import is_ready
from tests.support.http.accounts import People

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = dict(attrs)
        self.links += [str(names[name]) for name in ("href", "src") if names.get(name)]
        self.inline += [name for name in names if name == "style" or name.startswith("on")]


async def test_programs_get_links_as_json(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.status_code == 200
    body = response.json()
    assert (body["name"], body["version"], body["status"]) == ("Callsheet", __version__, "ready")
    for name in ("documentation", "openapi", "health", "readiness"):
        assert body[name].startswith(plane.settings.public_url)
        assert (await client.get(body[name])).status_code == 200


async def test_browsers_get_a_page_without_external_resources(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    response = await client.get("/", headers=BROWSER)
    assert response.headers["content-type"].startswith("text/html")
    assert "Accept" in response.headers["vary"]
    page = Page(response.text)
    assert "script" not in page.tags
    assert page.inline == []
    for link in page.links:
        assert link.startswith("/"), link
        assert (await client.get(link)).status_code == 200, link
    assert {"/docs", "/openapi.json", "/healthz", "/readyz"} <= set(page.links)
    assert f"version {__version__}" in response.text
    assert ">Ready<" in response.text
    assert plane.settings.public_url in response.text
    assert "$" not in re.sub(r"<style>.*?</style>", "", response.text, flags=re.DOTALL)


async def test_the_content_security_policy_allows_only_the_style_of_the_page(client: httpx.AsyncClient) -> None:
    response = await client.get("/", headers=BROWSER)
    policy = response.headers["content-security-policy"]
    style = re.search(r"<style>(.*?)</style>", response.text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


async def test_the_front_page_lists_every_how_to_page_by_its_title(client: httpx.AsyncClient) -> None:
    titles = {
        file.name: file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for file in HOW_TO.glob("*.md")
    }
    assert {file: title for title, file in HOW_TO_PAGES} == titles
    text = (await client.get("/", headers=BROWSER)).text
    assert all(title in text for title in titles.values())


async def test_anonymous_visitors_see_nothing_about_tenants(client: httpx.AsyncClient, people: People) -> None:
    admin = await people.admin()
    for headers in ({}, BROWSER, BROWSER | admin.headers):
        text = (await client.get("/", headers=headers)).text
        for hidden in (admin.tenant.slug, admin.user.email, "pool_1", "postgresql://", admin.key):
            assert hidden not in text


async def test_a_stopping_process_is_not_ready(plane: ControlPlane) -> None:
    draining = asyncio.Event()
    assert await is_ready(plane.databases, draining)
    draining.set()
    assert not await is_ready(plane.databases, draining)
