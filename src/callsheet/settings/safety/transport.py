"""Rules about connections that can be read or changed on the way to another machine."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from callsheet.settings.safety.rule import Unsafe, is_plain
from callsheet.settings.tree import Settings
from callsheet.toolbox.http.addresses import is_loopback

HTTPS = "Put a proxy with TLS in front of the control plane and set CALLSHEET_SERVER__PUBLIC_URL=https://…"


def transport(settings: Settings) -> Iterator[Unsafe]:
    if settings.serves_other_machines and not settings.public_url.startswith("https://"):
        yield Unsafe(
            "plain_http",
            f"Other machines reach this control plane without TLS ({settings.public_url}, listening on "
            f"{settings.server.host}). Passwords, API keys and worker tokens can be read on the way.",
            HTTPS,
        )
    for name, dsn in (("DSN", settings.database.dsn), ("DIRECT_DSN", settings.database.direct_dsn)):
        if dsn is not None and _is_plain_database(dsn.get_secret_value()):
            yield Unsafe(
                "plain_database",
                "The connection to PostgreSQL leaves this machine and need not be encrypted.",
                f"Add ?sslmode=verify-full, or at least sslmode=require, to CALLSHEET_DATABASE__{name}.",
            )
    s3 = settings.storage.s3
    for name, url in (("ENDPOINT_URL", s3.endpoint_url), ("PUBLIC_ENDPOINT_URL", s3.public_endpoint_url)):
        if settings.storage.backend == "s3" and is_plain(url):
            yield Unsafe(
                "plain_storage",
                f"Files travel to and from {url} without TLS, and signed URLs with them.",
                f"Set CALLSHEET_STORAGE__S3__{name} to an https URL.",
            )
    mail = settings.mail
    if mail.host is not None and mail.tls == "none" and not is_loopback(mail.host):
        yield Unsafe(
            "plain_mail",
            f"Mails go to {mail.host} without TLS. They carry links that set passwords.",
            "Set CALLSHEET_MAIL__TLS to starttls or tls.",
        )
    yield from _plain_providers(settings)


def _plain_providers(settings: Settings) -> Iterator[Unsafe]:
    providers = settings.providers
    called: list[tuple[str, str, bool]] = [
        ("replicate", providers.replicate.url, providers.replicate.token is not None),
        ("copywriting", providers.copywriting.url, providers.copywriting.api_key is not None),
    ]
    called += [
        (f"http.{name}", each.base_url, each.secret is not None or bool(each.headers))
        for name, each in providers.http.items()
    ]
    for name, url, has_key in called:
        if has_key and is_plain(url):
            yield Unsafe(
                "plain_provider",
                f"The key of the provider {name} is sent to {url} without TLS.",
                f"Use the https URL of the service in providers.{name}.",
            )


def worker_transport(settings: Settings) -> Iterator[Unsafe]:
    url = settings.worker.api_url or settings.public_url
    if is_plain(url):
        yield Unsafe(
            "plain_control_plane",
            f"The worker's token and its jobs travel to {url} without TLS.",
            "Set API_BASE_URL to the https URL of the control plane.",
        )
    if settings.worker.cloud_api_key is not None and is_plain(settings.worker.cloud_url):
        yield Unsafe(
            "plain_provider",
            f"The key of Comfy Cloud is sent to {settings.worker.cloud_url} without TLS.",
            "Leave CALLSHEET_WORKER__CLOUD_URL out.",
        )


def _is_plain_database(dsn: str) -> bool:
    try:
        parts = urlsplit(dsn)
        host, query = parts.hostname, parse_qs(parts.query)
    except ValueError:
        # The attempt to connect says what is wrong with it, without its password.
        return False
    hosts = query.get("host", [host or ""])
    # A directory is a socket of this machine.
    leaves = any(each and not each.startswith("/") and not is_loopback(each) for each in hosts)
    return leaves and query.get("sslmode", ["prefer"])[-1] in ("disable", "allow", "prefer")
