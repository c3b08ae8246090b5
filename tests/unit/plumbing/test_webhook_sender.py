"""The sender of webhooks against real servers on this machine: where it connects, and what it returns."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.plumbing.http.webhook_sender import MAX_RESPONSE_BYTES, WebhookMessage, WebhookResponse, WebhookSender
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


async def sent(sender: WebhookSender, url: str) -> WebhookResponse:
    return await sender.send(WebhookMessage(url, "msg_1", b'{"type":"test"}', []))


@pytest.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    async with WebhookSender(allow_networks=LOCAL, timeout_seconds=PATIENCE) as made:
        yield made


async def test_a_message_is_posted_and_the_response_is_returned(sender: WebhookSender) -> None:
    async with serving(hello) as server:
        response = await sent(sender, server.url("/a%2Fb?y=%20 1#part"))
        assert (response.status, response.text, response.error) == (200, "hello", None)
        [request] = server.requests
        assert (request.method, request.path, request.body) == ("POST", "/a%2Fb?y=%20%201", b'{"type":"test"}')
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert request.headers["user-agent"] == "callsheet"
        assert request.headers["content-type"] == "application/json"
        assert "webhook-signature" not in request.headers


async def test_connections_are_reused(sender: WebhookSender) -> None:
    async with serving(hello) as server:
        for number in range(3):
            await sent(sender, server.url(f"/{number}"))
        assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
async def test_no_spelling_of_a_private_ip_address_gets_a_connection(host: str) -> None:
    async with serving(hello) as server, WebhookSender(allow_networks=(), timeout_seconds=PATIENCE) as sender:
        response = await sent(sender, server.url(host=host))
        assert response.status is None
        reasons = ("private or reserved", "could not be found", "not a valid URL")
        assert any(reason in str(response.error) for reason in reasons)
        assert server.connections == 0


@pytest.mark.parametrize(("url", "reason"), UNUSABLE_URLS)
async def test_an_unusable_url_is_refused_before_a_name_is_resolved(url: str, reason: str) -> None:
    hosts = []

    async def resolve(host: str, _: int) -> Sequence[str]:
        hosts.append(host)
        return ["127.0.0.1"]

    async with WebhookSender(allow_networks=LOCAL, timeout_seconds=PATIENCE, resolver=resolve) as sender:
        response = await sent(sender, url)
        assert response.status is None
        assert reason in str(response.error)
    assert hosts == []


@given(st.text(st.characters()) | st.from_regex(r"https?://[^/]{0,20}(:\d{0,6})?/.{0,20}"))
async def test_each_text_as_url_has_a_response_with_an_error(url: str) -> None:
    async def nowhere(_host: str, _port: int) -> Sequence[str]:
        return ["10.0.0.1"]

    async with WebhookSender(allow_networks=(), timeout_seconds=PATIENCE, resolver=nowhere) as sender:
        response = await sent(sender, url)
        assert (response.status, bool(response.error)) == (None, True)


async def test_one_private_ip_address_among_public_ones_refuses_them_all() -> None:
    resolver = names(mixed_test=["8.8.8.8", "127.0.0.1"])
    async with (
        serving(hello) as server,
        WebhookSender(allow_networks=(), timeout_seconds=PATIENCE, resolver=resolver) as sender,
    ):
        response = await sent(sender, server.url(host="mixed.test"))
        assert server.connections == 0
        assert response.error == "The host mixed.test is in a private or reserved network, which is not allowed here."


async def test_the_sender_connects_to_the_ip_address_that_was_checked() -> None:
    """A name that resolves to another IP address the second time (DNS rebinding) is resolved once per connection."""
    responses = [["127.0.0.1"], ["127.66.66.66"]]
    hosts = []

    async def rebinding(host: str, _: int) -> Sequence[str]:
        hosts.append(host)
        return responses[len(hosts) - 1]

    allowed = [ip_network("127.0.0.1/32")]
    async with serving(hello) as server:
        async with WebhookSender(allow_networks=allowed, timeout_seconds=PATIENCE, resolver=rebinding) as sender:
            assert (await sent(sender, server.url(host="rebind.test"))).is_accepted
            assert hosts == ["rebind.test"]
            assert server.requests[0].headers["host"] == f"rebind.test:{server.port}"
        async with WebhookSender(allow_networks=allowed, timeout_seconds=PATIENCE, resolver=rebinding) as sender:
            assert "private or reserved" in str((await sent(sender, server.url(host="rebind.test"))).error)


async def test_the_next_ip_address_is_tried_if_the_first_does_not_respond() -> None:
    resolver = names(two_test=["::1", "127.0.0.1"])
    allowed = [*LOCAL, ip_network("::1")]
    async with (
        serving(hello) as server,
        WebhookSender(allow_networks=allowed, timeout_seconds=PATIENCE, resolver=resolver) as sender,
    ):
        assert (await sent(sender, server.url(host="two.test"))).text == "hello"


async def test_a_redirect_is_a_response_and_is_not_followed(sender: WebhookSender) -> None:
    async def moved(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, b"moved", "307 Temporary Redirect", location="/elsewhere")

    async with serving(moved) as server:
        response = await sent(sender, server.url())
        assert (response.status, len(server.requests)) == (307, 1)
        assert response.error == "The endpoint returned 307. It must return a status from 200 to 299."


async def test_cookies_of_one_response_are_not_sent_with_the_next_message(sender: WebhookSender) -> None:
    async def with_cookie(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, set_cookie="session=1")

    async with serving(with_cookie) as server:
        for _ in range(2):
            await sent(sender, server.url())
        assert ["cookie" in request.headers for request in server.requests] == [False, False]


async def test_a_server_that_never_responds_runs_into_the_deadline() -> None:
    async def silent(_: Received, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def dripping(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-header: 1\r\n")
            await asyncio.sleep(0.02)

    for answer in (silent, dripping):
        async with serving(answer) as server, WebhookSender(allow_networks=LOCAL, timeout_seconds=0.3) as sender:
            response = await sent(sender, server.url())
            assert (response.status, response.error) == (None, "127.0.0.1 did not respond in time.")


async def test_a_name_server_that_never_responds_runs_into_the_deadline() -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with WebhookSender(allow_networks=LOCAL, timeout_seconds=0.2, resolver=silent) as sender:
        assert (await sent(sender, "http://slow.test/")).error == "slow.test did not respond in time."


async def test_of_an_endless_response_only_the_first_bytes_are_read(sender: WebhookSender) -> None:
    written = 0

    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            written += 10_000
            await writer.drain()

    async with serving(endless) as server:
        response = await sent(sender, server.url())
        assert (response.status, response.text) == (200, "x" * MAX_RESPONSE_BYTES)
        # The rest does not come in: the connection is closed.
        assert written < 50_000_000
        await sent(sender, server.url())
        assert server.connections == 2


async def test_packed_data_is_not_unpacked(sender: WebhookSender) -> None:
    async def packed(_: Received, writer: asyncio.StreamWriter) -> None:
        reply(writer, b"\x1f\x8b no gzip", content_encoding="gzip")

    async with serving(packed) as server:
        assert (await sent(sender, server.url())).text.endswith(" no gzip")
        assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_headers_without_end_are_an_error(sender: WebhookSender) -> None:
    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-header: " + b"y" * 1000 + b"\r\n")
            await writer.drain()

    async with serving(endless) as server:
        assert (await sent(sender, server.url())).error == "127.0.0.1 did not send a valid HTTP response."


async def test_a_response_that_is_not_http_or_ends_too_early_is_an_error(sender: WebhookSender) -> None:
    async def nonsense(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.example ESMTP\r\n\r\n")

    async def hang_up(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def half_a_body(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await writer.drain()
        writer.close()

    async with serving(nonsense) as server:
        assert (await sent(sender, server.url())).error == "127.0.0.1 did not send a valid HTTP response."
    async with serving(hang_up) as server:
        assert (await sent(sender, server.url())).error == "The connection to 127.0.0.1 was lost."
    async with serving(half_a_body) as server:
        # It has decided, before its text was complete.
        assert (await sent(sender, server.url())).is_accepted
    assert (await sent(sender, server.url())).error == "No connection to 127.0.0.1 could be made."


async def test_certificates_are_checked_against_the_host_name_not_the_ip_address(tmp_path: Path) -> None:
    certificate = certificate_of_good_test(tmp_path)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    wanted: list[str | None] = []
    server_side.sni_callback = lambda _socket, name, _context: wanted.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate))
    resolver = names(good_test=["127.0.0.1"], evil_test=["127.0.0.1"])
    async with (
        serving(hello, server_side) as server,
        WebhookSender(
            allow_networks=LOCAL, timeout_seconds=PATIENCE, resolver=resolver, ssl_context=trusting
        ) as sender,
        WebhookSender(allow_networks=LOCAL, timeout_seconds=PATIENCE, resolver=resolver) as doubting,
    ):
        refused = await sent(doubting, f"https://good.test:{server.port}/")
        assert refused.error == "The certificate of good.test cannot be verified."
        assert (await sent(sender, f"https://good.test:{server.port}/")).text == "hello"
        refused = await sent(sender, f"https://evil.test:{server.port}/")
        assert refused.error == "The certificate of evil.test cannot be verified."
        plain = await sent(sender, f"http://good.test:{server.port}/")
        assert plain.status is None
        assert (wanted, len(server.requests)) == (["good.test", "good.test", "evil.test"], 1)
