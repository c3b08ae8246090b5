"""The sections of the settings that a control plane reads."""

from __future__ import annotations

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from callsheet.settings.values import MediaTypes, Names, Networks, Origins
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


class DatabaseSettings(Section):
    dsn: SecretStr | None = Field(
        None,
        description="URL of the central database (PostgreSQL 15 or newer): postgresql://user:password@host/name. "
        "Default: the embedded server in the data directory.",
    )
    connections: int = Field(
        10,
        ge=2,
        le=500,
        description="Largest number of connections per database and process. Three in ten of them, at least one, are "
        "only for lists, overviews and sweeps.",
    )
    # Below a millisecond, PostgreSQL would read 0, which means no limit.
    statement_seconds: float = Field(30.0, ge=0.001, le=3600, description="Timeout of one statement, in seconds.")
    migrate_on_start: bool = Field(
        True, description="Whether a start migrates the schema. If not, run: callsheet db migrate."
    )

    @field_validator("dsn")
    @classmethod
    def _dsn_is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        # urlsplit is not used: its errors contain the URL with the password.
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value


class S3Settings(Section):
    bucket: str | None = Field(None, min_length=3, max_length=63, description="Name of the bucket.")
    endpoint_url: WebAddress | None = Field(
        None, description="URL of an S3-compatible service. Default: the URL of Amazon S3 in the region."
    )
    public_endpoint_url: WebAddress | None = Field(
        None,
        description="URL at which browsers and workers reach the service, if it differs from endpoint_url.",
    )
    region: str = Field("us-east-1", description="Region of the bucket.")
    access_key_id: str | None = Field(
        None, description="Access key. Default: the AWS chain (environment, profile, instance role)."
    )
    secret_access_key: SecretStr | None = Field(None, description="Secret of the access key.")
    addressing: Literal["path", "virtual"] = Field(
        "path", description="Whether the name of the bucket is in the path or in the host name of a URL."
    )


class StorageSettings(Section):
    backend: Literal["local", "s3"] = Field(
        "local",
        description="Where objects are stored: in files under the data directory, or in an S3-compatible service.",
    )
    url_seconds: int = Field(
        900,
        ge=10,
        le=604_800,
        description="How long a signed URL is valid, in seconds (S3 allows 7 days).",
    )
    max_upload_bytes: int = Field(5_368_709_120, ge=1, description="Largest object that may be uploaded, in bytes.")
    slow_seconds: float = Field(
        3.0,
        gt=0,
        le=3600,
        description="Time after which a call of the storage is slow, in seconds. If more than half of ten or more "
        "calls within five minutes are slow, admins get an alert. Transfers of large objects do not count.",
    )
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
        description="How long an unconfirmed upload is kept after its URL expired, in hours. Then it is deleted.",
    )
    pending_uploads_per_user: int = Field(
        100, ge=1, le=100_000, description="Largest number of unconfirmed uploads of one user."
    )
    max_image_pixels: int = Field(
        100_000_000,
        ge=1,
        le=2**40,
        description="Largest number of pixels (width times height) of an uploaded image, by its header. A small file "
        "can make a decoder use gigabytes.",
    )
    previews: bool = Field(
        True,
        description="Whether control planes make thumbnails of images, posters and clips of videos, and waveforms of "
        "audio files: one at a time, each about a second of one processor. Videos and audio files need PyAV (the extra "
        "`previews`).",
    )
    retention_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="How long videos and files are kept after their last change, in days. Default: forever.",
    )


class IdentitySettings(Section):
    session_hours: int = Field(336, ge=1, le=8760, description="How long a browser session lasts, in hours.")
    cookie_secure: bool | None = Field(
        None, description="Whether the session cookie requires HTTPS. Default: yes if public_url is https."
    )
    login_attempts: int = Field(
        10,
        ge=1,
        le=1000,
        description="Allowed failed logins at one account from one network address within the window. After that "
        "this network address must wait; others can still sign in to the account.",
    )
    login_attempts_per_account: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Allowed failed logins at one account from all network addresses within the window. After that "
        "each network address has one attempt per window, so the account's owner is slowed down but "
        "never locked out.",
    )
    login_attempts_per_address: int = Field(
        50,
        ge=1,
        le=100_000,
        description="Allowed failed logins from one network address within the window, at any account.",
    )
    login_log_days: int = Field(
        30, ge=1, le=36_500, description="How long logins and failed logins are kept in the audit log, in days."
    )
    audit_log_days: int | None = Field(
        730, ge=1, le=36_500, description="How long the audit log is kept, in days. Null: forever."
    )
    login_window_seconds: int = Field(
        300, ge=1, le=86_400, description="Length of the window for failed logins, in seconds."
    )
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
    username: str | None = Field(None, min_length=1, description="User name for the SMTP server. Default: no login.")
    password: SecretStr | None = Field(None, description="Password for the SMTP server.")
    sender: str | None = Field(
        None,
        pattern=r"^[^\r\n]*@[^\r\n]*$",
        description="Sender of the e-mails, for example Callsheet <no-reply@example.com>.",
    )
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="How the connection is encrypted: starttls (port 587), tls from the start (port 465), or none.",
    )
    timeout_seconds: float = Field(10.0, gt=0, le=60, description="Timeout of the SMTP server, in seconds.")


