"""G10: bad input gets a problem+json that names the field and the reason, and nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http import request_body
from tests.support.http.accounts import People, Person, session_of
from tests.support.http.responses import assert_refused, exchange

JSON = "application/json"
MEGABYTE = 1_048_576


@pytest.fixture
async def person(people: People) -> Person:
    return await people.user()


@pytest.fixture
async def signed_in(client: httpx.AsyncClient, person: Person) -> dict[str, str]:
    """The headers of a browser: only a session creates keys."""
    return await session_of(client, person)


@pytest.fixture(autouse=True)
async def _nothing_is_written(plane: ControlPlane, person: Person) -> AsyncIterator[None]:
    async def rows() -> list[int]:
        async with plane.databases.central.connection() as connection:
            counts = [
                await connection.fetchval(f"SELECT count(*) FROM {name}") for name in ("tenants", "users", "api_keys")
            ]
            # The person's own is what a test signed in with.
            others = "SELECT count(*) FROM browser_sessions WHERE user_id <> $1"
            return [*counts, await connection.fetchval(others, person.user.id)]

    before = await rows()
    yield
    assert await rows() == before


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "status", "code", "fields"),
    [
        (b'{"name": "x", "nmae": "y"}', 422, "invalid_request", ["nmae"]),
        (b'{"name": "x", "a": 1, "b": 2}', 422, "invalid_request", ["a", "b"]),
        (b"{}", 422, "invalid_request", ["name"]),
        (b'{"name": 7}', 422, "invalid_request", ["name"]),
        (b'{"name": null}', 422, "invalid_request", ["name"]),
        (b'{"name": ["x"]}', 422, "invalid_request", ["name"]),
        (b'{"name": NaN}', 422, "invalid_request", ["name"]),
        (b'{"name": 1e999}', 422, "invalid_request", ["name"]),
        (b'{"name": ' + b"9" * 4000 + b"}", 422, "invalid_request", ["name"]),
        (b'{"name": ' + b"9" * 6000 + b"}", 400, "malformed_request", ["body"]),
        (b'{"name": ""}', 422, "invalid_request", ["name"]),
        (b'{"name": " \\n "}', 422, "invalid_request", ["name"]),
        (b'{"name": "' + b"x" * 201 + b'"}', 422, "invalid_request", ["name"]),
        (b'{"name": "a\\u0000b"}', 422, "invalid_request", ["name"]),
        (b'{"name": "a\x00b"}', 400, "malformed_request", ["body"]),
        (b'{"name": "\\ud800"}', 422, "invalid_request", ["name"]),
        (b'{"name": "x", "\\udfff\\u0000": 1}', 422, "invalid_request", ["body"]),
        (b'{"name": "x", "\\u0000": 1}', 422, "invalid_request", ["\0"]),
        (b'{"name": "\xff\xfe"}', 400, "malformed_request", ["body"]),
        (b'{"name": "x"', 400, "malformed_request", ["body"]),
        (b'{"name": "x"} {}', 400, "malformed_request", ["body"]),
        (b"{'name': 'x'}", 400, "malformed_request", ["body"]),
        (b"", 422, "invalid_request", ["body"]),
        (b"null", 422, "invalid_request", ["body"]),
        (b"[]", 422, "invalid_request", ["body"]),
        (b'[{"name": "x"}]', 422, "invalid_request", ["body"]),
        (b'"name"', 422, "invalid_request", ["body"]),
        (b"1", 422, "invalid_request", ["body"]),
        (b"[" * 100_000, 400, "malformed_request", ["body"]),
        (b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "malformed_request", ["body"]),
        (b'{"name": ' * 100_000 + b"1" + b"}" * 100_000, 400, "malformed_request", ["body"]),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else None,
)
async def test_a_bad_body_is_refused(
    client: httpx.AsyncClient, signed_in: dict[str, str], body: bytes, status: int, code: str, fields: list[str]
) -> None:
    headers = signed_in | {"content-type": JSON}
    assert_refused(await client.post("/api/keys", content=body, headers=headers), status, code, *fields)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "a/json", None],
)
async def test_a_body_of_another_type_is_refused(
    client: httpx.AsyncClient, signed_in: dict[str, str], content_type: str | None
) -> None:
    headers = signed_in | ({} if content_type is None else {"content-type": content_type})
    response = await client.post("/api/keys", content=b'{"name": "x"}', headers=headers)
    assert_refused(response, 415, "unsupported_media_type", "content-type")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": 1, "password": "x"}, "email"),
        ({"email": "x" * 255, "password": "x"}, "email"),
        ({"email": "x", "password": "x" * 257}, "password"),
        ({"email": "x", "password": {"$ne": ""}}, "password"),
        ({"email": "x"}, "password"),
        ({"email": "a\0b", "password": "x"}, "email"),
        ({"email": "x", "password": "x", "remember": True}, "remember"),
    ],
)
async def test_a_bad_login_is_refused_by_field(client: httpx.AsyncClient, body: object, field: str) -> None:
    assert_refused(await client.post("/api/auth/login", json=body), 422, "invalid_request", field)


@pytest.mark.parametrize("login", [("' OR 1=1 --", "x"), ("x", "a\0b"), ("", ""), ("é@ü", "ß")])
async def test_an_unusual_login_is_refused_like_a_wrong_login(
    client: httpx.AsyncClient, login: tuple[str, str]
) -> None:
    response = await client.post("/api/auth/login", json=dict(zip(("email", "password"), login, strict=True)))
    assert_refused(response, 401, "invalid_credentials")


async def pieces(size: int) -> AsyncIterator[bytes]:
    """Spaces: as one piece they would lie in this process several times."""
    for start in range(0, size, 65_536):
        yield b" " * min(65_536, size - start)


@pytest.mark.few_forms
@pytest.mark.parametrize("size", [MEGABYTE + 1, 2 * MEGABYTE, 50 * MEGABYTE])
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
async def test_a_body_over_the_limit_is_refused_and_the_client_gets_the_reason(
    client: httpx.AsyncClient,
    person: Person,
    signed_in: dict[str, str],
    size: int,
    chunked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A busy machine takes longer than usual to send 50 MB.
    monkeypatch.setattr(request_body, "LINGER_SECONDS", 300.0)
    headers = signed_in | {"content-type": JSON} | ({} if chunked else {"content-length": str(size)})
    response = await client.post("/api/keys", content=pieces(size), headers=headers)
    problem = assert_refused(response, 413, "body_too_large", "body")
    assert problem["limit_bytes"] == MEGABYTE
    assert (await client.get("/api/me", headers=person.headers)).status_code == 200


async def test_a_body_of_exactly_the_limit_is_read(client: httpx.AsyncClient, signed_in: dict[str, str]) -> None:
    headers = signed_in | {"content-type": JSON}
    response = await client.post("/api/keys", content=b"{}".ljust(MEGABYTE), headers=headers)
    assert_refused(response, 422, "invalid_request", "name")


async def test_an_unexpected_body_does_not_prevent_the_response(client: httpx.AsyncClient) -> None:
    size = 20 * MEGABYTE
    declared = {"content-length": str(size)}
    for path, status in (("/nowhere", 404), ("/healthz", 405), ("/api/keys", 413)):
        assert (await client.post(path, content=pieces(size), headers=declared)).status_code in (status, 413)
    response = await client.post("/nowhere", content=b" " * (MEGABYTE // 2))
    assert_refused(response, 404, "not_found")
    response = await client.put("/storage/x?expires=1&signature=x", content=pieces(size), headers=declared)
    assert_refused(response, 403, "signature_invalid")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer x",
        b"Bearer cs_",
        b"Bearer a b",
        b"Bearer \xff\xfe",
        "Bearer cs_é".encode(),
        b"Bearer " + b"x" * 20_000,
        b"Bearer\tcs_x",
        b"Basic dTpw",
        b"cs_x",
    ],
    ids=lambda value: repr(value[:20]),
)
async def test_a_bad_token_is_refused(client: httpx.AsyncClient, value: bytes) -> None:
    response = await client.get("/api/me", headers=[(b"authorization", value)])
    assert_refused(response, 401, "not_authenticated")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cursor=x", "query.cursor"),
        ("cursor=", "query.cursor"),
        ("cursor=%ff", "query.cursor"),
        ("cursor=" + "a" * 5000, "query.cursor"),
        ("limit=0", "query.limit"),
        ("limit=-1", "query.limit"),
        ("limit=201", "query.limit"),
        ("limit=9223372036854775808", "query.limit"),
        ("limit=" + "9" * 5000, "query.limit"),
        ("limit=ten", "query.limit"),
        ("limit=1.5", "query.limit"),
        ("limit=", "query.limit"),
    ],
    ids=lambda value: value[:24],
)
async def test_a_bad_query_is_refused_by_parameter(
    client: httpx.AsyncClient, person: Person, query: str, field: str
) -> None:
    assert_refused(await client.get(f"/api/keys?{query}", headers=person.headers), 422, "invalid_request", field)


async def test_a_bad_id_in_the_path_is_refused(client: httpx.AsyncClient, person: Person) -> None:
    for bad in ("1", "%2e%2e", "%ff", "x" * 5000, "'; DROP TABLE api_keys; --", f"{uuid4()}x"):
        response = await client.delete(f"/api/keys/{bad}", headers=person.headers)
        assert_refused(response, 422, "invalid_request", "path.key_id")


async def test_nul_bytes_in_a_url_are_refused(client: httpx.AsyncClient, person: Person) -> None:
    for address, field in (("/api/keys/%00", "path"), ("/a%00b", "path"), ("/api/keys?cursor=%00", "query")):
        response = await client.get(address, headers=person.headers)
        assert_refused(response, 400, "malformed_request", field)


@pytest.mark.parametrize("size", [33_000, 38_000])
async def test_a_large_header_is_refused_by_name(plane: ControlPlane, size: int) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"a" * size + b"\r\n\r\n"
    response = await exchange(plane.settings.public_url, request)
    problem = assert_refused(response, 431, "headers_too_large", "header x-large")
    assert problem["limit_bytes"] == 32_768


async def test_many_headers_that_are_large_together_are_refused(plane: ControlPlane) -> None:
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(35))
    response = await exchange(
        plane.settings.public_url, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n"
    )
    problem = assert_refused(response, 431, "headers_too_large", "header x-0")
    assert problem["limit_bytes"] == 32_768


async def test_a_long_url_is_refused(plane: ControlPlane) -> None:
    for address in (b"/" + b"a" * 38_000, b"/api/keys?cursor=" + b"a" * 38_000):
        response = await exchange(
            plane.settings.public_url, b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        assert_refused(response, 431, "headers_too_large", "address")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "address",
    [
        "*",
        "//healthz",
        "/nowhere",
        "/api/keys/",
        "/api/../healthz",
        "/api/%2e%2e/healthz",
        "/docs/",
        "/docs/assets",
        "/docs/assets/../../healthz",
        "/docs/assets/..%2f..%2f..%2fpyproject.toml",
        "/docs/assets/%5c..%5c..%5cx",
        "/docs/assets/" + "x" * 3000,
        "/é",
        "/%zz",
        "/%ff",
        "/healthz%20",
    ],
    ids=lambda value: value[:40],
)
async def test_any_other_path_returns_404(plane: ControlPlane, address: str) -> None:
    request = f"GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    assert_refused(await exchange(plane.settings.public_url, request), 404, "not_found")


async def test_paths_with_dots_reach_no_file(plane: ControlPlane) -> None:
    for name in ("../secret_key", "..%2fsecret_key", "%2e%2e/%2e%2e/etc/passwd", "a/../../secret_key", "%252e%252e/x"):
        for method in ("GET", "PUT"):
            request = f"{method} /storage/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
            response = await exchange(plane.settings.public_url, request)
            assert_refused(response, 403, "signature_invalid")


@pytest.mark.few_forms
@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "FOO", "get", "M-SEARCH"])
async def test_a_method_that_a_path_does_not_take_is_refused_with_the_methods_it_takes(
    plane: ControlPlane, method: str
) -> None:
    for address, allowed in (("/api/me", {"GET"}), ("/api/keys/1", {"DELETE"}), ("/api/auth/login", {"POST"})):
        if method not in allowed:
            request = f"{method} {address} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
            response = await exchange(plane.settings.public_url, request)
            assert_refused(response, 405, "method_not_allowed")
            assert set(response.headers["allow"].split(", ")) == allowed


async def test_old_and_odd_but_valid_requests_get_a_response(plane: ControlPlane) -> None:
    for head in (
        b"GET /healthz HTTP/1.0\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: \r\n",
        b"GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /healthz?%ff=%ff&&=&a=1&a=2 HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Odd: \xff\xfe\r\nAccept: nonsense\r\nRange: bytes=9-1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    ):
        response = await exchange(plane.settings.public_url, head + b"\r\n")
        assert (response.status_code, response.json()["status"]) == (200, "ok")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET / two three HTTP/1.1\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Nul: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 200 + b"\r\n",
    ],
    ids=lambda value: repr(value[:30]),
)
async def test_bytes_that_are_not_http_are_rejected_by_the_server(plane: ControlPlane, request_bytes: bytes) -> None:
    """The server rejects these before there is a request: it sends a bare 4xx and closes the connection."""
    response = await exchange(plane.settings.public_url, request_bytes)
    assert response.status_code in (400, 414, 431)
    assert response.headers["connection"] == "close"


async def test_a_broken_chunk_is_refused(plane: ControlPlane) -> None:
    head = b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    response = await exchange(plane.settings.public_url, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert_refused(response, 400, "malformed_request", "body")


async def test_a_body_that_ends_early_does_not_disturb_the_server(
    client: httpx.AsyncClient, plane: ControlPlane
) -> None:
    head = b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: 100\r\n\r\n"
    with pytest.raises(TimeoutError):
        await exchange(plane.settings.public_url, head + b"{", seconds=0.05)
    assert (await client.get("/healthz")).status_code == 200


async def test_the_size_of_a_response_does_not_grow_with_the_number_of_errors(
    client: httpx.AsyncClient, signed_in: dict[str, str]
) -> None:
    names = [f"{number}\x1b\u2028{'x' * 1000}" for number in range(500)]
    response = await client.post("/api/keys", json=dict.fromkeys(names, 1), headers=signed_in)
    assert_refused(response, 422, "invalid_request", "name", *(name[:200] for name in names[:49]))
    assert len(response.content) < 50_000


@pytest.mark.parametrize(
    ("path", "field", "reason"),
    [
        ("/api/me?tennant=x", "query.tennant", "This URL has no query parameter 'tennant'. It has none."),
        ("/api/ai-jobs?client_refrence=x", "query.client_refrence", "Did you mean 'client_reference'?"),
        ("/api/ai-jobs?limit=1&Limit=2", "query.Limit", "Did you mean 'limit'?"),
        ("/api/sessions?color=red", "query.color", "This URL has no query parameter 'color'."),
    ],
)
async def test_g10_an_unknown_query_parameter_is_refused_like_an_unknown_field(
    client: httpx.AsyncClient, person: Person, path: str, field: str, reason: str
) -> None:
    response = await client.get(path, headers=person.headers)
    problem = assert_refused(response, 422, "invalid_request", field)
    assert reason in problem["errors"][0]["reason"]


async def test_g10_many_unknown_query_parameters_are_named_in_part(client: httpx.AsyncClient, person: Person) -> None:
    names = "&".join(f"limit{number}=1" for number in range(500))
    problem = (await client.get(f"/api/ai-jobs?{names}", headers=person.headers)).json()
    assert [error["field"] for error in problem["errors"]] == [f"query.limit{number}" for number in range(10)]


async def test_g10_an_unknown_query_parameter_changes_nothing(
    client: httpx.AsyncClient, signed_in: dict[str, str]
) -> None:
    response = await client.post("/api/keys?dry_run=true", json={"name": "x"}, headers=signed_in)
    assert_refused(response, 422, "invalid_request", "query.dry_run")


async def test_the_caller_is_checked_before_query_parameters(client: httpx.AsyncClient) -> None:
    assert_refused(await client.get("/api/me?tennant=x"), 401, "not_authenticated")
