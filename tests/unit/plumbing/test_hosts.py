"""The hosts that a DSN names are read as PostgreSQL's own clients read them."""

from __future__ import annotations

import pytest

from callsheet.plumbing.database.servers.hosts import CONNECT_SECONDS, Host, RefusedDsn, read_servers

HOSTS = {
    "postgresql://user:password@db/name": ["db:5432"],
    "postgresql://user@db1,db2:5433/name": ["db1:5432", "db2:5433"],
    "postgresql://user@10.0.0.1:1,[::1]:2,[fe80::1]/name": ["10.0.0.1:1", "[::1]:2", "[fe80::1]:5432"],
    "postgresql://user@/name?host=db1,db2:7&port=5,6": ["db1:5", "db2:7"],
    "postgresql://user@/name?host=db1,db2&port=5": ["db1:5", "db2:5"],
    "postgresql:///name?host=/run/postgresql": ["/run/postgresql:5432"],
    "postgresql://user@%2Frun%2Fpostgresql:5433/name": ["/run/postgresql:5433"],
    # A host before the path wins.
    "postgresql://user@db/name?host=other&port=7": ["db:5432"],
    "postgresql://user@/name": ["the default host"],
    "postgres:///": ["the default host"],
}


@pytest.mark.parametrize("dsn", HOSTS)
def test_each_host_of_a_dsn_is_read_with_its_port(dsn: str) -> None:
    assert [str(host) for host in read_servers(dsn).hosts] == HOSTS[dsn]


def test_the_rest_of_the_dsn_is_kept_for_the_driver() -> None:
    servers = read_servers(
        "postgresql://me:p%40ss@db1,db2/name?sslmode=verify-full&connect_timeout=2.5&port=7&host=x&"
        "application_name=a%20b&target_session_attrs=read-write"
    )
    assert servers.dsn == "postgresql://me:p%40ss@db1,db2/name?sslmode=verify-full&application_name=a%20b"
    assert servers.connect_seconds == 2.5
    assert read_servers("postgresql:///name?host=db").dsn == "postgresql:///name"
    assert read_servers("postgresql://db/name").connect_seconds == CONNECT_SECONDS


@pytest.mark.parametrize("attribute", ["any", "primary", "standby", "prefer-standby", "read-only"])
def test_a_dsn_that_asks_for_another_server_than_the_writable_one_is_refused(attribute: str) -> None:
    with pytest.raises(RefusedDsn, match=rf"cannot be '{attribute}'. Leave it out"):
        read_servers(f"postgresql://db1,db2/name?target_session_attrs={attribute}")


@pytest.mark.parametrize(
    ("dsn", "sentence"),
    [
        ("postgresql://db1,,db2/name", "a comma without a host"),
        ("postgresql:///name?host=db1,db2,db3&port=1,2", "another number of ports than of hosts"),
        ("postgresql://db1,db2:abc/name", "port in it is not a number"),
        ("postgresql://db/name?connect_timeout=soon", "connect_timeout must be a number"),
        ("postgresql://db/name?connect_timeout=0", "connect_timeout must be a number"),
        ("postgresql://db/name?connect_timeout=nan", "connect_timeout must be a number"),
    ],
)
def test_a_dsn_with_an_error_is_refused_with_a_sentence(dsn: str, sentence: str) -> None:
    with pytest.raises(RefusedDsn, match=sentence):
        read_servers(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:pa@ss@db/name",
        "postgresql://user:pa/ss@db/name",
        "postgresql://user:12/3@db/name",
        "postgresql://user:12?3@db/name",
        "postgresql://user:12#3@db/name",
        "postgresql://user:p@12?3@db/name",
    ],
)
def test_no_part_of_a_password_is_taken_for_a_host(dsn: str) -> None:
    with pytest.raises(ValueError, match="unescaped character"):
        read_servers(dsn)


def test_an_at_sign_in_an_option_is_allowed() -> None:
    assert read_servers("postgresql://db/name?user=me@tenant").hosts == (Host("db"),)
