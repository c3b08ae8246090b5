"""The web application as a browser gets it: which paths are its own, how its files are cached, what they may load."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from callsheet.app import control_plane as composition
from callsheet.media.storage.s3 import S3Storage
from callsheet.plumbing.http.application import unknown_path
from callsheet.plumbing.http.routing import Sections
from callsheet.settings import S3Settings
from callsheet.web.files import STATIC
from callsheet.web.policy import content_security_policy, is_other_name, origin_of
from callsheet.web.room import open_web
from tests.api.conftest import Started

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
SCRIPT = "/assets/index-Db7Pk8-R.js"
STORAGE = "https://media.example.com:9000"
INDEX = b"<!doctype html><title>Callsheet</title>" + b" " * 600
# The compressed file differs from its original, so that a test sees which of them it got.
BROTLI = b"brotli"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """What `make web` leaves behind, in small."""
    directory = tmp_path / "static"
    (directory / "assets").mkdir(parents=True)
    for name, content in (("index.html", INDEX), (SCRIPT[1:], b"script()")):
        (directory / name).write_bytes(content)
        (directory / f"{name}.br").write_bytes(BROTLI)
        (directory / f"{name}.gz").write_bytes(gzip.compress(content))
    (directory / "assets/font-Dx4kXJAl.woff2").write_bytes(b"font")
    (directory / "icon.svg").write_bytes(b"<svg/>")
    (directory / "manifest.json").write_bytes(b"{}")
    (tmp_path / "secret.html").write_bytes(b"not for strangers")
    return directory


@pytest.fixture
async def client(built: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of an API that has no other routes."""
    web = open_web(f"{STORAGE}/bucket/", "http://callsheet", built)
    assert web is not None
    api = Sections([], {}, unknown_path(web))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://callsheet") as client:
        client.headers["accept-encoding"] = "identity"
        yield client


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "path", ["/effects", "/effects/film-noir", "/jobs?status=failed", "/share/abc", "/apiary", "/x.y"]
)
async def test_every_other_path_returns_the_page_of_the_application(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path, headers=BROWSER)
    assert (response.status_code, response.content) == (200, INDEX)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "path", ["/api", "/api/unknown", "/storage/a", "/docs/x", "/metrics/x", "/assets/index-gone1234.js", "/healthz"]
)
async def test_unknown_paths_of_programs_stay_errors(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path, headers=BROWSER)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.few_forms
@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "text/html;q=0", "text/html;q=nonsense"])
async def test_a_program_gets_a_problem_instead_of_a_page(client: httpx.AsyncClient, accept: str) -> None:
    assert (await client.get("/effects", headers={"accept": accept})).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_page_accepts_only_get_and_head(client: httpx.AsyncClient, method: str) -> None:
    assert (await client.request(method, "/effects", headers=BROWSER)).status_code == 404
    assert (await client.request(method, SCRIPT, headers=BROWSER)).status_code == 404


async def test_a_file_with_a_hash_in_its_name_is_cached_forever(client: httpx.AsyncClient) -> None:
    response = await client.get(SCRIPT)
    assert (response.status_code, response.content) == (200, b"script()")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (await client.get("/assets/font-Dx4kXJAl.woff2")).headers["content-type"] == "font/woff2"
    assert (await client.get("/icon.svg")).headers["cache-control"] == "no-cache"


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("*", "br"),
        ("*;q=0", None),
        ("zstd", None),
        ("", None),
    ],
)
async def test_a_file_is_sent_in_a_compression_that_the_browser_accepts(
    client: httpx.AsyncClient, built: Path, accepted: str, chosen: str | None
) -> None:
    async with client.stream("GET", SCRIPT, headers={"accept-encoding": accepted}) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
    assert response.headers.get("content-encoding") == chosen
    suffix = {"br": ".br", "gzip": ".gz", None: ""}[chosen]
    assert raw == (built / f"{SCRIPT[1:]}{suffix}").read_bytes()
    assert int(response.headers["content-length"]) == len(raw)
    assert response.headers["vary"] == "Accept-Encoding"


