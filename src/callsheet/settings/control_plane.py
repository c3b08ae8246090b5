"""The sections a control plane reads."""

from __future__ import annotations

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from callsheet.settings.values import MediaTypes, Names, Networks, Origins
from callsheet.toolbox.sections import Section, WebAddress


class ServerSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="Address the control plane listens on.")
    port: int = Field(8400, ge=0, le=65535, description="Port the control plane listens on; 0 takes a free one.")
    public_url: WebAddress | None = Field(
        None, description="Address people and workers reach it at, without a path. Default: http://host:port."
    )
    allowed_origins: Origins = Field(
        (),
        description="Other addresses at which people open this control plane in a browser, comma separated, like "
        "http://studio.lan:8400. Default: none but public_url, localhost and IP addresses.",
    )
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest JSON body accepted, in bytes.")
    max_body_values: int = Field(
        100_000,
        ge=1000,
        description="Most values (numbers, texts, lists, objects) in a JSON body. Other requests wait while a body is "
        "parsed.",
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
        1024, ge=1, description="Least speed of a body, uploads included, in bytes per second."
    )
    body_grace_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="How long a body may be slower or pause, in seconds: so many seconds' worth of "
        "server.body_bytes_per_second must arrive within this time.",
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
        False, description="Whether HTTP/2 without TLS (h2c) is spoken beside HTTP/1.1, for a proxy that needs it."
    )
    max_connections: int = Field(
        10_000, ge=100, le=1_000_000, description="Most connections that are served at once; more of them wait."
    )
    connections_per_address: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Most connections, and most requests in progress, of one network address (IPv6: a /64). This "
        "machine's own programs and server.trusted_proxies may have more; a request through such a proxy counts for "
        "the address that the proxy names.",
    )
    shutdown_seconds: float = Field(
        10.0, ge=0, le=600, description="How long running requests may finish after a stop, in seconds."
    )
    trusted_proxies: Networks = Field(
        (), description="Networks of the load balancers whose X-Forwarded-For is believed, comma separated."
    )
    cors_origins: Origins = Field(
        (),
        description="Origins whose pages may call the API from a browser, comma separated, like "
        "https://shop.example.com. * allows all of them, without cookies. Default: none.",
    )
    cors_credentials: bool = Field(
        False,
        description="Whether pages of server.cors_origins may use the browser session (the cookie) too. The cookie is "
        "SameSite=Lax: browsers send it from the same site only, like shop.example.com to api.example.com.",
    )
    web_application: bool = Field(
        True,
        description="Whether the web application is served at /. Off: a browser gets a page that describes the API.",
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="Bearer token that /metrics asks for. Default: none, anybody who reaches it may read it.",
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


class DatabaseSettings(Section):
    dsn: SecretStr | None = Field(
        None,
        description="Address of the central database (PostgreSQL 15 or newer), postgresql://user:password@host/name. "
        "Default: the embedded server in the data directory.",
    )
    connections: int = Field(10, ge=2, le=500, description="Most connections per database and process.")
    # Below a millisecond PostgreSQL would read 0, which means no limit.
    statement_seconds: float = Field(
        30.0, ge=0.001, le=3600, description="Longest time one statement may run, in seconds."
    )
    migrate_on_start: bool = Field(
        True, description="Whether starting brings the schema up to date. Otherwise: callsheet db migrate."
    )

    @field_validator("dsn")
    @classmethod
    def _dsn_is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        # Not urlsplit: its errors quote the address, password included.
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value


class S3Settings(Section):
    bucket: str | None = Field(None, min_length=3, max_length=63, description="Name of the bucket.")
    endpoint_url: WebAddress | None = Field(
        None, description="Address of an S3-compatible service. Default: Amazon's for the region."
    )
    public_endpoint_url: WebAddress | None = Field(
        None,
        description="Address browsers and workers reach the service at, where it differs from endpoint_url.",
    )
    region: str = Field("us-east-1", description="Region of the bucket.")
    access_key_id: str | None = Field(
        None, description="Access key. Default: the AWS chain (environment, profile, instance role)."
    )
    secret_access_key: SecretStr | None = Field(None, description="Secret of the access key.")
    addressing: Literal["path", "virtual"] = Field(
        "path", description="Whether the bucket stands in the path or in the host name."
    )


class StorageSettings(Section):
    backend: Literal["local", "s3"] = Field(
        "local",
        description="Where objects live: files under the data directory, or an S3-compatible service.",
    )
    url_seconds: int = Field(
        900,
        ge=10,
        le=604_800,
        description="How long a signed address is good, in seconds (S3 allows 7 days).",
    )
    max_upload_bytes: int = Field(5_368_709_120, ge=1, description="Largest object that may be uploaded, in bytes.")
    s3: S3Settings = Field(default_factory=S3Settings, description="The S3 backend.")


class MediaSettings(Section):
    allowed_types: MediaTypes = Field(
        ("video/*", "image/*", "audio/*"),
        description="Media types that may be uploaded, comma separated; video/* means every kind of video.",
    )
    upload_hours: int = Field(
        24,
        ge=1,
        le=720,
        description="How long an upload is waited for after its address expired, in hours; then it is swept.",
    )
    pending_uploads_per_user: int = Field(
        100, ge=1, le=100_000, description="Most uploads of one user that may wait to be confirmed."
    )
    max_image_pixels: int = Field(
        100_000_000,
        ge=1,
        le=2**40,
        description="Most pixels (width times height) of an uploaded image, by its header. A small file may ask a "
        "decoder for gigabytes.",
    )
    previews: bool = Field(
        True,
        description="Whether control planes make thumbnails of images, and posters and clips of videos: one at a time, "
        "each about a second of one processor. Videos need PyAV (the extra `previews`).",
    )
    retention_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="How long videos and files are kept after they last changed, in days. Default: for ever.",
    )


