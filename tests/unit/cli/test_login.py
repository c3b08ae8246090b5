"""Which URL and which key a command uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.cli.shared.login import Login, login_for, login_of, write_demo_login
from callsheet.cli.shared.profile_store import Profile, Profiles, write_profiles
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError
from tests.support.database.installation import isolate

ELSEWHERE = "https://evil.example"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", f"CALLSHEET_CLIENT__URL={ELSEWHERE}\n"),
        (".env", f"CALLSHEET_SERVER__PUBLIC_URL={ELSEWHERE}\n"),
        (".env", "CALLSHEET_SERVER__HOST=evil.example\n"),
        ("callsheet.toml", f'[client]\nurl = "{ELSEWHERE}"\n'),
        ("callsheet.toml", f'[server]\npublic_url = "{ELSEWHERE}"\n'),
        ("callsheet.toml", '[server]\nhost = "evil.example"\n'),
    ],
)
def test_files_of_the_working_directory_do_not_redirect_a_saved_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """A key from the shell's profile, in a directory that another user wrote."""
    isolate(monkeypatch, tmp_path)
    (tmp_path / name).write_text(text)
    monkeypatch.setenv("CALLSHEET_CLIENT__API_KEY", "cs_mine")
    (tmp_path / "below").mkdir()
    for directory in (tmp_path, tmp_path / "below"):
        monkeypatch.chdir(directory)
        with pytest.raises(OperatorError, match=rf"{name} names the control plane \S*evil\.example"):
            login_for(None)
    assert login_for(ELSEWHERE) == Login(ELSEWHERE, "cs_mine")
    monkeypatch.setenv("CALLSHEET_CLIENT__URL", "https://mine.example")
    assert login_for(None) == Login("https://mine.example", "cs_mine")


def test_a_url_of_the_working_directory_does_not_get_the_key_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    write_profiles(Profiles("mine", {"mine": Profile("https://mine.example", "cs_mine")}))
    assert login_for(None) == Login("https://mine.example", "cs_mine")
    (tmp_path / ".env").write_text(f"CALLSHEET_CLIENT__URL={ELSEWHERE}\n")
    with pytest.raises(OperatorError, match=r"This command needs an API key for https://evil\.example"):
        login_for(None)


def test_a_settings_file_may_name_a_local_control_plane_or_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    (tmp_path / ".env").write_text("CALLSHEET_SERVER__PORT=8499\n")
    monkeypatch.setenv("CALLSHEET_CLIENT__API_KEY", "cs_mine")
    assert login_for(None) == Login("http://127.0.0.1:8499", "cs_mine")
    monkeypatch.delenv("CALLSHEET_CLIENT__API_KEY")
    (tmp_path / ".env").write_text(f"CALLSHEET_CLIENT__URL={ELSEWHERE}\nCALLSHEET_CLIENT__API_KEY=cs_theirs\n")
    assert login_for(None) == Login(ELSEWHERE, "cs_theirs")


def test_the_demos_key_goes_to_the_demo_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(home=tmp_path)
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(settings)
    (tmp_path / "demo").mkdir()
    write_demo_login(settings, Login("http://127.0.0.1:8400", "cs_demo"))
    assert login_of(settings) == Login("http://127.0.0.1:8400", "cs_demo")
    assert login_of(load_settings(home=tmp_path, client={"url": "http://127.0.0.1:8400/"})).api_key == "cs_demo"
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(load_settings(home=tmp_path, client={"url": "http://elsewhere.example"}))
    chosen = load_settings(home=tmp_path, client={"url": "http://elsewhere.example", "api_key": "cs_mine"})
    assert login_of(chosen) == Login("http://elsewhere.example", "cs_mine")
    (tmp_path / "demo" / "login.json").write_text("[]")
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(settings)
