"""Official clients accept the signatures, also while a secret or the secret key of the installation changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from callsheet.toolbox.signing import KeyPair
from callsheet.toolbox.webhook_signatures import new_secret
from tests.support.deliveries import SECRET, delivering
from tests.support.http.webhook_receiver import receiving
from tests.support.jobs.core import Core
from tests.support.media.media_harness import principal_of


async def test_during_a_rotation_the_old_secret_and_the_new_one_verify(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        rotated = await deliveries.room.endpoints.rotate_secret(principal_of(ann), endpoint.id)
        await core.submit(ann)
        await deliveries.send()
        [(headers, body)] = receiver.requests
        for secret in (endpoint.secret, rotated.secret):
            assert Webhook(secret).verify(body, headers)
        await core.rows(ann.pool, "UPDATE webhook_endpoints SET old_secret_until = clock_timestamp()")
        await core.submit(ann)
        await deliveries.send()
        headers, body = receiver.requests[-1]
        assert Webhook(rotated.secret).verify(body, headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(endpoint.secret).verify(body, headers)


@pytest.mark.thorough
async def test_the_verifiers_of_other_clients_accept_the_signature_and_refuse_another_secret(core: Core) -> None:
    # Imported here, because it takes a second, and only this test needs them.
    import openai
    import replicate.webhook

    def by_openai(secret: str, headers: dict[str, str], body: str) -> None:
        openai.OpenAI(api_key="unused").webhooks.verify_signature(body, headers, secret=secret)

    def by_replicate(secret: str, headers: dict[str, str], body: str) -> None:
        key = replicate.webhook.WebhookSigningSecret(key=secret)
        replicate.webhook.Webhooks.validate(headers=headers, body=body, secret=key)

    ann = await core.member()
    async with receiving() as receiver, delivering(core) as deliveries:
        endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        await core.submit(ann)
        await deliveries.send()
        [(headers, body)] = receiver.requests
    for verify, error in (
        (by_openai, openai.InvalidWebhookSignatureError),
        (by_replicate, replicate.webhook.InvalidSignatureError),
    ):
        verify(endpoint.secret, headers, body.decode())
        with pytest.raises(error):
            verify(new_secret(), headers, body.decode())


async def test_secrets_survive_a_new_secret_key_of_the_installation(core: Core) -> None:
    ann = await core.member()
    async with receiving() as receiver:
        async with delivering(core) as deliveries:
            endpoint = await deliveries.endpoint(ann, receiver.url, events=["job.accepted"])
        other = b"another secret key of the installation"
        async with delivering(core, secret=KeyPair(other, SECRET)) as deliveries:
            await deliveries.room.keeper.tick(datetime.now(UTC))
        await core.submit(ann)
        async with delivering(core, secret=other) as deliveries:
            await deliveries.send()
        [(headers, body)] = receiver.requests
        assert Webhook(endpoint.secret).verify(body, headers)
        await core.submit(ann)
        async with delivering(core, secret=b"a key that never sealed anything here") as deliveries:
            await deliveries.send()
            assert len(receiver.requests) == 1
            assert "cannot be decrypted" in (await deliveries.rows(ann))[-1]["error"]
