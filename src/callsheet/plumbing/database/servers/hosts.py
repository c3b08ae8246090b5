"""The hosts that a DSN names, as libpq reads them. Pure.

`postgresql://user@db1,db2:5433/name` and `postgresql://user@/name?host=db1,db2&port=5432,5433` name two servers, of
which one is the primary. `connect_timeout` is in seconds and for each host.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

DEFAULT_PORT = 5432
CONNECT_SECONDS = 4.0
READ_WRITE = "read-write"


class RefusedDsn(ValueError):
    """The DSN says something that cannot be. The message contains no part of it that may be secret."""


@dataclass(frozen=True, slots=True)
class Host:
    # A name, an IP address, or the directory of a Unix socket. None: the defaults of PostgreSQL's clients.
    name: str | None
    port: int | None = None

    def __str__(self) -> str:
        if self.name is None:
            return "the default host"
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port or DEFAULT_PORT}"


@dataclass(frozen=True, slots=True)
class ServerList:
    """The servers that a DSN names, and the rest of it, which the driver reads."""

    dsn: str
    hosts: tuple[Host, ...]
    connect_seconds: float = CONNECT_SECONDS


def read_servers(dsn: str) -> ServerList:
    """Raises RefusedDsn, or another ValueError if it cannot be read."""
    parts = urlsplit(dsn)
    ours: dict[str, str] = {}
    others: list[str] = []
    for option in filter(None, parts.query.split("&")):
        name, _, value = option.partition("=")
        if name in ("host", "port", "connect_timeout", "target_session_attrs"):
            ours[name] = unquote(value)
        else:
            others.append(option)
    attribute = ours.get("target_session_attrs", READ_WRITE)
    if attribute != READ_WRITE:
        raise RefusedDsn(
            f"Callsheet writes, so target_session_attrs cannot be {attribute!r}. Leave it out: Callsheet always looks "
            "for the server that accepts writes."
        )
    # The driver takes what follows the first @, and a host before the path rather than one in the query.
    authority = parts.netloc.partition("@")[2] if "@" in parts.netloc else parts.netloc
    if "@" in authority + parts.path + parts.fragment + ("" if parts.path else parts.query):
        # The apparent host is a part of a password with an unescaped character, and errors name hosts.
        raise ValueError("an unescaped character in the user or the password")
    hosts = _hosts(authority, "") or _hosts(ours.get("host", ""), ours.get("port", "")) or (Host(None),)
    # urlunsplit is not used: it drops the // of a DSN whose host is in the query.
    query = f"?{'&'.join(others)}" if others else ""
    return ServerList(f"{parts.scheme}://{parts.netloc}{parts.path}{query}", hosts, _seconds(ours))


def _hosts(hosts: str, ports: str) -> tuple[Host, ...]:
    names = hosts.split(",") if hosts else []
    numbers = ports.split(",") if ports else [""]
    if len(numbers) == 1:
        numbers *= len(names)
    if len(numbers) != len(names):
        raise RefusedDsn("It names another number of ports than of hosts. Name one port for each host, or one for all.")
    return tuple(_host(name, port) for name, port in zip(names, numbers, strict=True))


def _host(text: str, port: str) -> Host:
    if text.startswith("["):
        name, _, rest = text.removeprefix("[").partition("]")
        own = rest.removeprefix(":")
    elif text.startswith("/"):
        name, own = text, ""
    else:
        name, _, own = text.partition(":")
    if not name:
        raise RefusedDsn("It has a comma without a host beside it. Write hosts like db1.example.com,db2.example.com.")
    return Host(unquote(name), _number(unquote(own) or port))


def _number(text: str) -> int | None:
    if text and not text.isdigit():
        raise RefusedDsn("A port in it is not a number.")
    return int(text) if text else None


def _seconds(options: dict[str, str]) -> float:
    try:
        seconds = float(options.get("connect_timeout", CONNECT_SECONDS))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 600:
        raise RefusedDsn("connect_timeout must be a number of seconds above 0 and below 600.")
    return seconds