class JobSettings(Section):
    active_per_user: int = Field(
        5,
        ge=1,
        le=100_000,
        description="Largest number of active effect jobs of one user. Tasks, typed jobs and runs have their own "
        "limits: `tasks.active_per_user`, `tasks.typed_active_per_user`, `pipelines.jobs_per_user`.",
    )
    submits_per_minute: int | None = Field(
        600,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs and tasks that one user may submit in a minute. One more gets 429 with "
        "Retry-After. Jobs that runs start by themselves do not count. Null: no limit.",
    )
    order: Literal["fair", "first_in_first_out"] = Field(
        "fair",
        description="Which job is next within a priority. `fair`: a job of the tenant with the fewest running jobs "
        "relative to its weight, then of the tenant that was served least recently. The same rule "
        "applies between the users of a tenant. `first_in_first_out`: the oldest job.",
    )
    running_per_tenant: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs of one tenant that run at once. A tenant may have its own limit. "
        "Default: no limit.",
    )
    running_per_user: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Largest number of jobs of one user that run at once. A tenant may have its own limit. Default: "
        "no limit.",
    )
    warm_look_ahead: int = Field(
        8,
        ge=0,
        le=100,
        description="Number of equally due jobs among which the queue looks for a job whose models the worker has "
        "loaded. 0 turns warm models off. Only with the order `fair`.",
    )
    warm_max_passed: int = Field(
        4,
        ge=1,
        le=1000,
        description="How often in a row a job may be passed over for jobs whose models are loaded.",
    )
    lease_seconds: int = Field(
        900,
        ge=15,
        le=86_400,
        description="Lease time, in seconds. If a worker sends no heartbeat for this time, another worker gets the "
        "job. A workflow may have its own lease time. Workers send three heartbeats within it.",
    )
    max_attempts: int = Field(
        3, ge=1, le=100, description="Number of attempts before a job fails. A workflow may have its own number."
    )
    free_requeues: int = Field(
        20,
        ge=0,
        le=10_000,
        description="Number of requeues because of an interrupted worker that do not count as attempts. Later ones "
        "count.",
    )
    lifetime_seconds: int = Field(
        86_400, ge=1, le=31_536_000, description="Longest time from submit to the end of a job, in seconds."
    )
    history_days: int | None = Field(
        90,
        ge=7,
        le=36_500,
        description="How long finished dispatches are kept in the history of the queue, in days. Null: forever. Keep "
        "them longer than the oldest backup that you would restore.",
    )
    event_days: int | None = Field(
        365,
        ge=1,
        le=36_500,
        description="How long the events of a job are kept after it ended, in days. Null: forever. The job, its last "
        "event and its retries stay.",
    )
    streams_per_user: int = Field(
        100, ge=1, le=100_000, description="Largest number of open live streams of one user per control plane."
    )
    stream_token_seconds: int = Field(
        300,
        ge=10,
        le=86_400,
        description="How long a stream token can open streams, in seconds. A stream that is already open continues "
        "after that.",
    )
    queue_wait_alert_seconds: int = Field(
        900, ge=1, le=31_536_000, description="Waiting time of a job after which admins get an alert, in seconds."
    )
    error_share_alert: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="Share of failed jobs of a workflow or of a provider in the last hour, from 0 to 1, above which "
        "admins get an alert. For runs of pipelines, see pipelines.error_share_alert.",
    )
    error_jobs_alert: int = Field(
        10,
        ge=1,
        le=50_000,
        description="Number of finished jobs from which a share of failed jobs raises an alert: of a workflow, of a "
        "provider, or of runs of pipelines.",
    )


