"""How slowly a body may come, who may send a large one, what it may hold, and who has too many connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message

from callsheet.plumbing.http.client_address import client_address, neighbourhood
from callsheet.plumbing.http.connections import (
    ConnectionLimit,
    Peer,
    RequestsInProgress,
    open_connections,
    surplus,
)
from callsheet.plumbing.http.edge import Edge
from callsheet.plumbing.http.request_body import BodyRules, Pace, RequestBody
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import ServerSettings
from callsheet.toolbox.clock import SystemClock
from callsheet.wire.errors import BodyTooSlow, MalformedRequest, NotAuthenticated, TooManyConnections

RULES = BodyRules(30.0, 1024, max_bytes=1_000_000, stranger_bytes=100, seconds=120.0, max_values=1000)
# No patience at all: whatever has to be waited for is too slow.
IMPATIENT = BodyRules(0.0, 1024)


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


class Sender:
    """A client's connection: gives what it has, then waits for ever."""

    def __init__(self, messages: Iterable[Message]):
        self._messages = list(messages)
        self.taken = 0

    async def receive(self) -> Message:
        if self.taken == len(self._messages):
            await asyncio.Event().wait()
        self.taken += 1
        return self._messages[self.taken - 1]


async def known() -> None:
    """Accepts every caller."""


async def unknown() -> None:
    raise NotAuthenticated()


class TestPace:
    def test_a_steady_body_at_the_least_speed_is_never_too_slow(self) -> None:
        pace = Pace(30.0, 1024)
        for _ in range(100_000):
            pace.record(1024, 1.0)
            assert pace.seconds_left > 0

    def test_a_silent_body_is_tolerated_only_for_the_grace_time(self) -> None:
        pace = Pace(30.0, 1024)
        pace.record(10, 29.0)
        assert pace.seconds_left == pytest.approx(1.0)
        pace.record(10, 5.0)
        assert pace.seconds_left == 0

    def test_a_body_that_was_fast_cannot_be_silent_for_ever_afterwards(self) -> None:
        pace = Pace(30.0, 1024)
        pace.record(1_000_000_000, 1.0)
        assert pace.seconds_left == pytest.approx(30.0)