class IdentitySettings(Section):
    session_hours: int = Field(336, ge=1, le=8760, description="How long a browser session lasts, in hours.")
    cookie_secure: bool | None = Field(
        None, description="Whether the session cookie needs HTTPS. Default: yes where public_url is https."
    )
    login_attempts: int = Field(
        10,
        ge=1,
        le=1000,
        description="Failed logins at one account from one network address within the window. Then this address waits; "
        "others can still sign in to the account.",
    )
    login_attempts_per_account: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Failed logins at one account from all network addresses within the window. Then each address has "
        "one attempt per window, so that the account's owner is slowed and never locked out.",
    )
    login_attempts_per_address: int = Field(
        50, ge=1, le=100_000, description="Failed logins from one network address within the window, at any account."
    )
    login_log_days: int = Field(
        30, ge=1, le=36_500, description="How long logins and failed logins stay in the audit log, in days."
    )
    audit_log_days: int | None = Field(
        730, ge=1, le=36_500, description="How long the audit log is kept, in days; null keeps it for ever."
    )
    login_window_seconds: int = Field(300, ge=1, le=86_400, description="Length of that window, in seconds.")
    invitation_hours: int = Field(168, ge=1, le=8760, description="How long an invitation can be accepted, in hours.")
    reset_minutes: int = Field(
        60, ge=5, le=10_080, description="How long a link to set a new password works, in minutes."
    )


class MailSettings(Section):
    host: str | None = Field(
        None,
        min_length=1,
        description="SMTP server that sends invitations and password resets. Default: none; links are returned to the "
        "operator or tenant admin who creates them.",
    )
    port: int = Field(587, ge=1, le=65535, description="Port of the SMTP server.")
    username: str | None = Field(None, min_length=1, description="User name at the SMTP server. Default: no login.")
    password: SecretStr | None = Field(None, description="Password at the SMTP server.")
    sender: str | None = Field(
        None,
        pattern=r"^[^\r\n]*@[^\r\n]*$",
        description="Sender of the mails, for example Callsheet <no-reply@example.com>.",
    )
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="How the connection is encrypted: starttls (port 587), tls from the start (port 465), or none.",
    )
    timeout_seconds: float = Field(
        10.0, gt=0, le=60, description="Longest time to wait for the SMTP server, in seconds."
    )


