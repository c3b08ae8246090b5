"""The guarded client against real servers on this machine."""

import asyncio
import gzip
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.providers.context import Clients
from callsheet.toolbox.http.client import (
    AddressRefused,
    GuardedClient,
    OutgoingError,
    RequestFailed,
    RequestImpossible,
    TimedOut,
    TooLarge,
)
from tests.support.http.scripted_server import (
    LOOPBACK_SPELLINGS,
    UNUSABLE_URLS,
    Received,
    certificate_of_good_test,
    hello,
    names,
    reply,
    serving,
)

LOCAL = [ip_network("127.0.0.0/8")]
# Long enough for a busy machine, short enough for a test that hangs.
PATIENCE = 30.0
# Loading the real certificates takes longer than a hundred examples of a property.
EMPTY_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def redirect_to(
    location: str, status: str = "302 Found"
) -> Callable[[Received, asyncio.StreamWriter], Awaitable[None]]:
    async def response(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.path == "/":
            reply(writer, b"moved", status, location=location)
        else:
            reply(writer, b"arrived")

    return response


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_networks=LOCAL, timeout_seconds=PATIENCE, max_bytes=100_000) as made:
        yield made


async def test_a_response_is_returned_completely(client: GuardedClient) -> None:
    async with serving(hello) as server:
        response = await client.fetch("get", server.url("/x?y=1"), headers={"x-thing": "1"})
        assert (response.status, response.content, response.url) == (200, b"hello", server.url("/x?y=1"))
        assert response.headers["content-type"] == "text/plain"
        (request,) = server.requests
        assert (request.method, request.path, request.headers["x-thing"]) == ("GET", "/x?y=1", "1")
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert request.headers["user-agent"] == "callsheet"


async def test_a_body_is_sent_and_errors_of_the_server_are_responses(client: GuardedClient) -> None:
    async def refuse(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, b"no", "422 Unprocessable Content")

    async with serving(refuse) as server:
        response = await client.fetch("POST", server.url(), content=b'{"a":1}')
        assert (response.status, response.content) == (422, b"no")
        assert server.requests[0].body == b'{"a":1}'


async def test_connections_are_reused_by_host_name() -> None:
    async with (
        serving(hello) as server,
        GuardedClient(allow_networks=LOCAL, resolver=names(a_test=["127.0.0.1"])) as client,
    ):
        for _ in range(3):
            await client.fetch("GET", server.url(host="a.test"))
        assert (len(server.requests), server.connections) == (3, 1)


async def test_a_head_response_may_declare_a_length_without_a_body(client: GuardedClient) -> None:
    async def head(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\ncontent-encoding: gzip\r\n\r\n")

    async with serving(head) as server:
        response = await client.fetch("HEAD", server.url())
        assert (response.content, response.headers["content-length"]) == (b"", "99999999")


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
async def test_no_spelling_of_a_private_ip_address_gets_a_connection(host: str) -> None:
    async with serving(hello) as server, GuardedClient(timeout_seconds=PATIENCE) as client:
        with pytest.raises(OutgoingError) as caught:
            await client.fetch("GET", server.url(host=host))
        assert isinstance(caught.value, AddressRefused) or "could not be found" in str(caught.value)
        assert server.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]"])
async def test_plain_spellings_are_refused_by_name(host: str) -> None:
    async with GuardedClient(timeout_seconds=PATIENCE) as client:
        with pytest.raises(AddressRefused, match="private or reserved"):
            await client.fetch("GET", f"http://{host}:9/")


@pytest.mark.parametrize(("url", "reason"), UNUSABLE_URLS)
async def test_an_unusable_url_is_refused_before_a_name_is_resolved(url: str, reason: str) -> None:
    hosts = []

    async def resolve(host: str, _: int) -> Sequence[str]:
        hosts.append(host)
        return ["127.0.0.1"]

    async with GuardedClient(allow_networks=LOCAL, resolver=resolve) as client:
        with pytest.raises(RequestFailed, match=reason):
            await client.fetch("GET", url)
    assert hosts == []


@pytest.mark.parametrize("host", ["a..b", "." + "a" * 70])
async def test_the_error_names_a_host_that_cannot_be_resolved(host: str) -> None:
    async with GuardedClient(timeout_seconds=PATIENCE) as client:
        with pytest.raises(RequestFailed, match="could not be found"):
            await client.fetch("GET", f"http://{host}/")