class TestRequestBody:
    async def test_a_body_that_does_not_arrive_is_given_up(self) -> None:
        sender = Sender([piece(b"{", more=True)])
        body = RequestBody(sender.receive, IMPATIENT, None)
        await body.receive()
        with pytest.raises(BodyTooSlow):
            await body.receive()
        await body.discard()
        assert (sender.taken, body.is_abandoned) == (1, True)

    async def test_a_body_has_a_deadline_however_fast_it_is(self) -> None:
        sender = Sender([piece(b"{", more=True)])
        body = RequestBody(sender.receive, BodyRules(30.0, 1, seconds=0.0), None)
        await body.receive()
        with pytest.raises(BodyTooSlow, match="within 0 seconds"):
            await body.receive()

    async def test_a_request_may_wait_without_limit_after_its_body(self) -> None:
        """A long poll, or a stream, waits for its client to leave."""
        gone = asyncio.Event()
        messages = iter([piece(b"{}")])

        async def receive() -> Message:
            message = next(messages, None)
            if message is None:
                await gone.wait()
            return message or {"type": "http.disconnect"}

        body = RequestBody(receive, IMPATIENT, None)
        await body.receive()
        waiting = asyncio.create_task(body.receive())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        gone.set()
        assert (await waiting)["type"] == "http.disconnect"

    async def test_a_large_body_is_not_read_without_valid_credentials(self) -> None:
        sender = Sender([piece(b"x" * 101)])
        with pytest.raises(NotAuthenticated):
            await RequestBody(sender.receive, RULES, unknown, declared=101).receive()
        assert sender.taken == 0

    async def test_without_valid_credentials_a_body_without_a_length_is_read_up_to_the_small_limit(self) -> None:
        sender = Sender([piece(b"x" * 100, more=True), piece(b"x", more=True), piece(b"x")])
        body = RequestBody(sender.receive, RULES, unknown)
        await body.receive()
        with pytest.raises(NotAuthenticated):
            await body.receive()
        assert sender.taken == 2

    async def test_the_caller_of_a_large_body_is_authenticated_once(self) -> None:
        reads = 0

        async def check_caller() -> None:
            nonlocal reads
            reads += 1

        sender = Sender([piece(b"x" * 150, more=True), piece(b"x" * 150)])
        body = RequestBody(sender.receive, RULES, check_caller, declared=300)
        await body.receive()
        await body.receive()
        assert reads == 1

    @pytest.mark.parametrize(
        "document",
        [
            json.dumps([1] * 1001),
            json.dumps([[]] * 600),
            json.dumps({str(number): 1 for number in range(1001)}),
            json.dumps({"text": 'a "quoted", word', "list": [1] * 1001}),
        ],
        ids=["numbers", "lists", "fields", "beside a text"],
    )
    async def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(self, document: str) -> None:
        body = RequestBody(Sender([piece(document.encode())]).receive, RULES, known)
        with pytest.raises(MalformedRequest, match="more than 1000 values"):
            await body.receive()

    @pytest.mark.parametrize(
        "document",
        [
            json.dumps([1] * 900),
            json.dumps({"text": ",[{" * 5000}),
            json.dumps({"text": '\\",[{' * 5000}),
            json.dumps("x" * 900_000),
        ],
        ids=["fewer", "signs in a text", "quotes in a text", "one long text"],
    )
    async def test_texts_may_have_any_number_of_commas(self, document: str) -> None:
        halves = document.encode()[:700], document.encode()[700:]
        body = RequestBody(Sender([piece(halves[0], more=True), piece(halves[1])]).receive, RULES, known)
        assert (await body.receive())["more_body"] is True
        assert (await body.receive())["more_body"] is False


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7", "198.51.100.1:4711"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["[2001:db8::1]:80"], "2001:db8::1"),
        ("10.0.0.1", [], "10.0.0.1"),
    ],
)
def test_an_ip_address_is_taken_from_headers_of_trusted_proxies_only(
    peer: str, forwarded: list[str], expected: str
) -> None:
    assert client_address(peer, forwarded, (ip_network("10.0.0.0/8"),)) == expected


def test_ip_addresses_of_one_subscriber_count_as_one() -> None:
    assert neighbourhood("2001:db8:1:2:3::4") == neighbourhood("2001:db8:1:2:ffff::1") != neighbourhood("2001:db8::1")


@contextmanager
def requesting(counts: RequestsInProgress, address: str, forwarded_for: Sequence[str] = ()) -> Iterator[None]:
    peer = Peer(address, 5000)
    client = counts.enter(peer, forwarded_for)
    try:
        yield
    finally:
        counts.leave(peer, client)


