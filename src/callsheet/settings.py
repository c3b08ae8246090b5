"""One frozen tree of settings: environment over `.env` over TOML over defaults.

Nothing else in Callsheet reads the environment. A wrong value stops the start with a sentence that names the
setting, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from callsheet.toolbox.errors import OperatorError

PREFIX = "CALLSHEET_"
DELIMITER = "__"
CONFIG_FILE = "callsheet.toml"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
# The names machine images of GPU workers set already, without our prefix; ours win.
SHORT_NAMES: Mapping[str, tuple[str, str]] = {
    "API_BASE_URL": ("worker", "api_url"),
    "WORKER_ID": ("worker", "id"),
    "FLEET_SECRET": ("worker", "secret"),
    "FLEET_SLUG": ("worker", "fleet"),
    "FLEET_STAGE": ("worker", "stage"),
    "MAX_CONCURRENCY": ("worker", "max_concurrency"),
    "HEARTBEAT_INTERVAL_SECONDS": ("worker", "heartbeat_seconds"),
    "CAPABILITIES": ("worker", "capabilities"),
    "ASG_NAME": ("worker", "asg_name"),
    "COMFY_CLOUD_API_KEY": ("worker", "cloud_api_key"),
    "COMFYUI_BASE_URL": ("engine", "url"),
}


def _parse_networks(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    # As text: ip_network takes a bare 5 for 0.0.0.5.
    return tuple(ip_network(str(part)) for part in parts) if isinstance(parts, list | tuple) else parts


def _parse_names(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(parts) if isinstance(parts, list) else parts


def _parse_media_types(value: object) -> object:
    parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    return tuple(str(part).lower() for part in parts) if isinstance(parts, list | tuple) else parts


def _are_media_types(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[a-z0-9!#$&^_.+-]+/(\*|[a-z0-9!#$&^_.+-]+)", value):
            raise ValueError("must be media types like video/mp4 or video/*")
    if not values:
        raise ValueError("must name one media type or more")
    return values


def _is_web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be like https://host or http://host:port")
    return value


Network = IPv4Network | IPv6Network
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_parse_networks)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_names)]
MediaTypes = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_media_types), AfterValidator(_are_media_types)]
WebAddress = Annotated[str, AfterValidator(_is_web_address)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="Address the control plane listens on.")
    port: int = Field(8400, ge=0, le=65535, description="Port the control plane listens on; 0 takes a free one.")
    public_url: WebAddress | None = Field(
        None, description="Address people and workers reach it at, without a path. Default: http://host:port."
    )
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest JSON body accepted, in bytes.")
    max_header_bytes: int = Field(
        32_768, ge=4096, le=8_388_608, description="Largest request line and headers together, in bytes."
    )
    shutdown_seconds: float = Field(
        10.0, ge=0, le=600, description="How long running requests may finish after a stop, in seconds."
    )
    trusted_proxies: Networks = Field(
        (), description="Networks of the load balancers whose X-Forwarded-For is believed, comma separated."
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="Bearer token that /metrics asks for. Default: none, anybody who reaches it may read it.",
    )

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
        10, ge=1, le=1000, description="Failed logins per account within the window before it has to wait."
    )
    login_attempts_per_address: int = Field(
        50, ge=1, le=100_000, description="Failed logins per network address within the window."
    )
    login_window_seconds: int = Field(300, ge=1, le=86_400, description="Length of that window, in seconds.")


class JobSettings(Section):
    active_per_user: int = Field(5, ge=1, le=100_000, description="Most jobs of one user that may be under way.")
    lifetime_seconds: int = Field(
        86_400, ge=1, le=31_536_000, description="Longest time from submit to the end of a job, in seconds."
    )
    streams_per_user: int = Field(
        100, ge=1, le=100_000, description="Most live streams of one user that a control plane keeps open."
    )
    queue_wait_alert_seconds: int = Field(
        900, ge=1, le=31_536_000, description="Admins are alerted when a job has waited longer than this, in seconds."
    )


class FleetSettings(Section):
    secret: SecretStr | None = Field(
        None,
        description="What workers register with; the same on every control plane; 16 characters or more. "
        "Default: derived from secret_key; `callsheet fleets secret` prints it.",
    )
    secret_attempts_per_address: int = Field(
        20, ge=1, le=100_000, description="Wrong fleet secrets per network address within login_window_seconds."
    )
    auto_approve: bool = Field(True, description="Whether a new worker gets jobs before an admin has approved it.")
    max_workers: int = Field(50, ge=1, le=1_000_000, description="Most workers that may be registered.")
    # A worker that polls with the longest wait is heard of every 55 seconds.
    stale_seconds: int = Field(
        300, ge=120, le=86_400, description="A worker not heard of for so long is removed, in seconds."
    )
    output_validation: Literal["enforce", "warn"] = Field(
        "enforce",
        description="Whether an output that is missing, empty or not what was declared refuses the completion, or is "
        "only logged.",
    )
    audit_log_days: int | None = Field(
        90, ge=1, le=36_500, description="How long the workers' log is kept, in days. Null: for ever."
    )
    validate_asg_instance: bool = Field(
        False, description="Whether a worker whose id is like i-… must be in an autoscaling group of AWS."
    )
    asg_names: Names = Field(
        (), description="The autoscaling groups it may be in, comma separated. Default: any of the account."
    )
    asg_region: str | None = Field(None, description="Their region. Default: that of the AWS chain.")
    asg_endpoint_url: WebAddress | None = Field(None, description="Address to ask instead of Amazon's.")
    asg_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="How long AWS is waited for, in seconds; then the worker is let in."
    )

    @field_validator("secret")
    @classmethod
    def _secret_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]{16,}", value.get_secret_value()):
            raise ValueError("must have 16 characters or more, letters, digits and signs without spaces")
        return value


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


class EngineSettings(Section):
    url: WebAddress = Field("http://127.0.0.1:8188", description="Address of the ComfyUI engine on this machine.")
    directory: Path | None = Field(
        None,
        description="The engine's own directory, the one with input and output in it, where it is on this machine: "
        "then what a job left there is removed after it. Default: nothing is.",
    )
    stall_seconds: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="An engine that has said nothing of a running job for so long is taken for stuck, in seconds.",
    )
    absent_seconds: float = Field(
        120.0,
        ge=1,
        le=3600,
        description="How long an engine may be unreachable before its job is put back, in seconds.",
    )


class WorkerSettings(Section):
    """What `callsheet worker` needs. Several have a second, shorter variable (see `SHORT_NAMES`)."""

    api_url: WebAddress | None = Field(
        None, description="Address of the control plane. Default: that of server.public_url. Also: API_BASE_URL."
    )
    id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$",
        description="The worker's own name, the same after a restart. Default: the host's name. Also: WORKER_ID.",
    )
    secret: SecretStr | None = Field(
        None,
        description="The fleet secret it registers with; `callsheet fleets secret` prints it on the control plane. "
        "Also: FLEET_SECRET.",
    )
    fleet: str | None = Field(None, description="Slug of the fleet it belongs to. Also: FLEET_SLUG.")
    stage: str = Field("production", description="Stage of that fleet. Also: FLEET_STAGE.")
    workflows: Names = Field((), description="Or the workflows it serves without a fleet, comma separated.")
    max_concurrency: int = Field(1, ge=1, le=10_000, description="Jobs its engine gets at once. Also: MAX_CONCURRENCY.")
    heartbeat_seconds: float = Field(
        30.0,
        ge=0.1,
        le=300,
        description="Longest time between two heartbeats of a job, in seconds; a third of the lease where that is "
        "shorter. Also: HEARTBEAT_INTERVAL_SECONDS.",
    )
    prefetch: bool = Field(
        True, description="Whether it takes one job more than it runs, to fetch its files while the engine works."
    )
    capabilities: dict[str, Any] = Field(
        default_factory=dict,
        description='What admins should know of the machine, as JSON: {"gpu": "RTX 4090"}. Also: CAPABILITIES.',
    )
    capacity_type: Literal["spot", "on-demand"] | None = Field(
        None, description="How the machine is paid for. Default: not said."
    )
    instance_type: str | None = Field(None, description="Kind of machine. Default: what EC2 says, if it is one.")
    cloud_api_key: SecretStr | None = Field(
        None,
        description="Key of Comfy Cloud: then jobs of the provider `cloud` are run there, and no engine is needed. "
        "Also: COMFY_CLOUD_API_KEY.",
    )
    cloud_url: WebAddress = Field("https://cloud.comfy.org", description="Address of Comfy Cloud.")
    cache_bytes: int = Field(
        10_737_418_240, ge=0, description="Most bytes of downloaded files it keeps for later jobs; 0 keeps none."
    )
    stop_seconds: float = Field(
        20.0,
        ge=0,
        le=86_400,
        description="How long running jobs may finish after a stop, in seconds; then they go back to the queue.",
    )
    asg_name: str | None = Field(
        None,
        description="Autoscaling group that must not end this machine while a job runs. Also: ASG_NAME.",
    )
    asg_region: str | None = Field(None, description="Its region. Default: that of the AWS chain.")
    asg_endpoint_url: WebAddress | None = Field(None, description="Address to ask instead of Amazon's.")
    metadata_url: WebAddress | None = Field(
        "http://169.254.169.254",
        description="Where EC2 announces that it takes the machine away; looked at where it answers.",
    )
    metadata_seconds: float = Field(5.0, gt=0, le=60, description="How often that is looked at, in seconds.")


class ClientSettings(Section):
    """What `callsheet submit` and `callsheet watch` need."""

    url: WebAddress | None = Field(
        None, description="Address of the control plane that jobs are sent to. Default: that of server.public_url."
    )
    api_key: SecretStr | None = Field(
        None,
        description="Whose jobs they are; `callsheet keys create` makes one. Default: the demo's, on its own machine.",
    )

    @field_validator("api_key")
    @classmethod
    def _api_key_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be letters, digits and signs without spaces")
        return value


class LightboxSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on. There is no login: keep it local.")
    port: int = Field(8188, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    directory: Path | None = Field(
        None, description="Where input, output and temp are. Default: `lightbox` in the data directory."
    )
    max_upload_megabytes: int = Field(100, ge=1, le=100_000, description="Largest upload and prompt, in megabytes.")
    as_cloud: bool = Field(False, description="Answer as Comfy Cloud does instead of as ComfyUI.")
    cloud_api_key: SecretStr = Field(
        SecretStr("lightbox"),
        description="The key that is asked for when answering as Comfy Cloud. Default: `lightbox`.",
    )
    probes: bool = Field(False, description="For tests: offer nodes that sleep, fail and block on purpose.")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, env_file=".env", frozen=True, extra="ignore"
    )

    home: Path = Field(Path(".callsheet"), description="The data directory.")
    secret_key: SecretStr | None = Field(
        None,
        description="Signs addresses and sessions; the same on every control plane; 32 characters or more. "
        "Default: made at first start and kept in the data directory.",
    )
    failpoints: str = Field("", description="For tests: failpoints that end the process, comma separated.")
    server: ServerSettings = Field(default_factory=ServerSettings, description="The control plane's HTTP server.")
    database: DatabaseSettings = Field(default_factory=DatabaseSettings, description="PostgreSQL.")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Object storage.")
    media: MediaSettings = Field(default_factory=MediaSettings, description="Uploads, videos and what is kept of them.")
    identity: IdentitySettings = Field(default_factory=IdentitySettings, description="Logins and sessions.")
    jobs: JobSettings = Field(default_factory=JobSettings, description="Jobs.")
    fleet: FleetSettings = Field(default_factory=FleetSettings, description="Workers and fleets.")
    log: LogSettings = Field(default_factory=LogSettings, description="Logs.")
    outgoing: OutgoingSettings = Field(
        default_factory=OutgoingSettings, description="Requests to addresses that users supplied."
    )
    engine: EngineSettings = Field(default_factory=EngineSettings, description="The engine beside a worker.")
    lightbox: LightboxSettings = Field(
        default_factory=LightboxSettings, description="The built-in engine that renders without a GPU."
    )
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="The worker on this machine.")
    client: ClientSettings = Field(default_factory=ClientSettings, description="Commands that send and watch jobs.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            env_settings,
            dotenv_settings,
            _ShortNames(settings_cls),
            TomlConfigSettingsSource(settings_cls, _config_file()),
        )

    @field_validator("secret_key")
    @classmethod
    def _secret_key_is_long(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 32:
            raise ValueError("must have 32 characters or more")
        return value

    @field_validator("home", mode="before")
    @classmethod
    def _home_is_named(cls, value: object) -> object:
        # An empty path would mean the current directory, which nobody means by it.
        if value == "":
            raise ValueError("must name a directory")
        return value

    @field_validator("home")
    @classmethod
    def _home_is_absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        s3 = self.storage.s3
        if self.storage.backend == "s3" and not s3.bucket:
            raise ValueError("storage.backend is 's3', so storage.s3.bucket must name a bucket")
        if (s3.access_key_id is None) != (s3.secret_access_key is None):
            raise ValueError("storage.s3.access_key_id and storage.s3.secret_access_key go together")
        if self.identity.cookie_secure and self.public_url.startswith("http://"):
            raise ValueError(
                f"identity.cookie_secure is true, but server.public_url is {self.public_url!r}: "
                "browsers would never send the cookie; serve over https or leave cookie_secure out"
            )
        return self

    @property
    def public_url(self) -> str:
        host = "127.0.0.1" if self.server.host in ("0.0.0.0", "::") else self.server.host  # noqa: S104
        return self.server.public_url or f"http://{f'[{host}]' if ':' in host else host}:{self.server.port}"

    @property
    def cookie_secure(self) -> bool:
        given = self.identity.cookie_secure
        return self.public_url.startswith("https://") if given is None else given


class _ShortNames(PydanticBaseSettingsSource):
    """`SHORT_NAMES` in the environment or `.env`. An empty one is as good as none."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, (_, value) in _short_variables().items():
            section, setting = SHORT_NAMES[name]
            values.setdefault(section, {})[setting] = _decoded(value) if setting == "capabilities" else value
        return values


