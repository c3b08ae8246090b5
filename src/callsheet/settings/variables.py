"""The names of settings, and how the environment and the two files are read. Nothing else reads the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from callsheet.toolbox.errors import OperatorError

PREFIX = "CALLSHEET_"
DELIMITER = "__"
CONFIG_FILE = "callsheet.toml"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
HOME_VARIABLE = f"{PREFIX}HOME"
# No setting of an installation: it says which of this person's logins a command uses.
PROFILE_VARIABLE = f"{PREFIX}PROFILE"
# Nor this: where `callsheet db add-pool` finds the database of a new pool.
POOL_DSN_VARIABLE = f"{PREFIX}POOL_DSN"
# The same database without the pooler that the first one goes through.
POOL_DIRECT_DSN_VARIABLE = f"{PREFIX}POOL_DIRECT_DSN"
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
    "COMFYUI_TIMEOUT": ("engine", "run_limit_seconds"),
    "COMFYUI_MAX_RETRIES": ("engine", "max_retries"),
    "COMFYUI_POLL_INTERVAL": ("engine", "poll_seconds"),
    "COMFYUI_SUBMIT_INTERVAL": ("pipelines", "submit_seconds"),
}


class SettingsError(OperatorError):
    """The settings cannot be used. Each line says which, what it is, and what is allowed."""

    code = "invalid_settings"


def variable_name(path: Sequence[str]) -> str:
    return PREFIX + DELIMITER.join(path).upper()


def environment() -> dict[str, str]:
    """Every variable of this process by its upper-case name."""
    return {name.upper(): value for name, value in os.environ.items()}


def environment_for_programs() -> dict[str, str]:
    """The environment of a program of the operator: everything but Callsheet's own settings, which include secrets."""
    ours = {name.upper() for name in SHORT_NAMES}
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(PREFIX) and name.upper() not in ours
    }


def read_variables(file: Path) -> dict[str, str | None]:
    """The variables of an `.env` file by their upper-case names."""
    try:
        return {name.upper(): value for name, value in dotenv_values(file).items()}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None


def read_config(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as broken:
        raise SettingsError(f"{file} is not valid TOML: {broken}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None
