"""Which control plane a command talks to; a key goes to the URL it was made for and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.cli.shared.login import Login, login_of, write_demo_login
from callsheet.cli.shared.profile_store import Profile, Profiles, profiles_file, read_profiles, write_profiles
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError

HERE, THERE, DEMO = "http://here.example", "http://there.example", "http://127.0.0.1:8400"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With two profiles, and a demo that has run."""
    write_profiles(Profiles().having("there", Profile(THERE, "cs_there")).having("here", Profile(HERE, "cs_here")))
    write_demo_login(load_settings(home=tmp_path / "home"), Login(DEMO, "cs_demo"))
    return tmp_path / "home"


def settings(home: Path, **client: Any) -> Settings:
    return load_settings(home=home, client=client)


def test_the_login_with_the_highest_precedence_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert login_of(settings(home, url=HERE, api_key="cs_set")) == Login(HERE, "cs_set")
    assert login_of(settings(home)) == Login(HERE, "cs_here")
    monkeypatch.setenv("CALLSHEET_PROFILE", "there")
    # Named, so it wins over a key in the settings.
    assert login_of(settings(home, api_key="cs_set")) == Login(THERE, "cs_there")
    monkeypatch.setenv("CALLSHEET_PROFILE", "demo")
    assert login_of(settings(home)) == Login(DEMO, "cs_demo")
    monkeypatch.delenv("CALLSHEET_PROFILE")
    write_profiles(read_profiles().without("here"))
    assert login_of(settings(home)) == Login(DEMO, "cs_demo")


def test_a_key_is_sent_only_to_its_own_url(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert login_of(settings(home, url=f"{THERE}/")) == Login(THERE, "cs_there")
    assert login_of(settings(home, url=DEMO)) == Login(DEMO, "cs_demo")
    with pytest.raises(
        OperatorError, match=r"needs an API key for http://attacker\. Log in: callsheet login http://att"
    ):
        login_of(settings(home, url="http://attacker"))
    monkeypatch.setenv("CALLSHEET_PROFILE", "here")
    with pytest.raises(OperatorError, match=r"Profile here is for http://here\.example, not for http://there\.example"):
        login_of(settings(home, url=THERE))


def test_a_profile_that_is_named_must_exist(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_PROFILE", "nowhere")
    with pytest.raises(OperatorError, match=r"no profile 'nowhere'. Profiles: there, here"):
        login_of(settings(home))
    monkeypatch.setenv("CALLSHEET_PROFILE", "demo")
    with pytest.raises(OperatorError, match="There is no demo in"):
        login_of(load_settings(home=home / "other"))


@pytest.mark.parametrize("content", ["", "[]", '{"profiles": []}', '{"profiles": {"a": {"url": "x"}}}'])
def test_a_damaged_file_is_reported_in_one_sentence(home: Path, content: str) -> None:
    profiles_file().write_text(content)
    with pytest.raises(OperatorError, match=r"profiles.json is damaged. Remove it and log in again"):
        read_profiles()


def test_an_unwritable_path_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(OperatorError, match=r"profiles.json cannot be written: Not a directory"):
        write_profiles(Profiles())


def test_representations_of_profiles_do_not_contain_keys() -> None:
    assert "cs_secret" not in repr(Profiles().having("a", Profile(HERE, "cs_secret")))
