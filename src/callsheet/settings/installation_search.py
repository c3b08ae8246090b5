"""Finds the installation that a command works on: its data directory, and the files of its settings.

The first of these that exists is used, as a whole:

1. the data directory that CALLSHEET_HOME or the settings file names;
2. the working directory, or the nearest parent, that has `.callsheet`, `callsheet.toml` or an `.env` of ours;
3. the user's data directory;
4. `/etc/callsheet`, on a machine that was set up with our systemd units.

Anyone who can write to `/tmp` could plant a `/tmp/.callsheet` or a `/tmp/.env` for every user who works below it,
so a directory or file that is found (2, 3, 4) and belongs to another user is not used.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from callsheet.settings.variables import (
    CONFIG_FILE,
    CONFIG_VARIABLE,
    HOME_VARIABLE,
    POOL_DIRECT_DSN_VARIABLE,
    POOL_DSN_VARIABLE,
    PREFIX,
    PROFILE_VARIABLE,
    SHORT_NAMES,
    SettingsError,
    environment,
    read_config,
    read_variables,
)

HOME_NAME = ".callsheet"
ENV_FILE = ".env"
# The files that deploy/systemd installs.
SYSTEM_SETTINGS = Path("/etc/callsheet")
SYSTEM_ENV_FILE = "callsheet.env"
SYSTEM_HOME = Path("/var/lib/callsheet")


@dataclass(frozen=True, slots=True)
class InstallationPlace:
    """The found installation. `searched`: the places that were searched. `ignored`: files that were found there and
    are not trusted.
    """

    home: Path
    origin: str
    env_file: Path | None
    config: Path | None
    is_system: bool = False
    is_found: bool = True
    # False if the value for the data directory is not a path; the check of the settings then reports it.
    is_home_usable: bool = True
    searched: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence that `--verbose` prints."""
        files = [str(file.absolute()) for file in (self.env_file, self.config) if file is not None and file.exists()]
        return f"Data directory: {self.home} ({self.origin}). Settings files: {', '.join(files) or 'none'}."


def find_place() -> InstallationPlace:
    """Searches each time, because the environment and the working directory of the process may change."""
    search = _Search(_working_directory())
    found = search.named() or search.project() or search.personal() or search.system() or search.nothing()
    return replace(_with_named_home(found), ignored=tuple(dict.fromkeys(search.ignored)))


def given_variables() -> dict[str, tuple[str, str | None]]:
    """Every variable by its upper-case name, with its source. The environment overrides `.env`."""
    file = find_place().env_file
    given = {name: (str(file), value) for name, value in read_variables(file).items()} if file is not None else {}
    return given | {name: ("the environment", value) for name, value in environment().items()}


def variables() -> dict[str, tuple[str, str | None]]:
    """Every variable of Callsheet by its upper-case name, with its source."""
    return {name: found for name, found in given_variables().items() if name.startswith(PREFIX)}


def short_variables() -> dict[str, tuple[str, str]]:
    given = given_variables()
    return {name: (given[name][0], value) for name in SHORT_NAMES if name in given and (value := given[name][1])}


def config_file() -> Path:
    """The settings file, or its default path."""
    return find_place().config or Path(CONFIG_FILE)


def named_profile() -> str | None:
    """The login that a command uses, if a variable names one."""
    return variables().get(PROFILE_VARIABLE, ("", None))[1]


def given_pool_dsn() -> str | None:
    return variables().get(POOL_DSN_VARIABLE, ("", None))[1]


def given_pool_direct_dsn() -> str | None:
    return variables().get(POOL_DIRECT_DSN_VARIABLE, ("", None))[1]


def is_found_here(file: Path) -> bool:
    """Whether a file is used only because of the directory in which a command is run: it is in the working directory
    or above it. The author of the cloned or unpacked directory also wrote this file.
    """
    here = _working_directory()
    return file.absolute().parent in (here, *here.parents)


def user_config_directory() -> Path:
    """The directory for files that belong to the user and not to an installation."""
    return _user_directory("XDG_CONFIG_HOME", "~/.config")