async def test_an_unchanged_page_is_not_sent_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/effects", headers=BROWSER)
    again = await client.get("/jobs", headers=BROWSER | {"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    # The compressed form has other bytes and therefore another tag.
    other = await client.head("/jobs", headers=BROWSER | {"accept-encoding": "br"})
    assert other.headers["etag"] != first.headers["etag"]
    changed = await client.get("/jobs", headers=BROWSER | {"if-none-match": '"another"'})
    assert changed.status_code == 200


async def test_head_returns_the_headers_of_get(client: httpx.AsyncClient) -> None:
    for path in ("/effects", SCRIPT):
        got, head = await client.get(path, headers=BROWSER), await client.head(path, headers=BROWSER)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == got.headers


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "path",
    [
        "/../secret.html",
        "/assets/../../secret.html",
        "/%2e%2e/secret.html",
        "/assets/..%2f..%2fsecret.html",
        "/assets/%5c..%5c..%5csecret.html",
        "//secret.html",
    ],
)
async def test_no_path_leads_out_of_the_built_files(client: httpx.AsyncClient, built: Path, path: str) -> None:
    # httpx tidies such paths, which an attacker's client does not.
    request = client.build_request("GET", "/", headers={"accept": "*/*"})
    request.url = httpx.URL("http://callsheet").copy_with(raw_path=path.encode())
    response = await client.send(request)
    assert response.status_code == 404
    assert b"strangers" not in response.content


async def test_files_of_the_build_itself_are_not_served(client: httpx.AsyncClient) -> None:
    for path in ("/manifest.json", "/.built", "/assets", f"{SCRIPT}.gz", "/assets/"):
        assert (await client.get(path, headers={"accept": "*/*"})).status_code == 404


async def test_the_page_runs_its_own_scripts_alone_and_loads_media_from_storage(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/effects", headers=BROWSER)).headers["content-security-policy"]
    rules = {name: set(values) for name, *values in (rule.split() for rule in policy.split("; "))}
    assert rules["default-src"] == {"'none'"}
    assert rules["script-src"] == {"'self'"}
    assert rules["connect-src"] == {"'self'", STORAGE}
    assert rules["img-src"] == {"'self'", "data:", "blob:", STORAGE}
    assert rules["media-src"] == {"'self'", "blob:", STORAGE}
    assert rules["frame-ancestors"] == {"'none'"}
    assert rules["base-uri"] == {"'none'"}


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("host", "public_url", "is_other"),
    [
        ("localhost:8400", "http://127.0.0.1:8400", True),
        ("[::1]:8400", "http://127.0.0.1:8400", True),
        ("127.0.0.1:8400", "http://localhost:8400", True),
        ("127.0.0.1:8400", "http://127.0.0.1:8400", False),
        # A forwarded port, a proxy, a name of a network: public_url may be unreachable from there.
        ("localhost:9000", "http://127.0.0.1:8400", False),
        ("studio.lan:8400", "http://127.0.0.1:8400", False),
        ("localhost:8400", "https://studio.example.com", False),
        ("localhost:99999999", "http://127.0.0.1:8400", False),
        ("[::1", "http://127.0.0.1:8400", False),
        ("", "http://127.0.0.1:8400", False),
    ],
)
def test_only_another_name_of_this_machine_is_redirected_to_the_first_name(
    host: str, public_url: str, is_other: bool
) -> None:
    assert is_other_name(host, public_url) is is_other


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"addressing": "virtual"},
        {"endpoint_url": "http://minio:9000", "public_endpoint_url": STORAGE},
        {"endpoint_url": "https://s3.example.com", "addressing": "virtual"},
    ],
    ids=["amazon", "amazon, virtual", "public endpoint", "own endpoint, virtual"],
)
def test_the_content_security_policy_names_the_origin_of_signed_urls(chosen: dict[str, str]) -> None:
    settings = S3Settings.model_validate({"bucket": "media", "access_key_id": "a", "secret_access_key": "b", **chosen})
    storage = S3Storage(settings, url_seconds=60)
    signed = (storage.presign_get("a"), storage.presign_put("a", content_type="image/png", size=1))
    policy = content_security_policy(storage.url)
    for request in signed:
        assert f"connect-src 'self' {origin_of(request.url)};" in policy


def test_a_control_plane_without_a_build_serves_no_application(tmp_path: Path) -> None:
    assert open_web(STORAGE, "http://callsheet", tmp_path / "static") is None


async def test_browsers_get_the_application_and_programs_get_json(
    started: Started, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "open_web", partial(open_web, directory=built))
    async with started(server={"web_application": True}) as (plane, client):
        for path in ("/", "/effects", "/account"):
            page = await client.get(path, headers=BROWSER)
            assert (page.status_code, page.content) == (200, INDEX), path
            assert plane.settings.public_url in page.headers["content-security-policy"]
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["referrer-policy"] == "same-origin"
            assert (await client.head(path, headers=BROWSER)).status_code == 200
        # A public link leaks neither to search engines nor, as the page where a visitor comes from, to other sites.
        for headers in (BROWSER, BROWSER | {"if-none-match": page.headers["etag"]}):
            shared = await client.get("/share/a-token", headers=headers)
            assert shared.headers["referrer-policy"] == "no-referrer"
            assert "noindex" in shared.headers["x-robots-tag"]
        assert "x-robots-tag" not in page.headers
        assert (await client.get("/")).json()["name"] == "Callsheet"
        for path, kind in (
            ("/docs", "text/html"),
            ("/openapi.json", "application/json"),
            ("/readyz", "application/json"),
        ):
            response = await client.get(path, headers=BROWSER)
            assert response.status_code == 200
            assert response.headers["content-type"].startswith(kind)
            assert response.content != INDEX
        # By another name of this machine its cookie and its uploads would be strangers'.
        other = f"localhost:{plane.settings.server.port}"
        moved = await client.get("/jobs?status=failed", headers=BROWSER | {"host": other})
        assert (moved.status_code, moved.headers["location"]) == (
            307,
            f"{plane.settings.public_url}/jobs?status=failed",
        )
        # The page itself shows that the link is not valid.
        assert b"This did not work" in (await client.get("/account/invitation/nobody", headers=BROWSER)).content
        assert (await client.get("/api/unknown", headers=BROWSER)).json()["code"] == "not_found"
        assert (await client.post("/effects", headers=BROWSER)).json()["code"] == "not_found"
        assert "(web application)" in (await client.get("/metrics")).text


@pytest.mark.thorough
async def test_a_control_plane_without_the_web_application_serves_only_the_api(
    started: Started, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "open_web", partial(open_web, directory=built))
    async with started(server={"web_application": False}) as (_, client):
        assert "API documentation" in (await client.get("/", headers=BROWSER)).text
        assert (await client.get("/effects", headers=BROWSER)).status_code == 404


def test_the_files_are_found_in_the_directory_of_the_build() -> None:
    assert STATIC.parts[-4:] == ("src", "callsheet", "web", "static")
