"""Signatures of Standard Webhooks agree with the official package."""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook

from callsheet.toolbox.webhook_signatures import key_of, new_secret, signature_of


def test_the_official_package_verifies_a_signature() -> None:
    secret, now, body = new_secret(), str(int(time.time())), b'{"type":"job.completed"}'
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": now,
        "webhook-signature": signature_of(key_of(secret), "msg_1", now, body),
    }
    assert Webhook(secret).verify(body, headers) == {"type": "job.completed"}


def test_a_signature_differs_with_the_secret_the_id_the_time_and_the_body() -> None:
    keys = [key_of(new_secret()) for _ in range(2)]
    signatures = {
        signature_of(key, message_id, timestamp, body)
        for key in keys
        for message_id in ("a", "b")
        for timestamp in ("1", "2")
        for body in (b"{}", b"[]")
    }
    assert len(signatures) == 16


@pytest.mark.parametrize("secret", ["", "s3cret", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64", "c2VjcmV0" * 8])
def test_a_text_of_another_form_is_not_a_secret(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        key_of(secret)
