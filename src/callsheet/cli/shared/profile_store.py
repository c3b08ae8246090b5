"""Profiles: the control planes that this user uses, and the API key for each. They are in one file that only the
user can read.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from callsheet.settings import named_profile, user_config_directory
from callsheet.toolbox.errors import OperatorError

# The login of a demo, which is in its data directory and not in the file.
DEMO = "demo"
DEFAULT = "default"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

_chosen: ContextVar[str | None] = ContextVar("profile", default=None)


@dataclass(frozen=True, slots=True)
class Profile:
    url: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Profiles:
    current: str | None = None
    by_name: dict[str, Profile] = field(default_factory=dict)

    def get(self, name: str) -> Profile:
        if name not in self.by_name:
            known = ", ".join(self.by_name) or "none yet"
            raise OperatorError(f"There is no profile {name!r}. Profiles: {known}. Add one: callsheet login URL")
        return self.by_name[name]

    def having(self, name: str, profile: Profile) -> Profiles:
        """Adds a profile and makes it the current one."""
        return Profiles(name, {**self.by_name, name: profile})

    def using(self, name: str) -> Profiles:
        self.get(name)
        return replace(self, current=name)

    def without(self, name: str) -> Profiles:
        self.get(name)
        left = {each: profile for each, profile in self.by_name.items() if each != name}
        return Profiles(None if self.current == name else self.current, left)


def choose_profile(name: str | None) -> str | None:
    """Remembers `--profile` for this command; it may be before or after the command's name."""
    if name is not None:
        _chosen.set(checked_name(name))
    return name


def chosen_profile() -> str | None:
    """The profile that `--profile` or CALLSHEET_PROFILE names."""
    if _chosen.get() is not None:
        return _chosen.get()
    named = named_profile()
    return checked_name(named) if named else None


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise OperatorError(
            f"{name!r} cannot be the name of a profile: use lower-case letters, digits, dots, dashes and underscores."
        )
    return name


def profiles_file() -> Path:
    return user_config_directory() / "profiles.json"


def read_profiles() -> Profiles:
    file = profiles_file()
    try:
        found = json.loads(file.read_text("utf-8"))
        by_name = {
            str(name): Profile(str(each["url"]), str(each["api_key"])) for name, each in found["profiles"].items()
        }
        return Profiles(found.get("current"), by_name)
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OperatorError(f"{file} is damaged. Remove it and log in again: callsheet login URL") from None


def is_logged_in() -> bool:
    """Whether commands without a named profile use one; those commands report errors."""
    try:
        return read_profiles().current is not None
    except OperatorError:
        return False


def write_profiles(profiles: Profiles) -> None:
    """Writes the file completely or not at all. Other users can never read it, not even for a moment."""
    file = profiles_file()
    part = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    kept = {"current": profiles.current, "profiles": {name: asdict(each) for name, each in profiles.by_name.items()}}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with os.fdopen(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as written:
                json.dump(kept, written, indent=2)
                written.write("\n")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OperatorError(f"{file} cannot be written: {error.strerror}.") from None
