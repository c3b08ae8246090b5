"""Where settings come from: the variables and the file. Nothing else in Callsheet reads the environment."""

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


class SettingsError(OperatorError):
    """The settings cannot be used. Each line says which, what it is, and what is allowed."""


def variable_name(path: Sequence[str]) -> str:
    return PREFIX + DELIMITER.join(path).upper()


def variables() -> dict[str, tuple[str, str | None]]:
    """Every variable of ours by its upper-case name, with where it comes from."""
    return {name: found for name, found in given_variables().items() if name.startswith(PREFIX)}


def short_variables() -> dict[str, tuple[str, str]]:
    given = given_variables()
    return {name: (given[name][0], value) for name in SHORT_NAMES if name in given and (value := given[name][1])}


def given_variables() -> dict[str, tuple[str, str | None]]:
    """Every variable by its upper-case name, with where it comes from; the environment wins over `.env`."""
    try:
        from_file = dotenv_values(".env")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f".env cannot be read: {error}.") from None
    given = {name.upper(): (".env", value) for name, value in from_file.items()}
    return given | {name.upper(): ("the environment", value) for name, value in os.environ.items()}


def config_file() -> Path:
    _, named = variables().get(CONFIG_VARIABLE, ("", None))
    return Path(named or CONFIG_FILE)


def read_config(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as broken:
        raise SettingsError(f"{file} is not valid TOML: {broken}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from None