class TestRequestsInProgress:
    def test_one_ip_address_cannot_use_all_connections(self) -> None:
        counts = RequestsInProgress(ServerSettings(connections_per_address=2))
        with requesting(counts, "203.0.113.9", []), requesting(counts, "203.0.113.9", ["192.0.2.1"]):
            with pytest.raises(TooManyConnections), requesting(counts, "203.0.113.9", ["192.0.2.2"]):
                pass
            with requesting(counts, "203.0.113.10", []):
                pass
        with requesting(counts, "203.0.113.9", []):
            pass

    def test_requests_through_a_trusted_proxy_count_for_their_clients(self) -> None:
        settings = ServerSettings.model_validate({"connections_per_address": 1, "trusted_proxies": "10.0.0.0/8"})
        counts = RequestsInProgress(settings)
        with (
            requesting(counts, "10.0.0.1", ["192.0.2.1"]),
            requesting(counts, "10.0.0.1", ["192.0.2.2"]),
            requesting(counts, "10.0.0.1", []),
        ):
            with requesting(counts, "10.0.0.1", []):
                pass
            with pytest.raises(TooManyConnections), requesting(counts, "10.0.0.2", ["192.0.2.1"]):
                pass

    def test_programs_of_this_machine_have_no_limit(self) -> None:
        counts = RequestsInProgress(ServerSettings(connections_per_address=1))
        with (
            requesting(counts, "127.0.0.1", []),
            requesting(counts, "127.0.0.1", []),
            requesting(counts, "::1", []),
            requesting(counts, "::1", []),
        ):
            pass

    async def test_a_request_above_the_limit_is_refused_and_the_others_continue(self) -> None:
        proceed = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await proceed.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        settings = ServerSettings(connections_per_address=2)
        edge = Edge(app, settings, HttpMetrics(CollectorRegistry()))

        async def status_for(address: str) -> int:
            sent: list[Message] = []
            scope = {
                "type": "http",
                "method": "GET",
                "path": "/",
                "raw_path": b"/",
                "query_string": b"",
                "headers": [(b"host", b"localhost")],
                "client": (address, 5000),
            }

            async def send(message: Message) -> None:
                sent.append(message)

            await edge(scope, Sender([piece(b"")]).receive, send)
            return int(sent[0]["status"])

        first = [asyncio.create_task(status_for("203.0.113.9")) for _ in range(2)]
        await asyncio.sleep(0)
        assert await status_for("203.0.113.9") == 429
        other = asyncio.create_task(status_for("203.0.113.10"))
        await asyncio.sleep(0)
        proceed.set()
        assert await asyncio.gather(*first, other) == [200, 200, 200]


class TestConnections:
    def test_the_oldest_connections_without_a_request_are_closed(self) -> None:
        since = {Peer("203.0.113.9", port): port % 7 for port in range(5000, 5010)}
        busy = {Peer("203.0.113.9", 5002), Peer("203.0.113.9", 5003)}
        found = surplus(since, busy, 6)
        assert len(found) == 4
        assert not busy & set(found)
        kept = since.keys() - set(found) - busy
        assert max(since[peer] for peer in found) <= min(since[peer] for peer in kept)

    def test_each_ip_address_has_its_own_limit(self) -> None:
        since = {Peer(f"203.0.113.{number % 5}", 5000 + number): 0 for number in range(50)}
        assert surplus(since, set(), 10) == []
        assert len(surplus(since, set(), 9)) == 5

    def test_requests_in_progress_are_never_cut(self) -> None:
        since = {Peer("203.0.113.9", port): 0 for port in range(5000, 5010)}
        assert surplus(since, set(since), 2) == []

    async def test_connections_beyond_the_limit_are_closed_and_the_others_are_not(self) -> None:
        accepted: list[asyncio.StreamWriter] = []
        all_there = asyncio.Event()

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            if len(accepted) == 8:
                all_there.set()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        await all_there.wait()
        own = [Peer(*writer.get_extra_info("sockname")) for _, writer in clients]
        assert sorted(open_connections(port)) == sorted(own)
        busy = set(own[:2])
        now = SystemClock().now()
        settings = ServerSettings(port=port, connections_per_address=5)
        await ConnectionLimit(settings, busy).tick(now)
        assert sorted(open_connections(port)) == sorted(own)
        await ConnectionLimit(settings, busy, own_networks=()).tick(now)
        endings = [asyncio.create_task(reader.read(1)) for reader, _ in clients]
        ended, waiting = set[asyncio.Task[bytes]](), set(endings)
        while len(ended) < 3:
            closed, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            ended |= closed
        assert len(ended) == 3
        assert not ended & set(endings[:2])
        assert {task.result() for task in ended} == {b""}
        for task in waiting:
            task.cancel()
        for _, writer in clients:
            writer.close()
        for writer in accepted:
            writer.close()
        server.close()
        await server.wait_closed()
