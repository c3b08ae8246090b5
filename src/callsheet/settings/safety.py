"""Combinations of settings that are unsafe: settings in, warnings out. Pure; `callsheet doctor` prints them.

What is always wrong is refused when the settings are read. What stands here may be right on a laptop or inside a closed
network, so it is said and not refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import parse_qs, urlsplit

from callsheet.settings.tree import Settings
from callsheet.toolbox.addresses import Network, is_loopback, is_loopback_url

HTTPS = "Put a proxy with TLS in front of the control plane and set CALLSHEET_SERVER__PUBLIC_URL=https://…"
# What a control plane must not be led to by an address that a user sends: itself, and the cloud's keys.
OWN_NETWORKS: tuple[Network, ...] = (
    IPv4Network("127.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv6Network("::1/128"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),
)
# A network shorter than this is a large part of the internet.
WIDE_PREFIX = {4: 8, 6: 16}
SHORT_SECRET = 32
MOST_GUESSES_PER_DAY = 100_000
DAY_SECONDS, LONGEST_SESSION_HOURS = 86_400, 90 * 24


@dataclass(frozen=True, slots=True)
class Unsafe:
    """`code` names the rule, for tests and for docs/security.md."""

    code: str
    message: str
    advice: str


def unsafe_settings(settings: Settings) -> list[Unsafe]:
    """Of a control plane."""
    rules = (_transport, _addresses, _browsers, _fleet, _logins, _outgoing, _parts, _results, _keys, _for_tests)
    return [found for rule in rules for found in rule(settings)]


def unsafe_worker_settings(settings: Settings) -> list[Unsafe]:
    """Of a machine that only runs a worker."""
    return [*_worker(settings), *_engine(settings), *_for_tests(settings)]


def _transport(settings: Settings) -> Iterator[Unsafe]:
    """What can be read or changed on the way."""
    if settings.serves_other_machines and not settings.public_url.startswith("https://"):
        yield Unsafe(
            "plain_http",
            f"Other machines reach this control plane without TLS ({settings.public_url}, listening on "
            f"{settings.server.host}). Passwords, API keys and worker tokens can be read on the way.",
            HTTPS,
        )
    dsn = settings.database.dsn
    if dsn is not None and _is_plain_database(dsn.get_secret_value()):
        yield Unsafe(
            "plain_database",
            "The connection to PostgreSQL leaves this machine and need not be encrypted.",
            "Add ?sslmode=verify-full, or at least sslmode=require, to CALLSHEET_DATABASE__DSN.",
        )
    s3 = settings.storage.s3
    for name, url in (("ENDPOINT_URL", s3.endpoint_url), ("PUBLIC_ENDPOINT_URL", s3.public_endpoint_url)):
        if settings.storage.backend == "s3" and _is_plain(url):
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
        if has_key and _is_plain(url):
            yield Unsafe(
                "plain_provider",
                f"The key of the provider {name} is sent to {url} without TLS.",
                f"Use the https URL of the service in providers.{name}.",
            )


def _addresses(settings: Settings) -> Iterator[Unsafe]:
    """Who a caller is taken for, and how much one caller may take."""
    server = settings.server
    if is_loopback(server.host) and not is_loopback_url(settings.public_url) and not server.trusted_proxies:
        yield Unsafe(
            "no_trusted_proxy",
            f"{settings.public_url} is served by a proxy, and no proxy is trusted. All people have the proxy's address"
            ", and the limits on failed logins count them as one.",
            "Name the proxy's network: CALLSHEET_SERVER__TRUSTED_PROXIES=127.0.0.1/32",
        )
    wide = [str(network) for network in server.trusted_proxies if _is_wide(network)]
    if wide:
        yield Unsafe(
            "wide_trusted_proxies",
            f"X-Forwarded-For is believed from {', '.join(wide)}: nearly every caller can choose its own address, and "
            "limits per address do not hold.",
            "Name only the networks of your proxies in CALLSHEET_SERVER__TRUSTED_PROXIES.",
        )
    if settings.serves_other_machines and server.connections_per_address >= server.max_connections:
        yield Unsafe(
            "one_address_may_have_all_connections",
            f"One address may have {server.connections_per_address} connections, and all addresses together "
            f"{server.max_connections}.",
            "Set CALLSHEET_SERVER__CONNECTIONS_PER_ADDRESS well below CALLSHEET_SERVER__MAX_CONNECTIONS.",
        )
    if settings.serves_other_machines and server.metrics_token is None:
        yield Unsafe(
            "open_metrics",
            "Everyone who reaches this control plane can read /metrics: workflows, providers and how busy they are.",
            "Set CALLSHEET_SERVER__METRICS_TOKEN.",
        )


def _browsers(settings: Settings) -> Iterator[Unsafe]:
    server = settings.server
    if settings.public_url.startswith("https://") and not settings.cookie_secure:
        yield Unsafe(
            "cookie_without_https",
            "identity.cookie_secure is false: browsers send the session cookie over plain HTTP, too.",
            "Leave CALLSHEET_IDENTITY__COOKIE_SECURE out.",
        )
    if "*" in server.cors_origins:
        yield Unsafe(
            "every_origin",
            "Pages of every site may call the API from a browser (server.cors_origins is *).",
            "Name the origins of your own pages in CALLSHEET_SERVER__CORS_ORIGINS.",
        )
    plain = [origin for origin in server.cors_origins if _is_plain(origin)]
    if plain and server.cors_credentials:
        yield Unsafe(
            "plain_origin_with_sessions",
            f"Pages of {', '.join(plain)} may use browser sessions, and can be changed on the way to the browser.",
            "Serve those pages over https and name the https origin in CALLSHEET_SERVER__CORS_ORIGINS.",
        )


def _fleet(settings: Settings) -> Iterator[Unsafe]:
    fleet = settings.fleet
    if fleet.secret is not None and settings.serves_other_machines:
        if fleet.auto_approve:
            yield Unsafe(
                "shared_secret_without_approval",
                "A worker with the shared fleet secret gets jobs of every workflow and stage at once, and the files of "
                "their users.",
                "Use registration tokens (callsheet fleets tokens create FLEET) and remove CALLSHEET_FLEET__SECRET, or "
                "set CALLSHEET_FLEET__AUTO_APPROVE=false.",
            )
        else:
            yield Unsafe(
                "shared_secret",
                "One shared secret opens every fleet, stage and workflow to workers.",
                "Use registration tokens (callsheet fleets tokens create FLEET) and remove CALLSHEET_FLEET__SECRET.",
            )
    if fleet.secret is not None and len(fleet.secret.get_secret_value()) < SHORT_SECRET:
        yield Unsafe(
            "short_shared_secret",
            f"The shared fleet secret has fewer than {SHORT_SECRET} characters.",
            "Set CALLSHEET_FLEET__SECRET to a random one: openssl rand -hex 32",
        )
    if fleet.validate_asg_instance and fleet.asg_fail_open and fleet.secret is not None and fleet.auto_approve:
        yield Unsafe(
            "instances_unchecked_while_aws_is_away",
            "While AWS cannot be asked, every made-up instance id with the shared secret gets jobs at once.",
            "Set CALLSHEET_FLEET__ASG_FAIL_OPEN=false, or use registration tokens.",
        )
    if fleet.validate_asg_instance and _is_plain(fleet.asg_endpoint_url):
        yield Unsafe(
            "plain_asg_endpoint",
            f"Whether an instance is yours is asked of {fleet.asg_endpoint_url} without TLS: the answer can be forged.",
            "Set CALLSHEET_FLEET__ASG_ENDPOINT_URL to an https URL, or leave it out.",
        )


def _logins(settings: Settings) -> Iterator[Unsafe]:
    identity = settings.identity
    per_day = identity.login_attempts_per_account * DAY_SECONDS // identity.login_window_seconds
    if per_day > MOST_GUESSES_PER_DAY:
        yield Unsafe(
            "many_password_guesses",
            f"{per_day:,} passwords of one account can be tried per day.",
            "Lower CALLSHEET_IDENTITY__LOGIN_ATTEMPTS_PER_ACCOUNT or raise CALLSHEET_IDENTITY__LOGIN_WINDOW_SECONDS.",
        )
    if identity.session_hours > LONGEST_SESSION_HOURS:
        yield Unsafe(
            "long_sessions",
            f"A stolen session cookie is good for {identity.session_hours // 24} days.",
            "Lower CALLSHEET_IDENTITY__SESSION_HOURS; 336 is the default.",
        )
    if settings.storage.url_seconds > DAY_SECONDS:
        yield Unsafe(
            "long_signed_urls",
            f"A signed URL that leaks gives access to its file for {settings.storage.url_seconds // 3600} hours.",
            "Lower CALLSHEET_STORAGE__URL_SECONDS; 900 is the default, and workers get new URLs with their heartbeats.",
        )


def _outgoing(settings: Settings) -> Iterator[Unsafe]:
    allowed = settings.outgoing.allow_networks
    own = [
        str(network)
        for network in allowed
        if _is_wide(network) or any(_overlap(network, each) for each in OWN_NETWORKS)
    ]
    if own:
        yield Unsafe(
            "own_network_allowed",
            f"URLs that users send may lead to {', '.join(own)}: to services of this machine, or to the keys that a "
            "cloud gives it.",
            "Name only the networks of the services that are meant in CALLSHEET_OUTGOING__ALLOW_NETWORKS.",
        )


def _parts(settings: Settings) -> Iterator[Unsafe]:
    lightbox = settings.lightbox
    if not is_loopback(lightbox.host):
        default_key = lightbox.as_cloud and lightbox.cloud_api_key.get_secret_value() == "lightbox"
        if default_key or not lightbox.as_cloud:
            yield Unsafe(
                "open_lightbox",
                f"Lightbox listens on {lightbox.host} and asks "
                + ("for the default key." if default_key else "for no login."),
                "Set CALLSHEET_LIGHTBOX__HOST=127.0.0.1.",
            )
    if settings.providers.lightbox.url is not None and settings.providers.lightbox.allow_graphs:
        yield Unsafe(
            "graphs_of_users",
            "Users may send graphs of their own, which can use every node of the engine, also nodes that read and "
            "write files.",
            "Set CALLSHEET_PROVIDERS__LIGHTBOX__ALLOW_GRAPHS=false and offer effects instead.",
        )
    yield from _engine(settings)


def _results(settings: Settings) -> Iterator[Unsafe]:
    if settings.fleet.output_validation == "warn":
        yield Unsafe(
            "results_unchecked",
            "A job is completed and charged although its result is missing or not what was declared.",
            "Leave CALLSHEET_FLEET__OUTPUT_VALIDATION out when all worker programs deliver correctly.",
        )


def _keys(settings: Settings) -> Iterator[Unsafe]:
    if settings.secret_key is not None and len(set(settings.secret_key.get_secret_value())) < 12:
        yield Unsafe(
            "weak_secret_key",
            "The secret key has few different characters. Sessions and signed URLs are made with it.",
            "Rotate it to a random one: callsheet secrets rotate",
        )
    if settings.second_secret_key is not None:
        yield Unsafe(
            "second_key_accepted",
            "A second secret key is accepted, too: URLs that are signed with it are valid.",
            "End the rotation when it is time: callsheet secrets finish",
        )


def _engine(settings: Settings) -> Iterator[Unsafe]:
    if _is_plain(settings.engine.url):
        yield Unsafe(
            "engine_on_another_machine",
            f"ComfyUI is reached at {settings.engine.url}: it has no login, and files of users travel without TLS.",
            "Run the worker on the machine of ComfyUI and set CALLSHEET_ENGINE__URL=http://127.0.0.1:8188.",
        )


def _worker(settings: Settings) -> Iterator[Unsafe]:
    url = settings.worker.api_url or settings.public_url
    if _is_plain(url):
        yield Unsafe(
            "plain_control_plane",
            f"The worker's token and its jobs travel to {url} without TLS.",
            "Set API_BASE_URL to the https URL of the control plane.",
        )
    if settings.worker.cloud_api_key is not None and _is_plain(settings.worker.cloud_url):
        yield Unsafe(
            "plain_provider",
            f"The key of Comfy Cloud is sent to {settings.worker.cloud_url} without TLS.",
            "Leave CALLSHEET_WORKER__CLOUD_URL out.",
        )


def _for_tests(settings: Settings) -> Iterator[Unsafe]:
    if settings.failpoints:
        yield Unsafe(
            "failpoints", "Failpoints are set: the process ends where they say.", "Unset CALLSHEET_FAILPOINTS."
        )
    if settings.lightbox.probes:
        yield Unsafe(
            "lightbox_probes",
            "Lightbox offers nodes that block and fail on purpose.",
            "Leave CALLSHEET_LIGHTBOX__PROBES out.",
        )


def _is_plain(url: str | None) -> bool:
    """Whether what is sent there can be read on the way."""
    return url is not None and url.startswith("http://") and not is_loopback_url(url)


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


def _is_wide(network: Network) -> bool:
    return network.prefixlen < WIDE_PREFIX[network.version]


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)
