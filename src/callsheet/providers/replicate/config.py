"""Settings of Replicate: the account, and the model of each action."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, SecretStr, StringConstraints, field_validator

from callsheet.toolbox.sections import Section, WebAddress
from callsheet.toolbox.webhook_signatures import key_of

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
ActionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
INPUT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
InputName = Annotated[str, StringConstraints(pattern=rf"^{INPUT_NAME}$")]
_MODEL = re.compile(rf"(deployments/{_NAME}/{_NAME}|{_NAME}/{_NAME}(:[0-9a-f]{{64}})?|[0-9a-f]{{64}})")


def _is_a_model(value: str) -> str:
    if not _MODEL.fullmatch(value):
        raise ValueError("must be owner/name, owner/name:version, a version (64 digits), or deployments/owner/name")
    return value


ModelName = Annotated[str, AfterValidator(_is_a_model)]


class ReplicateModel(Section):
    model: ModelName = Field(
        description="Model: owner/name, owner/name:version, the version alone, or deployments/owner/name. Only "
        "Replicate's official models need no version."
    )
    inputs: dict[InputName, InputName | Literal[""]] = Field(
        default_factory=dict,
        description='Names of the model\'s inputs if they differ from Callsheet\'s, for example {"prompt": "text"}. '
        "Empty: the input is not sent.",
    )
    fixed: dict[InputName, JsonValue] = Field(
        default_factory=dict, description="Inputs with a fixed value. Users cannot set them."
    )
    max_concurrent: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Largest number of concurrent jobs of the model. Default: only the limit of all models together.",
    )


class ReplicateConfig(Section):
    token: SecretStr | None = Field(
        None, description="Replicate's API token. Default: none, and Replicate is not used."
    )
    url: WebAddress = Field("https://api.replicate.com/v1", description="URL of Replicate's API.")
    webhook_secret: SecretStr | None = Field(
        None, description="Secret that Replicate signs callbacks with (whsec_…). Default: fetched once from Replicate."
    )
    models: dict[ActionName, ReplicateModel] = Field(
        default_factory=dict,
        description="Models by action: static_ad, ugc_video and tts are the typed jobs; any other name is an action "
        "of media tasks.",
    )
    max_concurrent: int = Field(
        10, ge=1, le=100_000, description="Largest number of concurrent jobs of models without their own limit."
    )
    callback_seconds: int = Field(
        3600,
        ge=30,
        le=86_400,
        description="How long a job waits for Replicate's callback before it expires, in seconds.",
    )
    request_seconds: float = Field(30.0, gt=0, le=300, description="Timeout of one request to Replicate, in seconds.")

    @field_validator("url")
    @classmethod
    def _url_is_plain(cls, value: str) -> str:
        if any(character in value for character in "?#@"):
            raise ValueError("must be a URL without a question mark, a hash or a password")
        return value.rstrip("/")

    @field_validator("token")
    @classmethod
    def _token_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not (value.get_secret_value().isascii() and value.get_secret_value().isprintable()):
            raise ValueError("must be plain characters")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _secret_is_one(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            key_of(value.get_secret_value())
        return value
