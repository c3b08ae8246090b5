"""The function of docs/how-to/receive-webhooks.md verifies what Callsheet signs, and nothing else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet.toolbox.webhook_signatures import key_of, new_secret, signature_of
from callsheet.wire.webhook_endpoints import WebhookEvent

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "receive-webhooks.md").read_text("utf-8")
BODY = b'{"type":"job.completed"}'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def verify() -> Callable[[str, dict[str, str], bytes], None]:
    names: dict[str, Any] = {}
    [code] = blocks("python")
    exec(code, names)
    found: Callable[[str, dict[str, str], bytes], None] = names["verify"]
    return found


def signed(secret: str, sent_at: float) -> dict[str, str]:
    timestamp = str(int(sent_at))
    signature = signature_of(key_of(secret), "msg_1", timestamp, BODY)
    return {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}


def test_the_function_of_the_page_verifies_a_request(verify: Callable[[str, dict[str, str], bytes], None]) -> None:
    old, new, now = new_secret(), new_secret(), time.time()
    headers = signed(new, now)
    verify(new, headers, BODY)
    rotated = {
        **headers,
        "webhook-signature": f"{headers['webhook-signature']} {signed(old, now)['webhook-signature']}",
    }
    verify(old, rotated, BODY)
    with pytest.raises(ValueError, match="the signature is wrong"):
        verify(old, headers, BODY)
    with pytest.raises(ValueError, match="the signature is wrong"):
        verify(new, headers, BODY + b" ")
    with pytest.raises(ValueError, match="too old"):
        verify(new, signed(new, now - 3600), BODY)


def test_the_page_names_every_event() -> None:
    assert [event for event in WebhookEvent if f"`{event}`" not in PAGE] == []
    [example] = blocks("json")
    assert json.loads(example)["type"] == WebhookEvent.COMPLETED
