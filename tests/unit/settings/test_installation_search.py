"""Which installation a command works on: the first place that exists, and nothing that another user planted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callsheet.settings import SettingsError, find_place, installation_search, load_settings

FOREIGN = 54321


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home directory with a project in it, in which they work."""
    home = tmp_path / "user"
    (home / "project" / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(installation_search.sys, "platform", "linux")
    monkeypatch.setattr(installation_search, "SYSTEM_SETTINGS", tmp_path / "etc" / "callsheet")
    monkeypatch.setattr(installation_search, "SYSTEM_HOME", tmp_path / "var" / "callsheet")
    monkeypatch.chdir(home / "project" / "deep" / "deeper")
    return home


@pytest.fixture
def owned_by_another(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Paths that belong to another user, as the operating system would say; an ordinary user cannot give files away."""
    foreign: set[Path] = set()

    def listing(real: object) -> object:
        def stat(path: Path, **options: object) -> os.stat_result:
            found = real(path, **options)  # type: ignore[operator]
            if path.absolute() not in foreign:
                return found  # type: ignore[no-any-return]
            return os.stat_result((*found[:4], FOREIGN, *found[5:]))

        return stat

    monkeypatch.setattr(Path, "stat", listing(Path.stat))
    monkeypatch.setattr(Path, "lstat", listing(Path.lstat))
    return foreign


def test_each_location_is_used_if_earlier_ones_are_missing(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = find_place()
    assert (nothing.home, nothing.is_found) == (Path.cwd() / ".callsheet", False)
    personal, system = user / ".local" / "share" / "callsheet", installation_search.SYSTEM_SETTINGS
    assert nothing.searched == (
        f"{Path.cwd() / '.callsheet'} and the same in the parent directories",
        str(personal),
        str(system),
    )
    system.mkdir(parents=True)
    (system / "tasks.env").write_text("API_BASE_URL=http://127.0.0.1:8400\n")
    assert not find_place().is_found  # a machine that has only workers

    (system / "callsheet.env").write_text("CALLSHEET_HOME=/srv/callsheet\nCALLSHEET_SERVER__PORT=81\n")
    assert (find_place().home, find_place().is_system) == (Path("/srv/callsheet"), True)
    assert (load_settings().home, load_settings().server.port) == (Path("/srv/callsheet"), 81)

    personal.mkdir(parents=True)
    (personal / "callsheet.toml").write_text("[server]\nport = 82\n")
    assert (load_settings().home, load_settings().server.port) == (personal, 82)

    project = user / "project" / ".callsheet"
    project.mkdir()
    (user / "project" / ".env").write_text("CALLSHEET_SERVER__PORT=83\n")
    assert (load_settings().home, load_settings().server.port) == (project, 83)

    here = Path.cwd() / ".callsheet"
    here.mkdir()
    assert (load_settings().home, load_settings().server.port) == (here, 8400)

    monkeypatch.setenv("CALLSHEET_HOME", "elsewhere")
    assert load_settings().home == Path.cwd() / "elsewhere"
    assert find_place().origin == "CALLSHEET_HOME in the environment"


def test_the_default_of_the_units_is_found_without_a_settings_file(user: Path) -> None:
    installation_search.SYSTEM_SETTINGS.mkdir(parents=True)
    installation_search.SYSTEM_HOME.mkdir(parents=True)
    assert load_settings().home == installation_search.SYSTEM_HOME


def test_the_search_ends_at_the_users_home_directory(user: Path, tmp_path: Path) -> None:
    (tmp_path / ".callsheet").mkdir()
    assert not find_place().is_found
    (user / ".callsheet").mkdir()
    assert find_place().home == user / ".callsheet"


def test_a_settings_file_names_the_data_directory_from_where_it_lies(user: Path, tmp_path: Path) -> None:
    (user / "project" / "callsheet.toml").write_text("home = 'data'\n[server]\nport = 84\n")
    assert (load_settings().home, load_settings().server.port) == (user / "project" / "data", 84)
    (user / "project" / ".env").write_text("CALLSHEET_HOME=~/kept\n")
    assert (load_settings().home, load_settings().server.port) == (user / "kept", 84)
    (user / "project" / ".env").write_text("CALLSHEET_HOME=\n")
    with pytest.raises(SettingsError, match="must name a directory"):
        load_settings()


def test_settings_in_the_named_data_directory_apply_from_every_working_directory(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user / "data").mkdir()
    (user / "data" / "callsheet.toml").write_text("[server]\nport = 85\n")
    monkeypatch.setenv("CALLSHEET_HOME", str(user / "data"))
    assert load_settings().server.port == 85
    # Those of the directory one works in win, as a whole.
    Path("callsheet.toml").write_text("[server]\nhost = 'here'\n")
    assert (load_settings().server.port, load_settings().server.host) == (8400, "here")


def test_an_env_file_of_another_program_does_not_mark_an_installation(user: Path) -> None:
    (user / "project" / ".callsheet").mkdir()
    Path(".env").write_text("SECRET_OF_ANOTHER_PROGRAM=1\n")
    (user / "project" / "deep" / ".env").write_bytes(b"NAME=\xff\n")
    assert find_place().home == user / "project" / ".callsheet"
    Path(".env").write_text("FLEET_SECRET=mine\n")
    assert find_place().home == Path.cwd() / ".callsheet"


@pytest.mark.parametrize("planted", [".callsheet", ".env", "callsheet.toml"])
def test_files_that_another_user_planted_in_parent_directories_are_not_used(
    user: Path, owned_by_another: set[Path], planted: str
) -> None:
    trap = user / "project" / planted
    if planted == ".callsheet":
        trap.mkdir()
    else:
        trap.write_text("CALLSHEET_CLIENT__URL=http://attacker\n" if planted == ".env" else "home = '/tmp/attacker'\n")
    assert find_place().home == (
        Path("/tmp/attacker") if planted == "callsheet.toml" else user / "project" / ".callsheet"
    )
    owned_by_another.add(trap)
    found = find_place()
    assert (found.is_found, found.env_file, found.config) == (False, None, None), found
    assert found.ignored == (
        f"{trap} is not used: it belongs to another user (user id {FOREIGN}). "
        "To use the data directory of another user, name it with CALLSHEET_HOME.",
    )
    assert load_settings().client.url is None


def test_files_of_another_user_in_the_working_directory_are_not_used(user: Path, owned_by_another: set[Path]) -> None:
    Path("callsheet.toml").write_text("[client]\nurl = 'http://attacker'\n")
    Path(".env").write_text("API_BASE_URL=http://attacker\n")
    owned_by_another |= {Path("callsheet.toml").absolute(), Path(".env").absolute()}
    settings = load_settings()
    assert (settings.client.url, settings.worker.api_url) == (None, load_settings(worker={}).worker.api_url)
    assert "attacker" not in str(settings.worker.api_url)
    assert len(find_place().ignored) == 2


def test_a_link_of_another_user_is_not_followed(user: Path, owned_by_another: set[Path]) -> None:
    (user / "own").mkdir()
    link = user / "project" / ".callsheet"
    link.symlink_to(user / "own")
    assert find_place().is_found
    real = Path.lstat
    owned_by_another.add(link)
    assert real(link).st_uid == FOREIGN
    assert not find_place().is_found


def test_root_trusts_the_user_who_called_sudo_and_no_other(
    user: Path, owned_by_another: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (user / "project" / ".callsheet").mkdir()
    owned_by_another.add(user / "project" / ".callsheet")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1")
    assert not find_place().is_found
    monkeypatch.setenv("SUDO_UID", str(FOREIGN))
    assert find_place().is_found
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not find_place().is_found


def test_a_data_directory_of_another_user_may_be_named(
    user: Path, owned_by_another: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (user / "project" / ".callsheet").mkdir()
    owned_by_another.add(user / "project" / ".callsheet")
    monkeypatch.setenv("CALLSHEET_HOME", str(user / "project" / ".callsheet"))
    assert (find_place().home, find_place().ignored) == (user / "project" / ".callsheet", ())


def test_an_unreadable_settings_directory_is_reported(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation_search.SYSTEM_SETTINGS.mkdir(parents=True)
    monkeypatch.setattr(installation_search.os, "access", lambda *_: False)
    assert find_place().searched[-1] == f"{installation_search.SYSTEM_SETTINGS} (you have no permission to read it)"
    assert find_place().ignored == ()


def test_on_a_mac_the_users_data_is_where_a_mac_has_it(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_search.sys, "platform", "darwin")
    directory = user / "Library" / "Application Support" / "callsheet"
    directory.mkdir(parents=True)
    assert find_place().home == directory


def test_a_deleted_working_directory_is_reported_in_one_sentence(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingsError, match="working directory no longer exists"):
        load_settings()
    monkeypatch.chdir(tmp_path)
