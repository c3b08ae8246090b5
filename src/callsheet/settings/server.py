"""Settings of the server, of its log, and of the requests that it sends."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from callsheet.settings.values import Networks, Origins
from callsheet.toolbox.sections import Section, WebAddress


class ServerSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="Network address that the control plane listens on.")
    port: int = Field(8400, ge=0, le=65535, description="Port that the control plane listens on. 0: a free port.")
    public_url: WebAddress | None = Field(
        None,
        description="URL at which people and workers reach the control plane, without a path. Default: "
        "http://host:port.",
    )
    allowed_origins: Origins = Field(
        (),
        description="Other URLs at which people open this control plane in a browser, comma separated, for example "
        "http://studio.lan:8400. Default: only public_url, localhost and IP addresses.",
    )
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest JSON body accepted, in bytes.")
    max_body_values: int = Field(
        100_000,
        ge=1000,
        description="Largest number of values (numbers, texts, lists, objects) in a JSON body. Other requests wait "
        "while a body is parsed.",
    )
    stranger_body_bytes: int = Field(
        16_384,
        ge=1024,
        description="Largest JSON body that is read before the caller's credentials are checked, in bytes.",
    )
    body_seconds: float = Field(
        120.0,
        gt=0,
        le=86_400,
        description="Longest time to wait for a JSON body, in seconds. Uploads have no such limit.",
    )
    body_bytes_per_second: int = Field(
        1024, ge=1, description="Smallest speed of a body, including uploads, in bytes per second."
    )
    body_grace_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="How long a body may be slower or pause, in seconds. Within this time, as many bytes must arrive "
        "as server.body_bytes_per_second requires.",
    )
    max_header_bytes: int = Field(
        32_768, ge=4096, le=65_536, description="Largest request line and headers together, in bytes."
    )
    header_seconds: float = Field(
        30.0,
        ge=1,
        le=3600,
        description="Longest time to wait for the headers of a request, in seconds. A connection on which no request "
        "follows is closed after the same time, so a load balancer must close its own idle connections earlier.",
    )
    http2: bool = Field(
        False,
        description="Whether the server accepts HTTP/2 without TLS (h2c) in addition to HTTP/1.1, for a proxy "
        "that needs it.",
    )
    max_connections: int = Field(
        10_000, ge=100, le=1_000_000, description="Largest number of concurrent connections. Further connections wait."
    )
    connections_per_address: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Largest number of connections, and of requests in progress, of one network address (IPv6: a "
        "/64). Programs on this machine and server.trusted_proxies may have more. A request through such "
        "a proxy counts for the network address that the proxy names.",
    )
    shutdown_seconds: float = Field(
        10.0, ge=0, le=600, description="How long running requests have to finish after a stop, in seconds."
    )
    trusted_proxies: Networks = Field(
        (), description="Networks of the load balancers whose X-Forwarded-For header is trusted, comma separated."
    )
    cors_origins: Origins = Field(
        (),
        description="Origins whose pages may call the API from a browser, comma separated, for example "
        "https://shop.example.com. * allows all origins, without cookies. Default: none.",
    )
    cors_credentials: bool = Field(
        False,
        description="Whether pages of server.cors_origins may also use the browser session (the cookie). The cookie "
        "is SameSite=Lax: browsers send it only from the same site, for example from shop.example.com to "
        "api.example.com.",
    )
    web_application: bool = Field(
        True,
        description="Whether the web application is served at /. Off: a browser gets a page that describes the API.",
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="Bearer token that /metrics requires. Default: none; anyone who can reach /metrics can read it.",
    )

    @model_validator(mode="after")
    def _credentials_need_names(self) -> Self:
        if self.cors_credentials and "*" in self.cors_origins:
            raise ValueError("cors_credentials needs cors_origins that name each origin, not *")
        return self

    @field_validator("allowed_origins")
    @classmethod
    def _allowed_origins_are_named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "*" in value:
            raise ValueError("must name each origin; * would let pages of all sites use the session")
        return value

    @field_validator("public_url")
    @classmethod
    def _public_url_is_an_origin(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("must be like https://callsheet.example.com, without a path")
        return value.rstrip("/")


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level that is logged.")
    format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="Log format: JSON lines, or coloured text. auto means text on a terminal and JSON otherwise.",
    )


class OutgoingSettings(Section):
    allow_networks: Networks = Field(
        (), description="Private networks that URLs from users may point to, comma separated."
    )
    timeout_seconds: float = Field(30.0, gt=0, le=3600, description="Timeout of one outgoing request, in seconds.")
    max_bytes: int = Field(104_857_600, ge=1, description="Largest response that is read, in bytes.")