class FleetSettings(Section):
    secret: SecretStr | None = Field(
        None,
        description="Shared secret with which workers can join every fleet, stage and workflow. It has 16 characters "
        "or more and is the same on all control planes. Registration tokens of fleets are safer: create "
        "one with `callsheet fleets tokens create`. Default: none. Workers on the control plane's "
        "machine can use the secret that `callsheet fleets secret` prints.",
    )
    secret_attempts_per_address: int = Field(
        20,
        ge=1,
        le=100_000,
        description="Allowed wrong fleet secrets and registration tokens per network address within "
        "login_window_seconds.",
    )
    auto_approve: bool | None = Field(
        None,
        description="Whether a worker that registers with the shared secret gets jobs before an admin has approved it. "
        "Default: only if it registers over loopback. Workers with a registration token are approved at once.",
    )
    max_workers: int = Field(
        50,
        ge=1,
        le=1_000_000,
        description="Largest number of registered workers, of all fleets together. In-process workers of control "
        "planes do not count.",
    )
    # A worker that polls with the longest wait sends a request every 55 seconds.
    stale_seconds: int = Field(
        300,
        ge=120,
        le=86_400,
        description="A worker that holds no lease and sent no request for this time is removed, in seconds.",
    )
    answer_envelope: Literal["none", "data"] = Field(
        "none",
        description="With `data`, responses of the worker protocol also have all their fields inside the field "
        "`data`, for worker programs that expect them there. The header X-Callsheet-Envelope of a "
        "request overrides this setting.",
    )
    output_validation: Literal["enforce", "warn"] = Field(
        "enforce",
        description="Whether a completion is refused if an output is missing, empty or not as declared (enforce), or "
        "only logged (warn).",
    )
    audit_log_days: int | None = Field(
        90, ge=1, le=36_500, description="How long worker events are kept, in days. Null: forever."
    )
    # The session of a removed worker keeps its token for 30 days.
    session_days: int | None = Field(
        365,
        ge=31,
        le=36_500,
        description="How long ended sessions of workers are kept, in days. Null: forever.",
    )
    validate_asg_instance: bool = Field(
        False,
        description="Whether a worker's id must be the id of an instance in an AWS autoscaling group. Other ids are "
        "refused.",
    )
    asg_fail_open: bool = Field(
        True,
        description="Whether an instance may register while AWS is not reachable to verify it. An alert names such "
        "workers.",
    )
    asg_names: Names = Field(
        (), description="Allowed autoscaling groups, comma separated. Default: all groups of the account."
    )
    asg_region: str | None = Field(
        None, description="Region of the autoscaling groups. Default: the region of the AWS chain."
    )
    asg_endpoint_url: WebAddress | None = Field(None, description="URL of the autoscaling API. Default: Amazon's.")
    asg_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="Timeout for AWS, in seconds. After that fleet.asg_fail_open decides."
    )

    @field_validator("secret")
    @classmethod
    def _secret_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError("must have 16 characters or more, letters, digits and signs without spaces")
        return value


class WebhookSettings(Section):
    """Providers that call back."""

    first_look_seconds: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="How long to wait for a callback before the provider is polled, in seconds. The time doubles "
        "with each poll.",
    )
    longest_look_seconds: float = Field(
        300.0, gt=0, le=86_400, description="Longest time between two polls, in seconds."
    )
    fetch_seconds: float = Field(
        300.0, gt=0, le=3600, description="Timeout for fetching one file of a provider, in seconds."
    )
    fetch_window_seconds: float = Field(
        3300.0,
        ge=0,
        le=604_800,
        description="How long fetching is retried after the provider finished, in seconds. Replicate keeps files for "
        "an hour.",
    )
    calls_at_once: int = Field(
        8,
        ge=1,
        le=1000,
        description="Largest number of calls of one provider that are polled at once, fetched at "
        "once, and canceled at once.",
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description="Number of failed jobs in a row before a provider is paused. Several failures of one job count "
        "once. The provider is paused for the tenant whose jobs failed, or for all tenants if jobs of "
        "several tenants failed.",
    )
    breaker_pause_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="Length of the first pause of a provider, in seconds. The length doubles with each further "
        "failure.",
    )
    breaker_max_pause_seconds: float = Field(
        600.0, gt=0, le=86_400, description="Longest pause of a provider, in seconds."
    )
    keep_days: int = Field(
        90, ge=1, le=36_500, description="How long finished calls and their callbacks are kept, in days."
    )


class SharingSettings(Section):
    enabled: bool = Field(
        True, description="Whether users may create public links. If switched off, existing links show nothing."
    )
    link_days: int = Field(
        30, ge=1, le=36_500, description="Days until a public link expires, if its owner chooses no other number."
    )
    max_link_days: int = Field(
        365, ge=1, le=36_500, description="Longest time until a public link expires that its owner may choose, in days."
    )


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