@pytest.mark.parametrize("host", ["unknown.test", "a%20b", "a\\b", "-"])
async def test_the_error_names_an_unknown_host(host: str) -> None:
    async def unknown(_host: str, _port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with GuardedClient(resolver=unknown) as client:
        with pytest.raises(RequestFailed, match=re.escape(f"The host {host} could not be found.")):
            await client.fetch("GET", f"http://{host}/")


async def test_international_names_are_resolved_in_their_ascii_form() -> None:
    async with (
        serving(hello) as server,
        GuardedClient(allow_networks=LOCAL, resolver=names(**{"xn--bcher-kva_test": ["127.0.0.1"]})) as client,
    ):
        response = await client.fetch("GET", server.url(host="bücher.test"))
        assert response.content == b"hello"
        assert server.requests[0].headers["host"] == f"xn--bcher-kva.test:{server.port}"


@given(st.text(st.characters()) | st.from_regex(r"https?://[^/]{0,20}(:\d{0,6})?/.{0,20}"))
async def test_no_text_raises_anything_but_an_outgoing_error(url: str) -> None:
    async def nowhere(_host: str, _port: int) -> Sequence[str]:
        return ["10.0.0.1"]

    async with GuardedClient(resolver=nowhere, ssl_context=EMPTY_TRUST) as client:
        with pytest.raises(OutgoingError):
            await client.fetch("GET", url)


async def test_one_private_ip_address_among_public_ones_refuses_them_all() -> None:
    resolver = names(mixed_test=["8.8.8.8", "127.0.0.1"])
    async with serving(hello) as server, GuardedClient(resolver=resolver) as client:
        with pytest.raises(AddressRefused) as caught:
            await client.fetch("GET", server.url(host="mixed.test"))
        assert server.connections == 0
        assert "mixed.test" in str(caught.value)
        assert "127" not in str(caught.value)


async def test_the_client_connects_to_the_ip_address_that_was_checked() -> None:
    """A name that resolves to another IP address the second time (DNS rebinding) is resolved once per connection."""
    responses = [["127.0.0.1"], ["127.66.66.66"]]
    hosts = []

    async def rebinding(host: str, _: int) -> Sequence[str]:
        hosts.append(host)
        return responses[len(hosts) - 1]

    allowed = [ip_network("127.0.0.1/32")]
    async with serving(hello) as server, GuardedClient(allow_networks=allowed, resolver=rebinding) as client:
        response = await client.fetch("GET", server.url(host="rebind.test"))
        assert (response.status, hosts) == (200, ["rebind.test"])
        assert server.requests[0].headers["host"] == f"rebind.test:{server.port}"
    async with GuardedClient(allow_networks=allowed, resolver=rebinding) as client:
        with pytest.raises(AddressRefused):
            await client.fetch("GET", server.url(host="rebind.test"))


async def test_the_next_ip_address_is_tried_if_the_first_does_not_respond() -> None:
    resolver = names(two_test=["::1", "127.0.0.1"])
    allowed = [*LOCAL, ip_network("::1")]
    async with serving(hello) as server, GuardedClient(allow_networks=allowed, resolver=resolver) as client:
        assert (await client.fetch("GET", server.url(host="two.test"))).content == b"hello"


async def test_a_redirect_to_a_private_ip_address_is_refused(client: GuardedClient) -> None:
    async with serving(redirect_to("http://169.254.169.254/latest/meta-data/")) as server:
        with pytest.raises(AddressRefused, match=r"169\.254\.169\.254"):
            await client.fetch("GET", server.url())


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "http://[::1/", "http://h:99999/"])
async def test_a_redirect_to_an_unusable_url_is_refused(client: GuardedClient, location: str) -> None:
    async with serving(redirect_to(location)) as server:
        with pytest.raises(RequestFailed):
            await client.fetch("GET", server.url())


async def test_redirects_are_followed_and_the_response_has_the_last_url(client: GuardedClient) -> None:
    async with serving(redirect_to("/there?x=1#y")) as server:
        response = await client.fetch("GET", server.url())
        assert response.content == b"arrived"
        assert response.url == server.url("/there?x=1#y")


async def test_a_client_for_trusted_urls_follows_no_redirect() -> None:
    clients = Clients()
    async with serving(redirect_to("/there")) as server:
        response = await clients.trusted().fetch("GET", server.url())
        assert (response.status, response.headers["location"], response.content) == (302, "/there", b"moved")
    await clients.close()


