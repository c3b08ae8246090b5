"""Settings of a service that is called over HTTP: `[providers.http.NAME]`.

They are enough for services that accept a job, report its status when polled, and then return URLs of the outputs. The
texts of `body`, `query` and `path` may contain placeholders: `{prompt}` and `{params.width}`; in polls `{id}`. A text
that consists of one placeholder becomes the value with its type. If there is no value, its key is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from callsheet.providers.comfy.config import ActionName
from callsheet.providers.parameters import Parameter
from callsheet.toolbox.sections import Section, WebAddress
from callsheet.wire.forms import PropertyKey

# For example `data.images.*.url`: members by name, items by number, or all items by a star.
DottedPath = Annotated[str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
ServicePath = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$", max_length=1000)]
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)\}")


class HttpAction(Section):
    """How a job of one action is submitted."""

    method: Literal["POST", "PUT", "GET"] = Field("POST", description="HTTP method of the request.")
    path: ServicePath = Field(description="Path below base_url.")
    body: dict[str, Any] | None = Field(None, description="JSON body, with placeholders. Default: none.")
    query: dict[str, str] = Field(default_factory=dict, description="Query parameters of the URL, with placeholders.")
    id: DottedPath = Field(description="Path of the service's job id in the response, for example data.task_id.")
    prompt_required: bool = Field(True, description="Whether a task must have a prompt.")
    max_prompt_length: int = Field(4000, ge=1, le=100_000, description="Largest number of characters of the prompt.")
    params: dict[PropertyKey, Parameter] = Field(
        default_factory=dict, description="Parameters that a task may send in `params`. Other parameters are refused."
    )

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        known = {"prompt", *(f"params.{name}" for name in self.params)}
        unknown = set(placeholders((self.body, self.query, self.path))) - known
        if unknown:
            raise ValueError(f"{{{min(unknown)}}} is unknown: use {{prompt}} and {{params.NAME}}")
        return self


class HttpPoll(Section):
    """How the status of a job is polled."""

    method: Literal["GET", "POST"] = Field("GET", description="HTTP method of the request.")
    path: ServicePath = Field(description="Path below base_url. It contains {id}.")
    body: dict[str, Any] | None = Field(None, description="JSON body. It may contain {id}. Default: none.")
    query: dict[str, str] = Field(
        default_factory=dict, description="Query parameters of the URL. They may contain {id}."
    )
    status: DottedPath = Field(description="Path of the status in the response.")
    done: tuple[str, ...] = Field(min_length=1, description="Values of the status of a completed job.")
    failed: tuple[str, ...] = Field((), description="Values of the status of a failed job.")
    progress: DottedPath | None = Field(
        None, description="Path of the progress in the response, a value like 42 or 42%."
    )
    outputs: DottedPath = Field(description="Path of the URLs of the outputs in the response.")
    error: DottedPath | None = Field(None, description="Path of the failure reason in the response.")
    every_seconds: float = Field(2.0, gt=0, le=600, description="Time between two polls, in seconds.")
    patience_seconds: float = Field(
        120.0,
        ge=0,
        le=86_400,
        description="How long polls may fail before the job fails, in seconds.",
    )

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        refuse_other_than_id(self.body, self.query, self.path)
        return self


class HttpCancel(Section):
    """How a job is canceled."""

    method: Literal["POST", "PUT", "DELETE", "GET"] = Field("POST", description="HTTP method of the request.")
    path: ServicePath = Field(description="Path below base_url. It contains {id}.")
    body: dict[str, Any] | None = Field(None, description="JSON body. It may contain {id}. Default: none.")
    query: dict[str, str] = Field(
        default_factory=dict, description="Query parameters of the URL. They may contain {id}."
    )

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        refuse_other_than_id(self.body, self.query, self.path)
        return self


class HttpDownload(Section):
    """How the outputs of a job are fetched."""

    types: tuple[str, ...] = Field(
        ("image/*", "video/*", "audio/*"),
        min_length=1,
        description="Allowed media types of an output, detected from its bytes.",
    )
    max_files: int = Field(20, ge=1, le=1000, description="Largest number of outputs of one job.")
    max_bytes: int = Field(1_073_741_824, ge=1, description="Largest output, in bytes.")
    limit_seconds: float = Field(300.0, gt=0, le=86_400, description="Timeout of one download, in seconds.")
    send_headers: bool = Field(
        False, description="Whether the headers are also sent with a download from the host of base_url."
    )


class HttpProviderConfig(Section):
    base_url: WebAddress = Field(description="URL of the service's API.")
    secret: SecretStr | None = Field(
        None, description="Key or token of the service. It replaces {secret} in the headers."
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default_factory=dict, description="Headers of every request, for example Authorization = 'Bearer {secret}'."
    )
    actions: dict[ActionName, HttpAction] = Field(min_length=1, description="Actions by name, for example txt2img.")
    poll: HttpPoll = Field(description="How the status of a job is polled.")
    cancel: HttpCancel | None = Field(
        None, description="How a job is canceled. Default: a canceled job keeps running at the service."
    )
    download: HttpDownload = Field(default_factory=HttpDownload, description="How outputs are fetched.")
    free: bool = Field(
        False, description="Whether the service is free. Otherwise its tasks need a price in `tasks.costs`."
    )
    max_concurrent: int = Field(
        1, ge=1, le=100_000, description="Largest number of concurrent jobs, across all machines."
    )
    limit_seconds: int = Field(900, ge=1, le=86_400, description="Timeout of one job, in seconds.")
    request_seconds: float = Field(30.0, gt=0, le=600, description="Timeout of one request, in seconds.")

    @field_validator("base_url")
    @classmethod
    def _base_url_is_plain(cls, value: str) -> str:
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("must be a URL without a question mark, a hash or a password")
        return value.rstrip("/")

    @field_validator("headers", "secret")
    @classmethod
    def _headers_can_be_sent(cls, value: dict[str, SecretStr] | SecretStr | None) -> object:
        for secret in value.values() if isinstance(value, dict) else [value]:
            if secret is not None and not re.fullmatch(r"[ -~]*", secret.get_secret_value()):
                raise ValueError("must be plain characters")
        return value

    @property
    def needs_secret(self) -> bool:
        """Whether a header needs the secret, and it is not set."""
        return self.secret is None and any("{secret}" in value.get_secret_value() for value in self.headers.values())


def refuse_other_than_id(*templates: object) -> None:
    if set(placeholders(templates)) != {"id"}:
        raise ValueError("path, query or body must have {id} in it, and no other placeholder")


def placeholders(value: object) -> Iterator[str]:
    """Every placeholder in the texts of a value, at any depth."""
    match value:
        case str():
            yield from PLACEHOLDER.findall(value)
        case Mapping():
            for member in value.values():
                yield from placeholders(member)
        case list() | tuple():
            for item in value:
                yield from placeholders(item)
