"""Settings as people see them: where each value comes from, its unit, and never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from callsheet.settings import DatabaseSettings, Settings, load_settings
from callsheet.settings.effective import EffectiveSetting, effective_settings, unit_of


def by_name(settings: Settings) -> dict[str, EffectiveSetting]:
    return {setting.name: setting for setting in effective_settings(settings)}


def test_each_value_names_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLSHEET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CALLSHEET_JOBS__HISTORY_DAYS", "9")
    (tmp_path / ".env").write_text("CALLSHEET_MAIL__SENDER=studio@example.com\n")
    (tmp_path / "callsheet.toml").write_text("[storage]\nmax_upload_bytes = 5000\n")
    found = by_name(load_settings(server={"port": 9000}))
    assert (found["jobs.history_days"].value, found["jobs.history_days"].source) == (9, "the environment")
    assert found["mail.sender"].source == ".env"
    assert (found["storage.max_upload_bytes"].value, found["storage.max_upload_bytes"].unit) == (5000, "bytes")
    assert found["storage.max_upload_bytes"].source == "callsheet.toml"
    assert (found["server.port"].value, found["server.port"].source) == (9000, "the command line")
    assert (found["server.host"].value, found["server.host"].source) == ("127.0.0.1", None)
    assert found["home"].source == "CALLSHEET_HOME in the environment"


def test_a_secret_is_masked_and_an_unset_one_is_not_set() -> None:
    database = DatabaseSettings(dsn=SecretStr("postgresql://a:hidden-password@db/central"))
    settings = Settings.model_construct(secret_key=SecretStr("k" * 40), database=database)
    found = by_name(settings)
    assert (found["secret_key"].value, found["database.dsn"].value) == ("********", "********")
    assert found["second_secret_key"].value is None
    text = str(list(found.values()))
    assert "hidden-password" not in text
    assert "kkkk" not in text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("body_seconds", "seconds"),
        ("body_bytes_per_second", "bytes per second"),
        ("max_upload_bytes", "bytes"),
        ("days", "days"),
        ("port", None),
    ],
)
def test_the_end_of_a_name_says_the_unit(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit
