"""Rules about callers: how they are identified, what one caller may use, and what a stolen credential allows."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.settings.safety.rule import Unsafe, is_plain, is_wide
from callsheet.settings.tree import Settings
from callsheet.toolbox.http.addresses import is_loopback, is_loopback_url
from callsheet.wire.plurals import choose, counted

MAX_GUESSES_PER_DAY = 100_000
DAY_SECONDS, MAX_SESSION_HOURS = 86_400, 90 * 24
MAX_BODY_SECONDS = 3600


def addresses(settings: Settings) -> Iterator[Unsafe]:
    server = settings.server
    if is_loopback(server.host) and not is_loopback_url(settings.public_url) and not server.trusted_proxies:
        yield Unsafe(
            "no_trusted_proxy",
            f"{settings.public_url} is served by a proxy, and no proxy is trusted. All clients have the "
            "proxy's network address, and the limits on failed logins count them as one.",
            "Name the proxy's network: CALLSHEET_SERVER__TRUSTED_PROXIES=127.0.0.1/32",
        )
    wide = [str(network) for network in server.trusted_proxies if is_wide(network)]
    if wide:
        yield Unsafe(
            "wide_trusted_proxies",
            f"X-Forwarded-For is believed from {', '.join(wide)}: nearly every caller can choose its own network "
            "address, so limits per network address do not hold.",
            "Name only the networks of your proxies in CALLSHEET_SERVER__TRUSTED_PROXIES.",
        )
    if settings.serves_other_machines and server.connections_per_address >= server.max_connections:
        yield Unsafe(
            "one_address_may_have_all_connections",
            f"One network address may have {counted(server.connections_per_address, 'connection')}, and all together "
            f"{server.max_connections}.",
            "Set CALLSHEET_SERVER__CONNECTIONS_PER_ADDRESS well below CALLSHEET_SERVER__MAX_CONNECTIONS.",
        )
    if settings.serves_other_machines and server.metrics_token is None:
        yield Unsafe(
            "open_metrics",
            "Anyone who reaches this control plane can read /metrics: workflows, providers and how busy they are.",
            "Set CALLSHEET_SERVER__METRICS_TOKEN.",
        )


def browsers(settings: Settings) -> Iterator[Unsafe]:
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
    own = [origin for origin in server.allowed_origins if is_plain(origin)]
    if own and settings.public_url.startswith("https://"):
        yield Unsafe(
            "own_pages_without_https",
            f"People may open this control plane at {', '.join(own)}, too, where it has no TLS.",
            "Name only https origins in CALLSHEET_SERVER__ALLOWED_ORIGINS.",
        )
    plain = [origin for origin in server.cors_origins if is_plain(origin)]
    if plain and server.cors_credentials:
        yield Unsafe(
            "plain_origin_with_sessions",
            f"Pages of {', '.join(plain)} may use browser sessions, and can be changed on the way to the browser.",
            "Serve those pages over https and name the https origin in CALLSHEET_SERVER__CORS_ORIGINS.",
        )


def logins(settings: Settings) -> Iterator[Unsafe]:
    identity = settings.identity
    per_day = identity.login_attempts_per_account * DAY_SECONDS // identity.login_window_seconds
    if per_day > MAX_GUESSES_PER_DAY:
        yield Unsafe(
            "many_password_guesses",
            f"An attacker can try {per_day:,} {choose(per_day, 'password')} of one account per day.",
            "Lower CALLSHEET_IDENTITY__LOGIN_ATTEMPTS_PER_ACCOUNT or raise CALLSHEET_IDENTITY__LOGIN_WINDOW_SECONDS.",
        )
    if identity.session_hours > MAX_SESSION_HOURS:
        yield Unsafe(
            "long_sessions",
            f"A stolen session cookie is good for {counted(identity.session_hours // 24, 'day')}.",
            "Lower CALLSHEET_IDENTITY__SESSION_HOURS; 336 is the default.",
        )
    if settings.storage.url_seconds > DAY_SECONDS:
        yield Unsafe(
            "long_signed_urls",
            "A signed URL that leaks gives access to its file for "
            f"{counted(settings.storage.url_seconds // 3600, 'hour')}.",
            "Lower CALLSHEET_STORAGE__URL_SECONDS; 900 is the default, and workers get new URLs with their heartbeats.",
        )


def requests(settings: Settings) -> Iterator[Unsafe]:
    server, quotas = settings.server, settings.quotas
    if settings.serves_other_machines and server.stranger_body_bytes >= server.max_body_bytes:
        yield Unsafe(
            "large_bodies_of_strangers",
            f"The server reads bodies of up to {counted(server.max_body_bytes, 'byte')} before the caller's "
            "credentials are checked.",
            "Set CALLSHEET_SERVER__STRANGER_BODY_BYTES well below CALLSHEET_SERVER__MAX_BODY_BYTES.",
        )
    if settings.serves_other_machines and server.body_seconds > MAX_BODY_SECONDS:
        yield Unsafe(
            "patient_with_slow_bodies",
            f"A body may take {counted(round(server.body_seconds / 3600), 'hour')} to arrive, and holds a "
            "connection during this time.",
            "Lower CALLSHEET_SERVER__BODY_SECONDS; 120 is the default.",
        )
    if settings.serves_other_machines and server.http2 and not server.trusted_proxies:
        yield Unsafe(
            "http2_without_proxy",
            "HTTP/2 is enabled for all clients, and one connection can carry many requests. It is meant for a proxy.",
            "Leave CALLSHEET_SERVER__HTTP2 out, or name the proxy in CALLSHEET_SERVER__TRUSTED_PROXIES.",
        )
    if settings.serves_other_machines and settings.jobs.order == "first_in_first_out":
        yield Unsafe(
            "first_in_first_out",
            "The oldest job is next, so a tenant that submits many jobs delays the jobs of all others.",
            "Leave CALLSHEET_JOBS__ORDER out, unless one tenant has this installation for itself.",
        )
    if quotas.user_storage_bytes >= quotas.tenant_storage_bytes:
        yield Unsafe(
            "one_user_may_fill_a_tenant",
            "One user may store as many bytes as the whole tenant, so that the others cannot upload.",
            "Set CALLSHEET_QUOTAS__USER_STORAGE_BYTES below CALLSHEET_QUOTAS__TENANT_STORAGE_BYTES.",
        )
