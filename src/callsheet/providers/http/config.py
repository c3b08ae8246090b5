"""Settings of a service that is called over HTTP: `[providers.http.NAME]`.

Enough for services that take a job, say how far it is when asked, and then give addresses to download from. In texts of
`body`, `query` and `path` stand placeholders: `{prompt}`, `{params.width}`; when asked, `{id}`. A text that is nothing
but one placeholder becomes the value with its type, and where there is no value its key is left out.
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

# `data.images.*.url`: members by name, items by number or all of them by a star.
DottedPath = Annotated[str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
ServicePath = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$", max_length=1000)]
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)\}")


class HttpAction(Section):
    """How a job of one action is submitted."""

    method: Literal["POST", "PUT", "GET"] = Field("POST", description="The request's method.")
    path: ServicePath = Field(description="Where below base_url it is sent.")
    body: dict[str, Any] | None = Field(None, description="The JSON that is sent, with placeholders. Default: none.")
    query: dict[str, str] = Field(default_factory=dict, description="Parameters of the address, with placeholders.")
    id: DottedPath = Field(description="Where in the answer the service's own id of the job is, like data.task_id.")
    prompt_required: bool = Field(True, description="Whether a task must have a prompt.")
    longest_prompt: int = Field(4000, ge=1, le=100_000, description="Most characters of the prompt.")
    params: dict[PropertyKey, Parameter] = Field(
        default_factory=dict, description="What a task may say in `params`; anything else is refused."
    )

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        known = {"prompt", *(f"params.{name}" for name in self.params)}
        unknown = set(placeholders((self.body, self.query, self.path))) - known
        if unknown:
            raise ValueError(f"{{{min(unknown)}}} stands for nothing: there are {{prompt}} and {{params.NAME}}")
        return self


class HttpPoll(Section):
    """How the service is asked how far a job is."""

    method: Literal["GET", "POST"] = Field("GET", description="The request's method.")
    path: ServicePath = Field(description="Where below base_url it is asked, with {id} in it.")
    body: dict[str, Any] | None = Field(None, description="The JSON that is sent, with {id} in it. Default: none.")
    query: dict[str, str] = Field(default_factory=dict, description="Parameters of the address, with {id} in them.")
    status: DottedPath = Field(description="Where in the answer the status is.")
    done: tuple[str, ...] = Field(min_length=1, description="What the status is when the job succeeded.")
    failed: tuple[str, ...] = Field((), description="What the status is when the job failed.")
    progress: DottedPath | None = Field(None, description="Where in the answer the percent is, like 42 or 42%.")
    outputs: DottedPath = Field(description="Where in the answer the addresses of the outputs are.")
    error: DottedPath | None = Field(None, description="Where in the answer the reason of a failure is.")
    every_seconds: float = Field(2.0, gt=0, le=600, description="Time between two questions, in seconds.")
    patience_seconds: float = Field(
        120.0,
        ge=0,
        le=86_400,
        description="How long it may give no good answer before the job is given up, in seconds.",
    )

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        refuse_other_than_id(self.body, self.query, self.path)
        return self


class HttpCancel(Section):
    """How a job that nobody wants any more is ended."""

    method: Literal["POST", "PUT", "DELETE", "GET"] = Field("POST", description="The request's method.")
    path: ServicePath = Field(description="Where below base_url it is sent, with {id} in it.")
    body: dict[str, Any] | None = Field(None, description="The JSON that is sent, with {id} in it. Default: none.")
    query: dict[str, str] = Field(default_factory=dict, description="Parameters of the address, with {id} in them.")

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        refuse_other_than_id(self.body, self.query, self.path)
        return self


class HttpDownload(Section):
    """How what a job made is fetched."""

    types: tuple[str, ...] = Field(
        ("image/*", "video/*", "audio/*"), min_length=1, description="Media types an output may be; by its bytes."
    )
    max_files: int = Field(20, ge=1, le=1000, description="Most outputs of one job.")
    max_bytes: int = Field(1_073_741_824, ge=1, description="Largest output, in bytes.")
    limit_seconds: float = Field(300.0, gt=0, le=86_400, description="Longest time one download may take, in seconds.")
    send_headers: bool = Field(
        False, description="Whether the headers are sent there too, where an address is on base_url's own host."
    )


class HttpProviderConfig(Section):
    base_url: WebAddress = Field(description="Address of the service's API.")
    secret: SecretStr | None = Field(None, description="Its key or token; {secret} in headers stands for it.")
    headers: dict[HeaderName, SecretStr] = Field(
        default_factory=dict, description="Headers of every request, like Authorization = 'Bearer {secret}'."
    )
    actions: dict[ActionName, HttpAction] = Field(min_length=1, description="What it can do, like txt2img.")
    poll: HttpPoll = Field(description="How it is asked how far a job is.")
    cancel: HttpCancel | None = Field(None, description="How a job is ended early. Default: it runs on for nobody.")
    download: HttpDownload = Field(default_factory=HttpDownload, description="How outputs are fetched.")
    free: bool = Field(
        False, description="Whether its jobs cost nothing. Otherwise its tasks need a price in `tasks.costs`."
    )
    max_concurrent: int = Field(1, ge=1, le=100_000, description="Most jobs it gets at once, from all machines.")
    limit_seconds: int = Field(900, ge=1, le=86_400, description="Longest time one job may take, in seconds.")
    request_seconds: float = Field(30.0, gt=0, le=600, description="Longest time one request may take, in seconds.")

    @field_validator("base_url")
    @classmethod
    def _base_url_is_plain(cls, value: str) -> str:
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("must be an address without a question mark, a hash or a password")
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
        """Whether it is named in a header and not there."""
        return self.secret is None and any("{secret}" in value.get_secret_value() for value in self.headers.values())


def refuse_other_than_id(*templates: object) -> None:
    if set(placeholders(templates)) != {"id"}:
        raise ValueError("path, query or body must have {id} in it, and no other placeholder")


def placeholders(value: object) -> Iterator[str]:
    """Every placeholder in the texts of a value, however deep."""
    match value:
        case str():
            yield from PLACEHOLDER.findall(value)
        case Mapping():
            for member in value.values():
                yield from placeholders(member)
        case list() | tuple():
            for item in value:
                yield from placeholders(item)
