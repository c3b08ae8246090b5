"""Settings of the service that writes texts."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from callsheet.toolbox.sections import Section, WebAddress


class CopywritingConfig(Section):
    api_key: SecretStr | None = Field(
        None,
        description="API key of the service that writes texts; any word if the service needs no key. Default: none, "
        "and texts come from a template.",
    )
    url: WebAddress = Field("https://api.openai.com/v1", description="URL of an OpenAI-compatible service.")
    model: str = Field("gpt-4o-mini", min_length=1, max_length=200, description="Model of the service.")
    max_concurrent: int = Field(
        4, ge=1, le=100_000, description="Largest number of concurrent jobs, across all machines."
    )
    request_seconds: float = Field(60.0, gt=0, le=600, description="Timeout for one text, in seconds.")

    @field_validator("url")
    @classmethod
    def _url_is_plain(cls, value: str) -> str:
        if any(character in value for character in "?#@"):
            raise ValueError("must be a URL without a question mark, a hash or a password")
        return value.rstrip("/")

    @field_validator("api_key")
    @classmethod
    def _key_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not (value.get_secret_value().isascii() and value.get_secret_value().isprintable()):
            raise ValueError("must be plain characters")
        return value
