import os
import stat
from pathlib import Path

import pytest

from callsheet.plumbing.embedded.layout import Layout
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import load_settings
from callsheet.toolbox.private_files import is_open_to_others, make_closed, make_private, own_mode
from callsheet.worker.agent.reports import claim
from callsheet_lightbox.folders import Folders


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_looks_into_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    make_private(tmp_path / "home")
    assert mode_of(tmp_path / "home") == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    make_private(tmp_path / "roots")
    # PostgreSQL does not run as root, and passes it.
    assert mode_of(tmp_path / "roots") == 0o711
    assert not is_open_to_others(tmp_path / "home")
    assert not is_open_to_others(tmp_path / "roots")


@pytest.mark.parametrize("user", [0, 1000], ids=["root", "user"])
def test_missing_directories_above_are_private_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    make_closed(tmp_path / "home" / "worker")
    make_private(tmp_path / "other" / "home")
    assert mode_of(tmp_path / "home") == mode_of(tmp_path / "other") == own_mode()
    assert mode_of(tmp_path / "home" / "worker") == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o702, 0o720])
def test_an_existing_open_directory_is_unchanged_and_reported(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    make_private(tmp_path)
    assert mode_of(tmp_path) == mode
    assert is_open_to_others(tmp_path)


async def test_folders_of_engines_and_workers_are_closed_whichever_component_creates_them(tmp_path: Path) -> None:
    """As root too, whose data directory other users may pass."""
    Folders.under(tmp_path / "first" / "lightbox").prepare()
    claim(tmp_path / "second" / "worker" / "gpu-1").close()
    for home in ("first", "second"):
        assert mode_of(tmp_path / home) == own_mode()
        below = [Path(directory) for directory, _, _ in os.walk(tmp_path / home)][1:]
        assert {mode_of(directory) for directory in below} == {0o700}
        assert len(below) == {"first": 4, "second": 2}[home]


def test_the_data_directory_is_private_whichever_component_creates_it(tmp_path: Path) -> None:
    master_secret(load_settings(home=tmp_path / "first"))
    Layout.of(tmp_path / "second").prepare()
    for directory in (tmp_path / "first", tmp_path / "second", tmp_path / "second" / "postgres"):
        assert mode_of(directory) == own_mode()
