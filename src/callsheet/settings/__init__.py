"""One frozen tree of settings. The environment overrides `.env`, which overrides TOML, which overrides the defaults.

No other part of Callsheet reads the environment. A wrong value stops the start with a sentence that names the setting,
the value and the allowed values.
"""

from callsheet.settings.alerts import AlertSettings
from callsheet.settings.fleet import FleetSettings, ScalingSettings
from callsheet.settings.identity import IdentitySettings, MailSettings
from callsheet.settings.installation_search import (
    InstallationPlace,
    find_place,
    given_pool_direct_dsn,
    given_pool_dsn,
    is_found_here,
    named_profile,
    user_config_directory,
)
from callsheet.settings.jobs import JobSettings, WebhookSettings
from callsheet.settings.loading import file_of, load_settings
from callsheet.settings.machines import ClientSettings, EngineSettings, LightboxSettings, WorkerSettings
from callsheet.settings.pipelines import PipelineSettings
from callsheet.settings.server import LogSettings, OutgoingSettings, ServerSettings
from callsheet.settings.storage import (
    DatabaseSettings,
    DiskSettings,
    MediaSettings,
    QuotaSettings,
    S3Settings,
    StorageSettings,
)
from callsheet.settings.tasks import TaskSettings
from callsheet.settings.tree import Settings, setting_fields
from callsheet.settings.variables import (
    POOL_DIRECT_DSN_VARIABLE,
    POOL_DSN_VARIABLE,
    SHORT_NAMES,
    SettingsError,
    environment_for_programs,
    variable_name,
)

__all__ = [
    "POOL_DIRECT_DSN_VARIABLE",
    "POOL_DSN_VARIABLE",
    "SHORT_NAMES",
    "AlertSettings",
    "ClientSettings",
    "DatabaseSettings",
    "DiskSettings",
    "EngineSettings",
    "FleetSettings",
    "IdentitySettings",
    "InstallationPlace",
    "JobSettings",
    "LightboxSettings",
    "LogSettings",
    "MailSettings",
    "MediaSettings",
    "OutgoingSettings",
    "PipelineSettings",
    "QuotaSettings",
    "S3Settings",
    "ScalingSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "StorageSettings",
    "TaskSettings",
    "WebhookSettings",
    "WorkerSettings",
    "environment_for_programs",
    "file_of",
    "find_place",
    "given_pool_direct_dsn",
    "given_pool_dsn",
    "is_found_here",
    "load_settings",
    "named_profile",
    "setting_fields",
    "user_config_directory",
    "variable_name",
]