class JobSettings(Section):
    active_per_user: int = Field(
        5,
        ge=1,
        le=100_000,
        description="Most active jobs of effects of one user. Tasks, "
        "typed jobs and runs have limits of their own: `tasks.active_per_user`, `tasks.typed_active_per_user`, "
        "`pipelines.jobs_per_user`.",
    )
    order: Literal["fair", "first_in_first_out"] = Field(
        "fair",
        description="Which job of a priority is next. `fair`: of the tenant with the least in flight relative to its "
        "weight, then of the one served least recently; the same between its users. `first_in_first_out`: the oldest.",
    )
    running_per_tenant: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Most jobs of one tenant that run at once. A tenant may have its own number. Default: no limit.",
    )
    running_per_user: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Most jobs of one user that run at once. A tenant may have its own number. Default: no limit.",
    )
    warm_look_ahead: int = Field(
        8,
        ge=0,
        le=100,
        description="How many jobs that are equally due are looked at for one whose models the worker has loaded. 0 "
        "turns warm models off. Only with the order `fair`.",
    )
    warm_most_passed: int = Field(
        4,
        ge=1,
        le=1000,
        description="Most times in a row that a job is passed over for other jobs, whose models are loaded.",
    )
    lease_seconds: int = Field(
        900,
        ge=15,
        le=86_400,
        description="A job whose worker was silent for so long is given to another worker, in seconds. A workflow may "
        "have its own. Workers learn it with each job, and send three heartbeats in that time.",
    )
    max_attempts: int = Field(
        3, ge=1, le=100, description="Attempts before a job fails. A workflow may have its own number."
    )
    free_requeues: int = Field(
        20,
        ge=0,
        le=10_000,
        description="How many requeues of a job, because its worker was interrupted, do not count as attempts. Later "
        "ones do.",
    )
    lifetime_seconds: int = Field(
        86_400, ge=1, le=31_536_000, description="Longest time from submit to the end of a job, in seconds."
    )
    history_days: int | None = Field(
        90,
        ge=7,
        le=36_500,
        description="How long finished dispatches are kept in the history of the queue, in days; null keeps them for "
        "ever. Keep them for longer than the oldest backup that you would restore.",
    )
    event_days: int | None = Field(
        365,
        ge=1,
        le=36_500,
        description="How long the events of a job are kept after it ended, in days; null keeps them for ever. The job, "
        "its last event and its retries stay.",
    )
    streams_per_user: int = Field(
        100, ge=1, le=100_000, description="Most live streams of one user that a control plane keeps open."
    )
    stream_token_seconds: int = Field(
        300,
        ge=10,
        le=86_400,
        description="How long a stream token can open streams, in seconds. A stream that is open goes on after that.",
    )
    queue_wait_alert_seconds: int = Field(
        900, ge=1, le=31_536_000, description="Admins are alerted when a job has waited longer than this, in seconds."
    )


