"""Which of the hosts of a DSN gets the connection: the server that accepts writes, whatever the others do."""

from __future__ import annotations

import asyncio
import datetime
import io
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.servers import connecting
from callsheet.plumbing.database.servers.connecting import NoPrimary, NotThePrimary, ServerState, connect
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import load_settings
from tests.support.database.replication import Pair, PairFiles, Server, dsn_of, silent_host, unreachable_host
from tests.support.run.ports import free_port

# Longer than any test: waiting for a host that never responds would be noticed.
LONG = "&connect_timeout=500"


@pytest.fixture(scope="module")
async def steady(_pair_files: PairFiles) -> AsyncIterator[Pair]:
    """A pair for tests that change nothing on its servers."""
    async with _pair_files.copied() as pair:
        yield pair


async def port_of(dsn: str) -> int:
    connection = await connect(dsn)
    try:
        return int(await connection.fetchval("SHOW port"))
    finally:
        await connection.close()


@pytest.mark.parametrize("order", ["primary first", "standby first"])
async def test_the_primary_is_found_at_every_place_of_the_list(steady: Pair, order: str) -> None:
    hosts = (steady.primary, steady.standby) if order == "primary first" else (steady.standby, steady.primary)
    assert await port_of(dsn_of("central", *hosts)) == steady.primary.port
    names = ",".join("127.0.0.1" for _ in hosts)
    ports = ",".join(str(host.port) for host in hosts)
    assert await port_of(f"postgresql://callsheet@/central?host={names}&port={ports}") == steady.primary.port


async def test_hosts_that_never_respond_are_not_waited_for(steady: Pair) -> None:
    async with silent_host() as silent, asyncio.timeout(60):
        with unreachable_host() as unreachable:
            assert await port_of(dsn_of("central", silent, unreachable, steady.primary) + LONG) == steady.primary.port
            assert await port_of(dsn_of("central", steady.primary, silent, unreachable) + LONG) == steady.primary.port


async def test_each_host_has_its_own_time_and_the_error_names_what_each_one_responded(pair: Pair) -> None:
    await pair.primary.set("default_transaction_read_only", "'on'")
    async with silent_host() as silent:
        hosts = (silent, pair.primary, pair.standby, "no-such-host.invalid:7", "127.0.0.1:1")
        with pytest.raises(DatabaseError) as refused:
            async with connected(dsn_of("central", *hosts) + "&connect_timeout=0.5", "central"):
                pass
    assert (
        f"cannot be used: {silent} gave no response in 0.5 s; {pair.primary.host} is read-only; {pair.standby.host} is "
        "a standby; the name of no-such-host.invalid:7 cannot be resolved; 127.0.0.1:1 refused the connection."
    ) in str(refused.value)


async def test_a_standby_alone_is_refused_and_an_error_of_one_host_gives_the_advice(steady: Pair) -> None:
    with pytest.raises(NotThePrimary, match="is a standby"):
        await connect(steady.standby.dsn("central"))
    with pytest.raises(DatabaseError, match="Create the database, or name another one"):
        async with connected(dsn_of("missing", steady.standby, steady.primary), "central"):
            pass
    with pytest.raises(DatabaseError, match=r"is refused\. Callsheet writes, so target_session_attrs cannot be 'any'"):
        async with connected(steady.dsn("central") + "&target_session_attrs=any", "central"):
            pass


async def test_each_dsn_without_a_primary_has_one_sentence_that_says_what_to_do(
    steady: Pair, postgres: EmbeddedPostgres
) -> None:
    standby, primary = steady.standby.host, steady.primary.host
    assert await sentence_of(steady.standby.dsn("central")) == (
        f"Database central at {standby}/central cannot be used: {standby} is a standby. Name the primary in the DSN, "
        "or all servers: postgresql://user:password@db1,db2/name"
    )
    other = f"localhost:{steady.standby.port}"
    assert await sentence_of(dsn_of("central", steady.standby, other)) == (
        f"Database central at {standby},{other}/central cannot be used: {standby} is a standby; {other} is a standby. "
        "The DSN names no primary: add it to the hosts, or promote one of them."
    )
    # One of them may be the primary, and does not respond.
    assert (await sentence_of(dsn_of("central", steady.standby, "127.0.0.1:1"))).endswith(
        "Check that PostgreSQL is running there, and that the URL is right."
    )
    dsn = postgres.dsn("postgres").replace("@127.0.0.1:", f"@{primary},127.0.0.1:")
    assert (await sentence_of(dsn)).endswith(
        "may: stop the others. Compare their newest jobs before you stop one: jobs that only one of them has are lost "
        "with it."
    )


