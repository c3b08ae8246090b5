"""Which combinations of settings the doctor warns about. Every rule has its line here, or the test fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from callsheet.settings import Settings, load_settings, safety
from callsheet.settings.safety import unsafe_settings, unsafe_worker_settings
from tests.support.database.installation import isolate

PUBLIC = {"host": "0.0.0.0", "public_url": "https://callsheet.example.com", "metrics_token": "a-token-of-the-metrics"}
LONG = "0123456789abcdef" * 4
SERVICE: dict[str, Any] = {
    "headers": {"Authorization": "Bearer x"},
    "actions": {"txt2img": {"path": "/make", "id": "id"}},
    "poll": {"path": "/job/{id}", "status": "status", "done": ["done"], "outputs": "urls"},
}
CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("the defaults of a laptop", {}, set()),
    ("a server behind a proxy of another machine", {"server": PUBLIC}, set()),
    (
        "all of the ways that are safe",
        {
            "server": PUBLIC | {"trusted_proxies": "10.0.0.0/8", "cors_origins": "https://shop.example.com"},
            "database": {"dsn": "postgresql://callsheet:x@db.example.com/callsheet?sslmode=verify-full"},
            "storage": {"backend": "s3", "s3": {"bucket": "media", "endpoint_url": "https://s3.example.com"}},
            "mail": {"host": "smtp.example.com", "sender": "a@example.com"},
            "fleet": {"validate_asg_instance": True},
            "outgoing": {"allow_networks": "10.1.0.0/16"},
            "secret_key": LONG,
        },
        set(),
    ),
    ("everything on one machine", {"database": {"dsn": "postgresql:///callsheet?host=/var/run/postgresql"}}, set()),
    ("a database on this machine", {"database": {"dsn": "postgresql://localhost/callsheet"}}, set()),
    ("listening for everybody", {"server": {"host": "0.0.0.0", "metrics_token": "x"}}, {"plain_http"}),
    ("http under a name", {"server": PUBLIC | {"public_url": "http://callsheet.example.com"}}, {"plain_http"}),
    ("metrics for everybody", {"server": PUBLIC | {"metrics_token": None}}, {"open_metrics"}),
    ("a proxy that is not trusted", {"server": PUBLIC | {"host": "127.0.0.1"}}, {"no_trusted_proxy"}),
    ("a proxy that is", {"server": PUBLIC | {"host": "127.0.0.1", "trusted_proxies": "127.0.0.1/32"}}, set()),
    (
        "proxies that are everybody",
        {"server": PUBLIC | {"trusted_proxies": "0.0.0.0/0"}},
        {"wide_trusted_proxies"},
    ),
    ("proxies of half of IPv6", {"server": PUBLIC | {"trusted_proxies": "8000::/1"}}, {"wide_trusted_proxies"}),
    (
        "one address for all connections",
        {"server": PUBLIC | {"max_connections": 500, "connections_per_address": 500}},
        {"one_address_may_have_all_connections"},
    ),
    (
        "a database elsewhere, and a pooler on this machine",
        {
            "database": {
                "dsn": "postgresql://callsheet:secret@localhost:6432/callsheet",
                "direct_dsn": "postgresql://callsheet:secret@db.example.com/callsheet",
            }
        },
        {"plain_database"},
    ),
    (
        "a database elsewhere",
        {"database": {"dsn": "postgresql://callsheet:secret@db.example.com/callsheet"}},
        {"plain_database"},
    ),
    (
        "a database elsewhere by parameter",
        {"database": {"dsn": "postgresql:///callsheet?host=10.0.0.1&sslmode=prefer"}},
        {"plain_database"},
    ),
    (
        "storage without TLS",
        {"storage": {"backend": "s3", "s3": {"bucket": "media", "endpoint_url": "http://s3.example.com"}}},
        {"plain_storage"},
    ),
    (
        "mails without TLS",
        {"mail": {"host": "smtp.example.com", "sender": "a@example.com", "tls": "none"}},
        {"plain_mail"},
    ),
    (
        "a provider without TLS",
        {"providers": {"replicate": {"url": "http://replicate.example.com", "token": "r8_x"}}},
        {"plain_provider"},
    ),
    (
        "a service over HTTP without TLS",
        {"providers": {"http": {"leonardo": SERVICE | {"base_url": "http://leonardo.example.com"}}}},
        {"plain_provider"},
    ),
    ("a cookie without TLS", {"server": PUBLIC, "identity": {"cookie_secure": False}}, {"cookie_without_https"}),
    ("every origin", {"server": {"cors_origins": "*"}}, {"every_origin"}),
    (
        "sessions for pages without TLS",
        {"server": {"cors_origins": "http://shop.example.com", "cors_credentials": True}},
        {"plain_origin_with_sessions"},
    ),
    ("sessions for pages on this machine", {"server": {"cors_origins": "http://localhost:5173"}}, set()),
    (
        "own pages without TLS",
        {"server": PUBLIC | {"allowed_origins": "http://studio.lan"}},
        {"own_pages_without_https"},
    ),
    ("own pages inside a studio", {"server": {"allowed_origins": "http://studio.lan:8400"}}, set()),
    (
        "large bodies of strangers",
        {"server": PUBLIC | {"stranger_body_bytes": 1_048_576}},
        {"large_bodies_of_strangers"},
    ),
    ("bodies that take a day", {"server": PUBLIC | {"body_seconds": 86_400}}, {"patient_with_slow_bodies"}),
    ("HTTP/2 for everybody", {"server": PUBLIC | {"http2": True}}, {"http2_without_proxy"}),
    ("HTTP/2 for a proxy", {"server": PUBLIC | {"http2": True, "trusted_proxies": "10.0.0.0/8"}}, set()),
    (
        "one after the other",
        {"server": PUBLIC, "jobs": {"order": "first_in_first_out"}},
        {"first_in_first_out"},
    ),
    (
        "a user who is the tenant",
        {"quotas": {"user_storage_bytes": 1000, "tenant_storage_bytes": 1000}},
        {"one_user_may_fill_a_tenant"},
    ),
    (
        "a model for free",
        {"providers": {"replicate": {"token": "r8_x"}}, "tasks": {"costs": {"replicate/flux": 0}}},
        {"paid_service_for_free"},
    ),
    (
        "a typed job for free",
        {"providers": {"replicate": {"token": "r8_x"}}, "tasks": {"costs": {"ugc_video": 0}}},
        {"paid_service_for_free"},
    ),
    (
        "texts for free",
        {"providers": {"copywriting": {"api_key": "x"}}, "tasks": {"costs": {"copy": 0}}},
        {"paid_service_for_free"},
    ),
    ("a template for free", {"tasks": {"costs": {"copy": 0, "ugc_video": 0}}}, set()),
    (
        "a service of one's own for free",
        {
            "providers": {"http": {"studio": SERVICE | {"base_url": "http://127.0.0.1:9000", "free": True}}},
            "tasks": {"costs": {"studio/*": 0}},
        },
        set(),
    ),
    ("a shared secret on a laptop", {"fleet": {"secret": LONG}}, set()),
    ("a shared secret", {"server": PUBLIC, "fleet": {"secret": LONG}}, {"shared_secret"}),
    (
        "a shared secret that approves",
        {"server": PUBLIC, "fleet": {"secret": LONG, "auto_approve": True}},
        {"shared_secret_without_approval"},
    ),
    ("a short shared secret", {"fleet": {"secret": "sixteen-or-more!"}}, {"short_shared_secret"}),
    (
        "instances that nobody checks",
        {"fleet": {"secret": LONG, "auto_approve": True, "validate_asg_instance": True}},
        {"instances_unchecked_while_aws_is_away"},
    ),
    (
        "instances that are checked or refused",
        {"fleet": {"secret": LONG, "auto_approve": True, "validate_asg_instance": True, "asg_fail_open": False}},
        set(),
    ),
    (
        "AWS without TLS",
        {"fleet": {"validate_asg_instance": True, "asg_endpoint_url": "http://aws.example.com"}},
        {"plain_asg_endpoint"},
    ),
    ("results that nobody checks", {"fleet": {"output_validation": "warn"}}, {"results_unchecked"}),
    (
        "passwords to be guessed",
        {"identity": {"login_attempts_per_account": 10_000, "login_window_seconds": 60}},
        {"many_password_guesses"},
    ),
    ("sessions of a year", {"identity": {"session_hours": 8760}}, {"long_sessions"}),
    ("signed URLs of a week", {"storage": {"url_seconds": 604_800}}, {"long_signed_urls"}),
    ("this machine's own services", {"outgoing": {"allow_networks": "127.0.0.0/8"}}, {"own_network_allowed"}),
    ("the keys of the cloud", {"outgoing": {"allow_networks": "169.254.169.254/32"}}, {"own_network_allowed"}),
    ("the keys of the cloud, IPv6", {"outgoing": {"allow_networks": "fd00:ec2::254/128"}}, {"own_network_allowed"}),
    ("every network", {"outgoing": {"allow_networks": "0.0.0.0/0"}}, {"own_network_allowed"}),
    ("an engine without a login", {"lightbox": {"host": "0.0.0.0"}}, {"open_lightbox"}),
    ("an engine with a known key", {"lightbox": {"host": "0.0.0.0", "as_cloud": True}}, {"open_lightbox"}),
    (
        "an engine with a key of its own",
        {"lightbox": {"host": "0.0.0.0", "as_cloud": True, "cloud_api_key": LONG}},
        set(),
    ),
    (
        "graphs of users",
        {"providers": {"lightbox": {"url": "http://127.0.0.1:8188", "allow_graphs": True}}},
        {"graphs_of_users"},
    ),
    ("an engine elsewhere", {"engine": {"url": "http://gpu.example.com:8188"}}, {"engine_on_another_machine"}),
    ("a key that is no secret", {"secret_key": "a" * 32}, {"weak_secret_key"}),
    ("two keys", {"secret_key": LONG, "second_secret_key": LONG[::-1]}, {"second_key_accepted"}),
    ("failpoints", {"failpoints": "relay.after_commit"}, {"failpoints"}),
    ("probes", {"lightbox": {"probes": True}}, {"lightbox_probes"}),
]
WORKER_CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("beside its control plane", {}, set()),
    ("over TLS", {"worker": {"api_url": "https://callsheet.example.com"}}, set()),
    ("without TLS", {"worker": {"api_url": "http://callsheet.example.com"}}, {"plain_control_plane"}),
    (
        "a cloud without TLS",
        {"worker": {"cloud_api_key": "comfyui-x", "cloud_url": "http://cloud.example.com"}},
        {"plain_provider"},
    ),
    ("an engine elsewhere", {"engine": {"url": "http://gpu.example.com:8188"}}, {"engine_on_another_machine"}),
    (
        "one of several engines elsewhere",
        {"engine": {"urls": ["http://127.0.0.1:8188", "http://gpu.example.com:8188"]}},
        {"engine_on_another_machine"},
    ),
]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.mark.few_forms
@pytest.mark.parametrize(("name", "given", "codes"), CASES, ids=[name for name, _, _ in CASES])
def test_an_unsafe_combination_is_named_and_a_safe_one_is_not(
    tmp_path: Path, name: str, given: dict[str, Any], codes: set[str]
) -> None:
    assert {found.code for found in unsafe_settings(load_settings(home=tmp_path, **given))} == codes


@pytest.mark.parametrize(("name", "given", "codes"), WORKER_CASES, ids=[name for name, _, _ in WORKER_CASES])
def test_unsafe_settings_of_a_worker_are_found(
    tmp_path: Path, name: str, given: dict[str, Any], codes: set[str]
) -> None:
    assert {found.code for found in unsafe_worker_settings(load_settings(home=tmp_path, **given))} == codes


def test_every_rule_has_a_case() -> None:
    sources = [file.read_text("utf-8") for file in Path(safety.__file__).parent.glob("*.py")]
    rules = {code for source in sources for code in re.findall(r'Unsafe\(\s*"(\w+)"', source)}
    tried = {code for _, _, codes in (*CASES, *WORKER_CASES) for code in codes}
    assert rules == tried


def test_no_warning_shows_a_secret(tmp_path: Path) -> None:
    settings = load_settings(
        home=tmp_path,
        server=PUBLIC,
        database={"dsn": "postgresql://callsheet:hidden-one@db.example.com/callsheet"},
        fleet={"secret": "hidden-two-short!"},
    )
    message = str(unsafe_settings(settings))
    assert "plain_database" in message
    assert "hidden" not in message


def test_an_unreadable_dsn_is_not_reported_here(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database={"dsn": SecretStr("postgresql://u:p@[broken/callsheet")})  # type: ignore[arg-type]
    assert unsafe_settings(settings) == []
