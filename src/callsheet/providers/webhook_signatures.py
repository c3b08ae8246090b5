"""Verifies signatures of callbacks according to Standard Webhooks, which Replicate and Svix follow. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from callsheet.providers.media import CallbackRefused
from callsheet.toolbox.webhook_signatures import signature_of
from callsheet.wire.plurals import counted

# In both directions: a clock may also be ahead.
TOLERANCE_SECONDS = 300.0
# A service that rotates its secret signs with the old and the new one. No service has twenty.
MAX_SIGNATURES = 20


class WrongSignature(CallbackRefused):
    pass


def verify(key: bytes, headers: Mapping[str, str], body: bytes, now: float) -> None:
    """Verifies a signature. Header names are lower case. Raises CallbackRefused with a reason for the log."""
    message_id, timestamp, given = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not message_id or not timestamp or not given:
        raise CallbackRefused("it is not signed")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        raise CallbackRefused("its timestamp is not one")
    signatures = given.split()
    if len(signatures) > MAX_SIGNATURES:
        raise CallbackRefused("it has too many signatures")
    expected = signature_of(key, message_id, timestamp, body).encode()
    # Every item is compared in constant time, so that the duration reveals nothing.
    matches = [hmac.compare_digest(expected, each.encode("utf-8", "replace")) for each in signatures]
    if not any(matches):
        raise WrongSignature("its signature is wrong")
    age = now - int(timestamp)
    if abs(age) > TOLERANCE_SECONDS:
        raise CallbackRefused(f"it was signed {counted(round(abs(age)), 'second')} {'ago' if age > 0 else 'ahead'}")