async def test_a_server_or_proxy_that_ends_the_connection_at_once_has_a_sentence(
    steady: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(connection: Connection) -> ServerState:
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

    monkeypatch.setattr(connecting, "look", ended)
    address = f"{steady.primary.host}/central"
    assert await sentence_of(steady.primary.dsn("central")) == (
        f"Database central at {address} cannot be used: {steady.primary.host} ended the connection at once. Check that "
        "PostgreSQL is running there, and that the URL is right."
    )


async def sentence_of(dsn: str) -> str:
    with pytest.raises(DatabaseError) as refused:
        async with connected(dsn, "central"):
            pass
    return str(refused.value)


async def test_doctor_finds_two_primaries_of_which_one_is_used(pair: Pair, tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, database={"dsn": pair.dsn("central")}, log={"level": "error"})

    async def problems() -> list[str]:
        found = [each for each in await examine(settings) if each.part == "database" and each.status == "problem"]
        return [f"{each.message} {each.advice}" for each in found]

    assert await problems() == []
    await pair.standby.promote()
    one, two = pair.primary.host, pair.standby.host
    assert await problems() == [
        f"Database central has 2 primaries: {one} and {two} accept writes. {two} was promoted last (timeline 2), and "
        f"Callsheet uses it. Stop {one}, and make it a standby of {two} before it starts again."
    ]


async def test_no_connection_is_left_at_a_server_that_was_not_chosen(pair: Pair) -> None:
    await pair.standby.promote()
    assert await port_of(pair.dsn("central")) == pair.standby.port
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'central'"
    while await pair.primary.value(count) or await pair.standby.value(count):
        await asyncio.sleep(0.01)


async def test_of_two_primaries_the_one_that_was_promoted_last_is_used_and_the_other_one_never_again(
    pair: Pair, logged: io.StringIO
) -> None:
    assert await port_of(pair.dsn("central")) == pair.primary.port
    await pair.standby.promote()
    for _ in range(3):
        assert await port_of(pair.dsn("central")) == pair.standby.port
    assert logged.getvalue().count("database.two_primaries") == 1
    assert pair.primary.host in logged.getvalue()
    await pair.standby.stop()
    with pytest.raises(NoPrimary, match=f"{pair.primary.host} accepts writes, but another server was promoted after"):
        await connect(pair.dsn("central"))


async def test_two_servers_that_are_not_copies_of_one_another_are_refused(
    steady: Pair, postgres: EmbeddedPostgres
) -> None:
    # With the password of one server, for which the other one does not ask.
    dsn = postgres.dsn("postgres").replace("@127.0.0.1:", f"@{steady.primary.host},127.0.0.1:")
    with pytest.raises(
        NoPrimary, match=f"{steady.primary.host} accepts writes, and only one of .* may: stop the others"
    ):
        await connect(dsn)


async def test_a_host_name_is_resolved_anew_at_each_attempt(steady: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    moving = f"postgresql://callsheet@db.example.test:{steady.primary.port}/central?sslmode=disable"
    resolve = socket.getaddrinfo
    places = ["127.0.0.1"]

    def lookup(host: object, *others: object, **more: object) -> object:
        return resolve(places[-1] if host == "db.example.test" else host, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert await port_of(moving) == steady.primary.port
    places.append("127.0.0.9")
    with pytest.raises(ConnectionRefusedError):
        await connect(moving)
    places.append("127.0.0.1")
    assert await port_of(moving) == steady.primary.port


async def test_the_kernel_checks_connections_that_are_silent(steady: Pair) -> None:
    connection = await connect(steady.dsn("central"))
    transport_socket = connection._transport.get_extra_info("socket")
    assert transport_socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert transport_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
    await connection.close()


async def test_a_certificate_is_checked_for_the_name_of_each_host(steady: Pair, tmp_path: Path) -> None:
    file = certificate_for("localhost", tmp_path)
    options = f"sslmode=verify-full&sslrootcert={file}"
    async with with_tls(steady.primary, file) as port, with_tls(steady.standby, file) as other:
        hosts = f"localhost:{other},localhost:{port}"
        assert await port_of(f"postgresql://callsheet@{hosts}/central?{options}") == steady.primary.port
        hosts = f"localhost:{other},127.0.0.1:{port}"
        with pytest.raises(NoPrimary, match=r"is a standby; .*certificate.*127\.0\.0\.1"):
            await connect(f"postgresql://callsheet@{hosts}/central?{options}")


@asynccontextmanager
async def with_tls(server: Server, file: Path) -> AsyncIterator[int]:
    """A port that encrypts the connections to a server, because the embedded PostgreSQL cannot."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readexactly(8)
            writer.write(b"S")
            await writer.start_tls(context)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", server.port)
            await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))
        writer.close()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    port = free_port()
    listening = await asyncio.start_server(carry, "127.0.0.1", port)
    try:
        yield port
    finally:
        listening.close()


def certificate_for(name: str, folder: Path) -> Path:
    """A file with a key and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "tls.pem"
    file.write_bytes(private + certificate.public_bytes(pem))
    return file


async def test_settings_that_a_pooler_refuses_are_not_in_the_startup_message(steady: Pair) -> None:
    with pytest.raises(TypeError, match="use session="):
        await connect(steady.dsn("central"), server_settings={"timezone": "UTC", "lock_timeout": "2000"})
    connection = await connect(steady.dsn("central"), session={"lock_timeout": "2000"})
    try:
        assert await connection.fetchval("SHOW lock_timeout") == "2s"
    finally:
        await connection.close()
