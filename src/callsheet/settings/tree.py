"""The frozen tree: every section under its name, and what of it must fit together."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from callsheet.providers.config import ProvidersConfig
from callsheet.settings.alerts import AlertSettings, StatisticsSettings
from callsheet.settings.deliveries import DeliverySettings
from callsheet.settings.fleet import FleetSettings, ScalingSettings
from callsheet.settings.identity import IdentitySettings, MailSettings
from callsheet.settings.installation_search import find_place, short_variables
from callsheet.settings.jobs import JobSettings, SharingSettings, WebhookSettings
from callsheet.settings.machines import ClientSettings, EngineSettings, LightboxSettings, WorkerSettings
from callsheet.settings.pipelines import PipelineSettings
from callsheet.settings.server import LogSettings, OutgoingSettings, ServerSettings
from callsheet.settings.storage import DatabaseSettings, DiskSettings, MediaSettings, QuotaSettings, StorageSettings
from callsheet.settings.tasks import TaskSettings
from callsheet.settings.variables import DELIMITER, PREFIX, SHORT_NAMES
from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.sections import Section


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter=DELIMITER, frozen=True, extra="ignore")

    home: Path = Field(Path(".callsheet"), description="The data directory.")
    secret_key: SecretStr | None = Field(
        None,
        description="Key that signs URLs and sessions. It has 32 characters or more and is the same on every control "
        "plane. Default: created at the first start and kept in the data directory.",
    )
    second_secret_key: SecretStr | None = Field(
        None,
        description="Second key that is accepted during a rotation of the secret key, but never used to sign. "
        "Default: the file second_secret_key in the data directory, if it exists.",
    )
    failpoints: str = Field("", description="For tests: failpoints that end the process, comma separated.")
    server: ServerSettings = Field(default_factory=ServerSettings, description="The control plane's HTTP server.")
    database: DatabaseSettings = Field(default_factory=DatabaseSettings, description="PostgreSQL.")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Object storage.")
    disk: DiskSettings = Field(default_factory=DiskSettings, description="Free space of disks.")
    media: MediaSettings = Field(
        default_factory=MediaSettings, description="Uploads, videos and how long they are kept."
    )
    identity: IdentitySettings = Field(default_factory=IdentitySettings, description="Logins and sessions.")
    mail: MailSettings = Field(default_factory=MailSettings, description="E-mails to users.")
    jobs: JobSettings = Field(default_factory=JobSettings, description="Jobs.")
    fleet: FleetSettings = Field(default_factory=FleetSettings, description="Workers and fleets.")
    scaling: ScalingSettings = Field(
        default_factory=ScalingSettings, description="Scaling of fleets, and the programs that start their workers."
    )
    tasks: TaskSettings = Field(default_factory=TaskSettings, description="Tasks and typed generation.")
    pipelines: PipelineSettings = Field(
        default_factory=PipelineSettings, description="Pipeline runs and their scheduler."
    )
    statistics: StatisticsSettings = Field(
        default_factory=StatisticsSettings, description="Counts and samples for the charts of operators."
    )
    alerts: AlertSettings = Field(default_factory=AlertSettings, description="Messages about alerts to operators.")
    quotas: QuotaSettings = Field(
        default_factory=QuotaSettings,
        description="Default limits for tenants and users. An operator can set other limits for a tenant.",
    )
    providers: ProvidersConfig = Field(
        default_factory=ProvidersConfig, description="Providers that run tasks: services, engines and other packages."
    )
    webhooks: WebhookSettings = Field(
        default_factory=WebhookSettings, description="Calls to providers, their callbacks and pauses."
    )
    deliveries: DeliverySettings = Field(
        default_factory=DeliverySettings, description="Webhooks to users: events of jobs, sent to their endpoints."
    )
    sharing: SharingSettings = Field(default_factory=SharingSettings, description="Public links to results.")
    log: LogSettings = Field(default_factory=LogSettings, description="Logs.")
    outgoing: OutgoingSettings = Field(
        default_factory=OutgoingSettings, description="Requests to URLs that users sent."
    )
    engine: EngineSettings = Field(default_factory=EngineSettings, description="The engine of a worker.")
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
        place = find_place()
        return (
            init_settings,
            env_settings,
            DotEnvSettingsSource(settings_cls, env_file=place.env_file),
            _ShortNames(settings_cls),
            TomlConfigSettingsSource(settings_cls, place.config),
        )

    @field_validator("secret_key", "second_secret_key")
    @classmethod
    def _secret_key_is_long(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 32:
            raise ValueError("must have 32 characters or more")
        return value

    @field_validator("home", mode="before")
    @classmethod
    def _home_is_named(cls, value: object) -> object:
        # An empty path would mean the current directory, which no operator means by it.
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
        if self.database.direct_dsn is not None and self.database.dsn is None:
            raise ValueError("database.direct_dsn is set, so database.dsn must name the same database by its pooler")
        if self.storage.backend == "s3" and not s3.bucket:
            raise ValueError("storage.backend is 's3', so storage.s3.bucket must name a bucket")
        if (s3.access_key_id is None) != (s3.secret_access_key is None):
            raise ValueError("storage.s3.access_key_id and storage.s3.secret_access_key go together")
        if self.mail.host is not None and self.mail.sender is None:
            raise ValueError("mail.host is set, so mail.sender must name the sender of the mails")
        if self.tasks.heartbeat_seconds * 3 > self.tasks.lease_seconds:
            raise ValueError(
                "tasks.heartbeat_seconds must be at most a third of tasks.lease_seconds, or two late ones end a task"
            )
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
    def serves_other_machines(self) -> bool:
        """Whether other machines reach the control plane: directly, or through a proxy that `public_url` names."""
        return not (is_loopback(self.server.host) and is_loopback(urlsplit(self.public_url).hostname or ""))

    @property
    def cookie_secure(self) -> bool:
        given = self.identity.cookie_secure
        return self.public_url.startswith("https://") if given is None else given


class _ShortNames(PydanticBaseSettingsSource):
    """`SHORT_NAMES` in the environment or `.env`. An empty value counts as unset."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, (_, value) in short_variables().items():
            section, setting = SHORT_NAMES[name]
            values.setdefault(section, {})[setting] = _decoded(value) if setting == "capabilities" else value
        return values


def _decoded(value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        return value


def setting_fields(
    model: type[BaseModel] = Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every leaf of the tree with its path, in the order of the source."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from setting_fields(field.annotation, (*path, name))
        else:
            yield (*path, name), field


def is_table(field: FieldInfo) -> bool:
    """Whether it holds settings by names that are not known beforehand."""
    return typing.get_origin(field.annotation) is dict
