"""Checks the signature of a webhook: https://www.standardwebhooks.com."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.client.errors import ClientError
from callsheet.toolbox.webhook_signatures import key_of, signature_of

TOLERANCE_SECONDS = 300


class WebhookRefused(ClientError):
    """The request does not have a valid signature. Respond with this status, and do nothing else."""

    status = 400


def verify(
    headers: Mapping[str, str],
    body: bytes | str,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> Any:
    """The JSON of a webhook whose signature is valid.

    `body` is the body as it was received, before any parsing. While a secret is replaced, give both. A webhook may come
    twice: its header `webhook-id` is the same then.
    """
    found = {name.lower(): value for name, value in headers.items()}
    identifier, moment, signatures = (found.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (identifier and moment and signatures):
        raise WebhookRefused("A header is missing: webhook-id, webhook-timestamp or webhook-signature.")
    if not (moment.isascii() and moment.isdigit()) or abs(time.time() - int(moment)) > tolerance_seconds:
        raise WebhookRefused("The webhook is too old, or the clock of this machine is wrong.")
    content = body.encode() if isinstance(body, str) else body
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    expected = [signature_of(_key(each), identifier, moment, content).encode() for each in secrets]
    given = [each.encode("utf-8", "replace") for each in signatures.split()]
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise WebhookRefused("The signature is wrong.")
    try:
        return json.loads(content)
    except ValueError:
        raise WebhookRefused("The body is not JSON.") from None


def _key(secret: str) -> bytes:
    try:
        return key_of(secret)
    except ValueError:
        raise ClientError(
            "The secret of the webhook is not valid. It is whsec_ and base64 of 16 bytes or more."
        ) from None