async def test_a_circle_of_redirects_ends(client: GuardedClient) -> None:
    async with serving(redirect_to("/")) as server:
        with pytest.raises(RequestFailed, match="5 redirects"):
            await client.fetch("GET", server.url())
        assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("status", "method", "followed_by", "body"),
    [
        ("301 Moved", "POST", "GET", b""),
        ("301 Moved", "PUT", "PUT", b"data"),
        ("302 Found", "POST", "GET", b""),
        ("303 See Other", "PUT", "GET", b""),
        ("303 See Other", "HEAD", "HEAD", b""),
        ("307 Temporary", "POST", "POST", b"data"),
        ("308 Permanent", "PUT", "PUT", b"data"),
    ],
)
async def test_a_redirect_keeps_or_drops_the_body_by_its_status(
    client: GuardedClient, status: str, method: str, followed_by: str, body: bytes
) -> None:
    async def response(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.path == "/":
            reply(writer, b"", status, location="/there")
        else:
            reply(writer)

    async with serving(response) as server:
        await client.fetch(method, server.url(), content=b"" if method == "HEAD" else b"data")
        assert (server.requests[1].method, server.requests[1].body) == (followed_by, body)


async def test_credentials_do_not_follow_a_redirect_to_another_host() -> None:
    secret = {"authorization": "Bearer x", "cookie": "a=b", "x-api-key": "k", "accept": "text/html"}
    resolver = names(one_test=["127.0.0.1"], two_test=["127.0.0.1"])
    async with serving(hello) as other, GuardedClient(allow_networks=LOCAL, resolver=resolver) as client:
        async with serving(redirect_to(other.url("/", host="two.test"))) as server:
            await client.fetch("GET", server.url(host="one.test"), headers=secret)
        assert server.requests[0].headers.items() >= secret.items()
        assert not {"authorization", "cookie", "x-api-key"} & other.requests[0].headers.keys()
        assert other.requests[0].headers["accept"] == "text/html"


async def test_credentials_follow_a_redirect_within_their_origin(client: GuardedClient) -> None:
    async with serving(redirect_to("/there")) as server:
        await client.fetch("GET", server.url(), headers={"authorization": "Bearer x"})
        assert [request.headers["authorization"] for request in server.requests] == ["Bearer x", "Bearer x"]


async def test_cookies_of_one_request_are_not_sent_with_the_next(client: GuardedClient) -> None:
    async def give_cookie(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, set_cookie="session=of-another-tenant")

    async with serving(give_cookie) as server:
        for _ in range(2):
            await client.fetch("GET", server.url())
        assert "cookie" not in server.requests[1].headers


async def test_callers_cannot_set_the_headers_that_frame_a_request(client: GuardedClient) -> None:
    headers = {"Host": "internal.example", "Content-Length": "3", "Transfer-Encoding": "chunked", "Connection": "x"}
    async with serving(hello) as server:
        await client.fetch("POST", server.url(), headers=headers, content=b"12345")
        (request,) = server.requests
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert (request.headers["content-length"], request.body) == ("5", b"12345")
        assert "transfer-encoding" not in request.headers


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {"x": "a\r\nhost: b"}), ("GET", {"x y": "1"}), ("GET", {"x": "é"}), ("GET /\r\n", {}), ("CONNECT", {})],
)
async def test_a_request_that_cannot_be_sent_is_refused(
    client: GuardedClient, method: str, headers: dict[str, str]
) -> None:
    async with serving(hello) as server:
        with pytest.raises(RequestFailed):
            await client.fetch(method, server.url(), headers=headers)
        assert server.requests == []


@pytest.fixture
async def impatient() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_networks=LOCAL, timeout_seconds=0.2) as made:
        yield made


