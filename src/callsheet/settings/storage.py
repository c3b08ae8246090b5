"""Settings of what is stored: databases, files and media, free space, and quotas of tenants and users."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from callsheet.settings.values import MediaTypes
from callsheet.toolbox.disk_space import GIBIBYTE, MEBIBYTE
from callsheet.toolbox.sections import Section, WebAddress


class DatabaseSettings(Section):
    dsn: SecretStr | None = Field(
        None,
        description="URL of the central database (PostgreSQL 15 or newer): postgresql://user:password@host/name. "
        "Default: the embedded server in the data directory.",
    )
    direct_dsn: SecretStr | None = Field(
        None,
        description="URL of the same database without a pooler, if dsn goes through one in transaction mode. "
        "Notifications, migrations, commands, lists and sweeps use it. Default: dsn.",
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
    standby_lag_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Operators get an alert if a standby of a database is behind or gone for longer, in seconds.",
    )

    replica_dsn: SecretStr | None = Field(
        None,
        description="URL of the central database on a standby: postgresql://user:password@host/name. Lists and charts "
        "of operators are read there, also those of pools on the same server.",
    )
    pool_replica_dsns: dict[str, SecretStr] = Field(
        {},
        description='URLs of other pools on their standbys, by the name of the pool, as JSON: {"pool_2": '
        '"postgresql://user:password@host/name"}.',
    )
    replica_lag_seconds: float = Field(
        30.0,
        gt=0,
        le=86_400,
        description="If a replica is further behind, in seconds, lists and charts of operators read the primary.",
    )

    @property
    def server_dsn(self) -> SecretStr | None:
        """The DSN at which a session stays the same: of the server itself, or of a pooler in session mode."""
        return self.direct_dsn or self.dsn

    @property
    def pooled_dsn(self) -> SecretStr | None:
        """The DSN through a pooler, if there is another one without it."""
        return self.dsn if self.direct_dsn is not None else None

    @field_validator("dsn", "direct_dsn", "replica_dsn")
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
    parts_above_bytes: int = Field(
        64 * MEBIBYTE,
        ge=0,
        description="A larger file is uploaded in parts, in bytes, if the client can resume uploads.",
    )
    part_bytes: int = Field(
        16 * MEBIBYTE,
        ge=5 * MEBIBYTE,
        le=1024 * MEBIBYTE,
        description="Size of a part of an upload, in bytes. A file has at most 1,000 parts, so a very large file has "
        "larger parts.",
    )
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


class DiskSettings(Section):
    reserve_bytes: int = Field(
        GIBIBYTE,
        ge=0,
        le=2**60,
        description="Free space that new uploads and new jobs do not use, in bytes. Below it, they are refused with "
        "507, so that jobs that were accepted can still finish. It applies to the disks of local storage and of the "
        "embedded database.",
    )
    warning_bytes: int = Field(
        5 * GIBIBYTE,
        ge=0,
        le=2**60,
        description="Free space below which operators are warned, in bytes: by `callsheet doctor` and the alert "
        "`low_disk`. For the disks of workers, the limit of the alert is disk.reserve_bytes.",
    )

    @model_validator(mode="after")
    def _the_warning_comes_first(self) -> Self:
        if self.warning_bytes < self.reserve_bytes:
            raise ValueError("warning_bytes must not be smaller than reserve_bytes: the warning must come first")
        return self


Limit = Annotated[int, Field(ge=0, le=2**53)]


class QuotaSettings(Section):
    tenant_storage_bytes: Limit = Field(
        1_099_511_627_776, description="Largest number of bytes of all files of one tenant."
    )
    tenant_storage_files: Limit = Field(2_000_000, description="Largest number of files of one tenant.")
    user_storage_bytes: Limit = Field(274_877_906_944, description="Largest number of bytes of all files of one user.")
    user_storage_files: Limit = Field(500_000, description="Largest number of files of one user.")
    user_database_bytes: Limit = Field(
        10_737_418_240,
        description="Largest number of bytes of JSON of the pipelines, runs and jobs of one user in the database.",
    )
    payload_bytes: Limit = Field(
        262_144, description="Largest payload of a task or of a step of a pipeline, in bytes of JSON."
    )
    pipelines_per_user: Limit = Field(1_000, description="Largest number of pipelines of one user.")
    versions_per_pipeline: Limit = Field(1_000, description="Largest number of versions of one pipeline.")
    keys_per_user: Limit = Field(
        100, description="Largest number of API keys of one user that are neither revoked nor expired."
    )
