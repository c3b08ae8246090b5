"""`verify` and the official library for Standard Webhooks agree."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from callsheet.client import WebhookRefused, verify
from callsheet.client.errors import ClientError

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or more").decode()
OTHER = "whsec_" + base64.b64encode(b"the secret before this one").decode()
BODY = json.dumps({"type": "job.completed", "data": {"title": "Ein Löwe"}})


def signed(body: str = BODY, secret: str = SECRET, at: datetime | None = None) -> dict[str, str]:
    moment = at or datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", moment, body)
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(moment.timestamp())),
        "Webhook-Signature": signature,
    }


@pytest.mark.parametrize("body", [BODY, BODY.encode()], ids=["text", "bytes"])
def test_a_webhook_that_the_official_library_signed_is_accepted(body: str | bytes) -> None:
    assert verify(signed(), body, SECRET) == json.loads(BODY)
    assert Webhook(SECRET).verify(body, {name.lower(): value for name, value in signed().items()}) == json.loads(BODY)


def test_one_of_several_signatures_and_of_two_secrets_is_enough() -> None:
    headers = signed()
    several = {**headers, "Webhook-Signature": f"v1a,AAAA v1,=not {signed(secret=OTHER)['Webhook-Signature']}"}
    assert verify(several, BODY, [SECRET, OTHER]) == json.loads(BODY)
    with pytest.raises(WebhookRefused, match="signature is wrong"):
        verify(several, BODY, SECRET)


@pytest.mark.parametrize("name", ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"])
def test_every_header_is_needed_and_is_signed(name: str) -> None:
    headers = signed()
    with pytest.raises(WebhookRefused, match="A header is missing"):
        verify({key: value for key, value in headers.items() if key != name}, BODY, SECRET)
    changed = {"Webhook-Id": "msg_2", "Webhook-Timestamp": str(int(headers["Webhook-Timestamp"]) + 1)}
    changed["Webhook-Signature"] = signed(BODY + " ")["Webhook-Signature"]
    with pytest.raises(WebhookRefused, match="signature is wrong"):
        verify({**headers, name: changed[name]}, BODY, SECRET)


@pytest.mark.parametrize("seconds", [-400, 400])
def test_an_old_webhook_is_refused_even_with_its_signature(seconds: int) -> None:
    headers = signed(at=datetime.now(UTC) + timedelta(seconds=seconds))
    with pytest.raises(WebhookRefused, match="too old"):
        verify(headers, BODY, SECRET)
    assert verify(headers, BODY, SECRET, tolerance_seconds=1000) == json.loads(BODY)


@pytest.mark.parametrize("moment", ["", "now", "1e9", "-5", "१७"])
def test_a_time_that_is_not_a_number_is_refused(moment: str) -> None:
    with pytest.raises(WebhookRefused):
        verify({**signed(), "Webhook-Timestamp": moment}, BODY, SECRET)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_ä", "not base64"])
def test_a_secret_that_is_not_one_is_the_problem_of_the_receiver(secret: str) -> None:
    with pytest.raises(ClientError, match="secret of the webhook"):
        verify(signed(), BODY, secret)


def test_other_bytes_than_json_are_refused() -> None:
    with pytest.raises(WebhookRefused, match="not JSON"):
        verify(signed("not json"), "not json", SECRET)