class FleetSettings(Section):
    secret: SecretStr | None = Field(
        None,
        description="One secret that opens every fleet, stage and workflow to workers; the same on all control planes; "
        "16 characters or more. Registration tokens of fleets are safer: `callsheet fleets tokens create` makes one. "
        "Default: none. Workers on the control plane's own machine may use what `callsheet fleets secret` prints.",
    )
    secret_attempts_per_address: int = Field(
        20,
        ge=1,
        le=100_000,
        description="Wrong fleet secrets and registration tokens per network address within login_window_seconds.",
    )
    auto_approve: bool | None = Field(
        None,
        description="Whether a worker that registers with the shared secret gets jobs before an admin has approved it. "
        "Default: only if it registers over loopback. Workers with a registration token are approved at once.",
    )
    max_workers: int = Field(50, ge=1, le=1_000_000, description="Most workers that may be registered.")
    # A worker that polls with the longest wait is heard of every 55 seconds.
    stale_seconds: int = Field(
        300,
        ge=120,
        le=86_400,
        description="A worker that sent no request for so long and holds no lease is removed, in seconds.",
    )
    answer_envelope: Literal["none", "data"] = Field(
        "none",
        description="With data, answers of the worker protocol have their fields in the field data as well, for worker "
        "programs that look there. A request decides for itself with the header X-Callsheet-Envelope.",
    )
    output_validation: Literal["enforce", "warn"] = Field(
        "enforce",
        description="Whether an output that is missing, empty or not what was declared refuses the completion, or is "
        "only logged.",
    )
    audit_log_days: int | None = Field(
        90, ge=1, le=36_500, description="How long the workers' log is kept, in days; null keeps it for ever."
    )
    # The token of a removed worker is known for 30 days, by its session.
    session_days: int | None = Field(
        365,
        ge=31,
        le=36_500,
        description="How long the sessions of workers are kept after they ended, in days; null keeps them for ever.",
    )
    validate_asg_instance: bool = Field(
        False,
        description="Whether the id of a worker must be that of an instance in an autoscaling group of AWS. Other ids "
        "are refused.",
    )
    asg_fail_open: bool = Field(
        True,
        description="Whether an instance is let in while AWS cannot be asked about it. An alert names such workers.",
    )
    asg_names: Names = Field(
        (), description="The autoscaling groups it may be in, comma separated. Default: any of the account."
    )
    asg_region: str | None = Field(None, description="Their region. Default: that of the AWS chain.")
    asg_endpoint_url: WebAddress | None = Field(None, description="Address to ask instead of Amazon's.")
    asg_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="How long AWS is waited for, in seconds; then fleet.asg_fail_open decides."
    )

    @field_validator("secret")
    @classmethod
    def _secret_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError("must have 16 characters or more, letters, digits and signs without spaces")
        return value


class WebhookSettings(Section):
    """Providers that are called, and that call back."""

    first_look_seconds: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="How long a callback is waited for before the provider is asked, in seconds; then twice as long "
        "each time.",
    )
    longest_look_seconds: float = Field(
        300.0, gt=0, le=86_400, description="Longest time between two such questions, in seconds."
    )
    fetch_seconds: float = Field(
        300.0, gt=0, le=3600, description="Longest time to fetch one file that a provider made, in seconds."
    )
    fetch_window_seconds: float = Field(
        3300.0,
        ge=0,
        le=604_800,
        description="How long fetching is tried again after the provider was done, in seconds. Replicate keeps files "
        "for an hour.",
    )
    calls_at_once: int = Field(
        8, ge=1, le=1000, description="Most calls of one provider that are followed, fetched or canceled at once, each."
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description="Jobs in a row that a provider does not answer before it is paused, failures of one job counting "
        "once. It is paused for the tenant whose jobs failed, and for all where jobs of several tenants failed.",
    )
    breaker_pause_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="How long it is paused then, in seconds; twice as long each time it fails again.",
    )
    breaker_longest_pause_seconds: float = Field(600.0, gt=0, le=86_400, description="Longest pause, in seconds.")
    keep_days: int = Field(
        90, ge=1, le=36_500, description="How long calls that have ended and their callbacks are kept, in days."
    )


class SharingSettings(Section):
    enabled: bool = Field(
        True, description="Whether users may make public links. Switched off, links that exist show nothing."
    )
    link_days: int = Field(
        30, ge=1, le=36_500, description="How long a public link lives unless its owner says otherwise, in days."
    )
    longest_link_days: int = Field(365, ge=1, le=36_500, description="Longest life of a public link, in days.")


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="JSON lines, or coloured text; auto is text on a terminal."
    )


class OutgoingSettings(Section):
    allow_networks: Networks = Field(
        (), description="Private networks that user-supplied addresses may point to, comma separated."
    )
    timeout_seconds: float = Field(30.0, gt=0, le=3600, description="Longest time of one outgoing request, in seconds.")
    max_bytes: int = Field(104_857_600, ge=1, description="Largest answer that is read, in bytes.")
