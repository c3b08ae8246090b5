"""Finds unsafe combinations of settings and returns warnings. Pure; `callsheet doctor` prints them.

Settings that are always wrong are refused when they are read. The combinations here may be right on a laptop or inside
a closed network, so they cause only a warning.
"""

from __future__ import annotations

from callsheet.settings.safety.callers import addresses, browsers, logins, requests
from callsheet.settings.safety.parts import engine, engines, fleet_rules, for_tests, keys, outgoing, prices, results
from callsheet.settings.safety.rule import Unsafe
from callsheet.settings.safety.transport import transport, worker_transport
from callsheet.settings.tree import Settings

__all__ = ["Unsafe", "unsafe_settings", "unsafe_worker_settings"]

RULES = (
    transport,
    addresses,
    requests,
    browsers,
    logins,
    fleet_rules,
    outgoing,
    engines,
    results,
    prices,
    keys,
    for_tests,
)


def unsafe_settings(settings: Settings) -> list[Unsafe]:
    """Unsafe settings of a control plane."""
    return [found for rule in RULES for found in rule(settings)]


def unsafe_worker_settings(settings: Settings) -> list[Unsafe]:
    """Unsafe settings of a machine that only runs a worker."""
    return [*worker_transport(settings), *engine(settings), *for_tests(settings)]