class _Search:
    """Each step returns its place, or None if there is no installation."""

    def __init__(self, here: Path):
        self.here = here
        self.ignored: list[str] = []
        self.searched: list[str] = []
        self._files_here = self._files(Path())

    def named(self) -> InstallationPlace | None:
        named = environment().get(HOME_VARIABLE)
        if not named:
            return None
        home = _absolute(named, self.here)
        env_file, config = self._files_here if self._has_settings(*self._files_here) else self._files(home)
        return InstallationPlace(home, f"{HOME_VARIABLE} in the environment", env_file, config)

    def project(self) -> InstallationPlace | None:
        for directory in _up_from(self.here):
            # The path is relative if it is the working directory, as people write it.
            env_file, config = self._files_here if directory == self.here else self._files(directory)
            home = directory / HOME_NAME
            if self._is_directory(home) or self._has_settings(env_file, config):
                return InstallationPlace(home, f"found from {self.here}", env_file, config)
        self.searched.append(f"{self.here / HOME_NAME} and the same in the parent directories")
        return None

    def personal(self) -> InstallationPlace | None:
        directory = _user_directory("XDG_DATA_HOME", "~/.local/share")
        self.searched.append(str(directory))
        if not self._is_directory(directory):
            return None
        return InstallationPlace(directory, "the user's data directory", *self._files(directory))

    def system(self) -> InstallationPlace | None:
        readable = not SYSTEM_SETTINGS.is_dir() or os.access(SYSTEM_SETTINGS, os.R_OK | os.X_OK)
        self.searched.append(str(SYSTEM_SETTINGS) + ("" if readable else " (you have no permission to read it)"))
        if not readable or not self._is_directory(SYSTEM_SETTINGS):
            return None
        env_file, config = self._files(SYSTEM_SETTINGS, SYSTEM_ENV_FILE)
        # A machine with workers only has no settings of a control plane there.
        if not SYSTEM_HOME.is_dir() and not self._has_settings(env_file, config):
            return None
        return InstallationPlace(SYSTEM_HOME, f"from {SYSTEM_SETTINGS}", env_file, config, is_system=True)

    def nothing(self) -> InstallationPlace:
        home, origin = self.here / HOME_NAME, "the default; it does not exist yet"
        return InstallationPlace(home, origin, *self._files_here, is_found=False, searched=tuple(self.searched))

    def _files(self, directory: Path, env_name: str = ENV_FILE) -> tuple[Path | None, Path | None]:
        env_file, config = directory / env_name, directory / CONFIG_FILE
        usable = self._is_usable(env_file) and env_file.is_file()
        return env_file if usable else None, config if self._is_usable(config) else None

    def _has_settings(self, env_file: Path | None, config: Path | None) -> bool:
        """Whether there are settings of Callsheet. A directory may have an `.env` of another program."""
        if config is not None:
            return True
        is_here = env_file is not None and not env_file.is_absolute()
        try:
            names = read_variables(env_file) if env_file is not None else {}
        except SettingsError:
            return is_here
        return any(name.startswith(PREFIX) or (is_here and name in SHORT_NAMES) for name in names)

    def _is_directory(self, path: Path) -> bool:
        return self._is_usable(path) and path.is_dir()

    def _is_usable(self, path: Path) -> bool:
        try:
            # A link leads to another place, so its owner has to be trusted as well.
            owners = {path.lstat().st_uid, path.stat().st_uid}
        except OSError:
            return False
        foreign = owners - _trusted_users()
        if foreign:
            self.ignored.append(
                f"{path.absolute()} is not used: it belongs to another user ({_user_name(max(foreign))}). "
                f"To use the data directory of another user, name it with {HOME_VARIABLE}."
            )
        return not foreign


def _with_named_home(place: InstallationPlace) -> InstallationPlace:
    """The data directory that the files of a place name, unless the environment names one."""
    written = read_variables(place.env_file) if place.env_file is not None else {}
    if named_config := environment().get(CONFIG_VARIABLE) or written.get(CONFIG_VARIABLE):
        place = replace(place, config=Path(named_config))
    if HOME_VARIABLE in environment():
        return replace(place, is_home_usable=bool(environment()[HOME_VARIABLE]))
    named: object = None
    if HOME_VARIABLE in written:
        named, file = written[HOME_VARIABLE], place.env_file
    elif place.config is not None and place.config.exists():
        named, file = read_config(place.config).get("home"), place.config
    if named is None or file is None:
        return place
    if not named or not isinstance(named, str):
        return replace(place, is_home_usable=False)
    home = _absolute(named, file.absolute().parent)
    return replace(place, home=home, origin=f"named in {file}", is_found=True)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingsError("The working directory no longer exists. Change to another one.") from None


def _up_from(directory: Path) -> Iterator[Path]:
    """A directory and its parents, up to the user's home directory or the root."""
    stop = Path(os.path.expanduser("~"))
    for each in (directory, *directory.parents):
        yield each
        if each == stop:
            return


def _user_directory(variable: str, default: str) -> Path:
    chosen = environment().get(variable, "")
    # The specification says that a relative path must be ignored.
    if os.path.isabs(chosen):
        return Path(chosen) / "callsheet"
    parent = "~/Library/Application Support" if sys.platform == "darwin" else default
    return Path(os.path.expanduser(parent)) / "callsheet"


def _trusted_users() -> set[int]:
    """The own user and root; for root also the user who called sudo, and who could do everything anyway."""
    own = os.geteuid()
    caller = environment().get("SUDO_UID", "")
    return {own, 0} | ({int(caller)} if own == 0 and caller.isdecimal() else set())


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user id {number}"


def _absolute(path: str, base: Path) -> Path:
    return (base / Path(path).expanduser()).absolute()