def _decoded(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return value


class SettingsError(OperatorError):
    """The settings cannot be used. Each line says which, what it is, and what is allowed."""


def load_settings(**overrides: Any) -> Settings:
    """Reads the settings; `overrides` (options of the command line) win over every source."""
    unknown = [*_unknown_variables(), *_unknown_sections()]
    if unknown:
        raise SettingsError("\n".join(unknown))
    try:
        return Settings(**overrides)
    except ValidationError as invalid:
        raise SettingsError("\n".join(_sentence(error, overrides) for error in invalid.errors())) from None


def setting_fields(
    model: type[BaseModel] = Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every leaf of the tree with its path, in the order of the source."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from setting_fields(field.annotation, (*path, name))
        else:
            yield (*path, name), field


def variable_name(path: Sequence[str]) -> str:
    return PREFIX + DELIMITER.join(path).upper()


def _variables() -> dict[str, tuple[str, str | None]]:
    """Every variable of ours by its upper-case name, with where it comes from."""
    return {name: found for name, found in _given_variables().items() if name.startswith(PREFIX)}


def _short_variables() -> dict[str, tuple[str, str]]:
    given = _given_variables()
    return {name: (given[name][0], value) for name in SHORT_NAMES if name in given and (value := given[name][1])}


def _given_variables() -> dict[str, tuple[str, str | None]]:
    """Every variable by its upper-case name, with where it comes from; the environment wins over `.env`."""
    try:
        from_file = dotenv_values(".env")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f".env cannot be read: {error}.") from None
    given = {name.upper(): (".env", value) for name, value in from_file.items()}
    return given | {name.upper(): ("the environment", value) for name, value in os.environ.items()}


def _config_file() -> Path:
    _, named = _variables().get(CONFIG_VARIABLE, ("", None))
    return Path(named or CONFIG_FILE)


def _read_config(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as broken:
        raise SettingsError(f"{file} is not valid TOML: {broken}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None


def _unknown_variables() -> Iterator[str]:
    # A misspelt variable that is silently ignored is the worst kind of configuration error.
    known = {variable_name(path) for path, _ in setting_fields()} | {CONFIG_VARIABLE}
    for name, (source, _) in sorted(_variables().items()):
        if name not in known:
            yield f"{name} (from {source}) is not a setting. {_hint(name, known)}"


def _unknown_sections() -> Iterator[str]:
    file, known = _config_file(), Settings.model_fields.keys()
    if not file.exists():
        if CONFIG_VARIABLE in _variables():
            yield f"{CONFIG_VARIABLE} is {str(file)!r}: there is no such file."
        return
    for name in _read_config(file).keys() - known:
        yield f"{name} in {file} is not a setting. {_hint(name, known)}"


def _hint(name: str, known: Iterable[str]) -> str:
    # Without the prefix they all share, which would make anything look close.
    full = {each.removeprefix(PREFIX): each for each in known}
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), full, n=1)
    return f"Did you mean {full[nearest[0]]}?" if nearest else "`callsheet settings` lists them all."


def _sentence(error: ErrorDetails, overrides: Mapping[str, Any]) -> str:
    path = [part for part in error["loc"] if isinstance(part, str)]
    reason = re.sub(r"^(Value error, |(Input|String|Value)(?= should))", lambda m: "it" if m[2] else "", error["msg"])
    if error["type"] == "extra_forbidden":
        name = ".".join(path)
        hint = _hint(name, [".".join(names) for names, _ in setting_fields()])
        return f"{name} in {_config_file()} is not a setting. {hint}"
    leaf = _leaf(path)
    if leaf is None:
        # Not with its value, which may hold a secret somewhere.
        return f"{'.'.join(path)} in {_config_file()} must be a table of settings." if path else f"{reason}."
    names, field = leaf
    secret = "SecretStr" in str(field.annotation)
    value = "***" if secret else repr(error["input"])
    name, source = _source(names, overrides)
    return f"{name} is {value} (from {source}): {reason}. {field.description}"


def _leaf(path: Sequence[str]) -> tuple[tuple[str, ...], FieldInfo] | None:
    # pydantic's location goes on into unions and items: the longest setting that is a prefix of it is meant.
    for names, field in setting_fields():
        if tuple(path[: len(names)]) == names:
            return names, field
    return None


def _source(names: Sequence[str], overrides: Mapping[str, Any]) -> tuple[str, str]:
    """What the setting was called where its value comes from, and where that is."""
    own = variable_name(names)
    if _is_given(names, overrides):
        return own, "the command line"
    if own in _variables():
        return own, _variables()[own][0]
    for short, (source, _) in _short_variables().items():
        if SHORT_NAMES[short] == tuple(names):
            return short, source
    return own, str(_config_file())


def _is_given(names: Sequence[str], overrides: object) -> bool:
    if not names:
        return True
    return isinstance(overrides, Mapping) and names[0] in overrides and _is_given(names[1:], overrides[names[0]])
