"""Settings of what operators see: alerts, and statistics for charts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from callsheet.settings.values import Names
from callsheet.toolbox.sections import Section
from callsheet.toolbox.webhook_signatures import key_of


class AlertSettings(Section):
    webhook_url: SecretStr | None = Field(
        None,
        description="URL to which alerts are sent by POST, as JSON. The field text suits Slack and Mattermost. "
        "Default: none.",
    )
    webhook_secret: SecretStr | None = Field(
        None,
        description="Secret that signs the webhook's requests according to Standard Webhooks: whsec_ and the base64 of "
        "24 to 64 random bytes. Default: none.",
    )
    emails: Names = Field(
        (), description="E-mail addresses that get alerts, comma separated. They need the settings of mail."
    )
    severity: Literal["warning", "critical"] = Field(
        "warning", description="Which alerts are sent: warning sends all of them, critical only the critical ones."
    )
    after_seconds: float = Field(
        60.0, ge=0, le=86_400, description="How long an alert must hold before it is sent, in seconds."
    )

    @field_validator("webhook_url")
    @classmethod
    def _webhook_is_a_url(cls, value: SecretStr | None) -> SecretStr | None:
        # The error must not quote the URL: with it, anyone can write to the channel.
        if value is not None and not value.get_secret_value().startswith(("https://", "http://")):
            raise ValueError("must start with https:// or http://")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _secret_can_sign(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            key_of(value.get_secret_value())
        return value


class StatisticsSettings(Section):
    days: int = Field(400, ge=31, le=36_500, description="How long the hourly statistics are kept, in days.")