async def test_a_server_that_never_responds_runs_into_the_deadline(impatient: GuardedClient) -> None:
    async def silence(_: Received, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(silence) as server:
        with pytest.raises(TimedOut, match=r"127\.0\.0\.1 did not respond in time"):
            await impatient.fetch("GET", server.url())


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    """Always something, never enough: a timeout between reads would not notice."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_a_body_that_drips_runs_into_the_deadline(impatient: GuardedClient) -> None:
    async with serving(drip) as server:
        with pytest.raises(TimedOut):
            await impatient.fetch("GET", server.url())


async def test_redirects_share_one_deadline(impatient: GuardedClient) -> None:
    async def slow_circle(_: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.06)
        reply(writer, b"", "302 Found", location="/")

    async with serving(slow_circle) as server:
        with pytest.raises(TimedOut):
            await impatient.fetch("GET", server.url())


async def test_a_name_server_that_never_responds_runs_into_the_deadline() -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with GuardedClient(resolver=silent, timeout_seconds=0.05) as client:
        with pytest.raises(TimedOut):
            await client.fetch("GET", "http://slow.test/")


async def test_a_cancelled_request_is_cancelled_and_not_timed_out(client: GuardedClient) -> None:
    started = asyncio.Event()

    async def silence(_: Received, __: asyncio.StreamWriter) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving(silence) as server:
        task = asyncio.create_task(client.fetch("GET", server.url()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_declared_length_above_the_limit_is_not_read(client: GuardedClient) -> None:
    async def huge(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100001\r\n\r\n")

    async with serving(huge) as server:
        with pytest.raises(TooLarge, match="more than 100000 bytes"):
            await client.fetch("GET", server.url())


async def test_a_body_of_exactly_the_limit_is_read(client: GuardedClient) -> None:
    async def full(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, b"x" * 100_000)

    async with serving(full) as server:
        assert len((await client.fetch("GET", server.url())).content) == 100_000


async def test_an_endless_chunked_body_is_cut_off(client: GuardedClient) -> None:
    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    async with serving(endless) as server:
        with pytest.raises(TooLarge):
            await client.fetch("GET", server.url())


def packed(body: bytes, encoding: str) -> Callable[[Received, asyncio.StreamWriter], Awaitable[None]]:
    async def response(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, body, content_encoding=encoding)

    return response


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_compressed_responses_are_decompressed(
    client: GuardedClient, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    text = b"".join(str(number).encode() for number in range(20_000))
    async with serving(packed(pack(text), encoding)) as server:
        assert (await client.fetch("GET", server.url())).content == text


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
async def test_a_decompression_bomb_is_stopped_at_the_limit(client: GuardedClient, encoding: str) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 100_000
    async with serving(packed(bomb, encoding)) as server, client.stream("GET", server.url()) as stream:
        pieces = aiter(stream)
        assert len(await anext(pieces)) == 65_536
        with pytest.raises(TooLarge):
            await anext(pieces)


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (gzip.compress(gzip.compress(b"x" * 1000, mtime=0), mtime=0), "gzip, gzip", "not requested"),
        (b"x", "br", "not requested"),
        (b"not gzip at all", "gzip", "damaged"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-10], "gzip", "too early"),
        (gzip.compress(b"x", mtime=0) + b"more", "gzip", "data after its end"),
    ],
)
async def test_responses_that_cannot_be_decompressed_fail_with_the_reason(
    client: GuardedClient, body: bytes, encoding: str, reason: str
) -> None:
    async with serving(packed(body, encoding)) as server:
        with pytest.raises(RequestFailed, match=reason):
            await client.fetch("GET", server.url())


async def test_compressed_data_that_decompresses_to_nothing_counts_for_the_limit(client: GuardedClient) -> None:
    compressor = zlib.compressobj(wbits=31)
    empty = compressor.flush(zlib.Z_FULL_FLUSH)

    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + empty)
        while True:
            writer.write(b"\x00\x00\x00\xff\xff" * 1000)
            await writer.drain()

    async with serving(endless) as server:
        with pytest.raises(TooLarge):
            await client.fetch("GET", server.url())


async def test_a_stream_hands_out_pieces_within_limits_of_its_own(client: GuardedClient) -> None:
    async def big(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, b"x" * 1_000_000)

    async with serving(big) as server:
        async with client.stream("GET", server.url(), max_bytes=2_000_000, timeout_seconds=PATIENCE) as stream:
            sizes = [len(piece) async for piece in stream]
        assert (stream.status, sum(sizes)) == (200, 1_000_000)
        assert max(sizes) <= 65_536


async def test_a_stream_that_is_left_early_releases_its_connection(client: GuardedClient) -> None:
    async with serving(drip) as server:
        for _ in range(3):
            async with client.stream("GET", server.url(), max_bytes=10_000_000) as stream:
                async for _piece in stream:
                    break
        assert server.connections == 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate_of_good_test(tmp_path_factory.mktemp("tls"))


async def test_certificates_are_checked_against_the_host_name_not_the_ip_address(certificate: Path) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    wanted: list[str | None] = []
    server_side.sni_callback = lambda _socket, name, _context: wanted.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate))
    resolver = names(good_test=["127.0.0.1"], evil_test=["127.0.0.1"])
    async with (
        serving(hello, server_side) as server,
        GuardedClient(allow_networks=LOCAL, resolver=resolver, ssl_context=trusting) as client,
        GuardedClient(allow_networks=LOCAL, resolver=resolver) as doubting,
    ):
        response = await client.fetch("GET", f"https://good.test:{server.port}/")
        assert (response.content, wanted) == (b"hello", ["good.test"])
        # Asking again will not help.
        with pytest.raises(RequestImpossible, match=r"The certificate of evil\.test cannot be verified"):
            await client.fetch("GET", f"https://evil.test:{server.port}/")
        with pytest.raises(RequestImpossible, match=r"The certificate of good\.test cannot be verified"):
            await doubting.fetch("GET", f"https://good.test:{server.port}/")
        assert len(server.requests) == 1


async def test_a_server_that_does_not_speak_http_or_disconnects_is_a_failed_request(client: GuardedClient) -> None:
    async def nonsense(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.example ESMTP\r\n\r\n")

    async def hang_up(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await writer.drain()
        writer.close()

    for response in (nonsense, hang_up):
        async with serving(response) as server:
            with pytest.raises(RequestFailed, match="did not send a valid HTTP response"):
                await client.fetch("GET", server.url())
    with pytest.raises(RequestFailed, match="No connection"):
        await client.fetch("GET", server.url())
