"""Rules about workers, engines, providers, keys and settings for tests."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from callsheet.settings.safety.rule import Unsafe, is_plain, is_wide
from callsheet.settings.tree import Settings
from callsheet.toolbox.http.addresses import Network, is_loopback

# A URL of a user must not lead a control plane to these: itself, and the keys of the cloud.
OWN_NETWORKS: tuple[Network, ...] = (
    IPv4Network("127.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv6Network("::1/128"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),
)
SHORT_SECRET = 32
# Kinds of generation that call Replicate if Replicate is configured.
REPLICATE_KINDS = frozenset({"static_ad", "ugc_video", "tts"})


def fleet_rules(settings: Settings) -> Iterator[Unsafe]:
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
            "While AWS is unavailable, every invented instance id with the shared secret gets jobs at once.",
            "Set CALLSHEET_FLEET__ASG_FAIL_OPEN=false, or use registration tokens.",
        )
    if fleet.validate_asg_instance and is_plain(fleet.asg_endpoint_url):
        yield Unsafe(
            "plain_asg_endpoint",
            f"The control plane checks instances at {fleet.asg_endpoint_url} without TLS: the response can be forged.",
            "Set CALLSHEET_FLEET__ASG_ENDPOINT_URL to an https URL, or leave it out.",
        )


def outgoing(settings: Settings) -> Iterator[Unsafe]:
    allowed = settings.outgoing.allow_networks
    own = [
        str(network) for network in allowed if is_wide(network) or any(_overlap(network, each) for each in OWN_NETWORKS)
    ]
    if own:
        yield Unsafe(
            "own_network_allowed",
            f"URLs that users send may lead to {', '.join(own)}: to services of this machine, or to the keys that a "
            "cloud gives it.",
            "Name only the networks of the services that are meant in CALLSHEET_OUTGOING__ALLOW_NETWORKS.",
        )


def engines(settings: Settings) -> Iterator[Unsafe]:
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
    yield from engine(settings)


def results(settings: Settings) -> Iterator[Unsafe]:
    if settings.fleet.output_validation == "warn":
        yield Unsafe(
            "results_unchecked",
            "A job is completed and charged although its result is missing or not what was declared.",
            "Leave CALLSHEET_FLEET__OUTPUT_VALIDATION out when all worker programs deliver correctly.",
        )


def prices(settings: Settings) -> Iterator[Unsafe]:
    """Paid services that users may use without paying."""
    providers = settings.providers
    paid = {name for name, each in providers.http.items() if not each.free}
    if providers.replicate.token is not None:
        paid |= {"replicate", *REPLICATE_KINDS}
    if providers.copywriting.api_key is not None:
        paid.add("copy")
    free = sorted(name for name, price in settings.tasks.costs.items() if price == 0 and name.partition("/")[0] in paid)
    if free:
        yield Unsafe(
            "paid_service_for_free",
            f"Tasks of {', '.join(free)} call a paid service and cost 0 tokens: users may call it without limit.",
            "Set a price in CALLSHEET_TASKS__COSTS, or keep the provider out with CALLSHEET_PROVIDERS__BLOCKED.",
        )


def keys(settings: Settings) -> Iterator[Unsafe]:
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
            "When nothing depends on the old key any more, end the rotation: callsheet secrets finish",
        )


def engine(settings: Settings) -> Iterator[Unsafe]:
    given = settings.engine
    plain = [] if given.comfyui is not None else [url for url in given.urls or (given.url,) if is_plain(url)]
    if plain:
        yield Unsafe(
            "engine_on_another_machine",
            f"ComfyUI is reached at {', '.join(plain)}: it has no login, and files of users travel without TLS.",
            "Run the worker on the machine of ComfyUI and set CALLSHEET_ENGINE__URL=http://127.0.0.1:8188.",
        )


def for_tests(settings: Settings) -> Iterator[Unsafe]:
    if settings.failpoints:
        yield Unsafe(
            "failpoints", "Failpoints are set: the process crashes at these points.", "Unset CALLSHEET_FAILPOINTS."
        )
    if settings.lightbox.probes:
        yield Unsafe(
            "lightbox_probes",
            "Lightbox offers nodes that block and fail on purpose.",
            "Leave CALLSHEET_LIGHTBOX__PROBES out.",
        )


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)
