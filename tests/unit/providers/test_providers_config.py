"""The settings section `providers`: tables by name, variables inside them, and sentences about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.settings import SettingsError, load_settings
from tests.support.providers.media_providers import DOCUMENT, documented_services

SECRET = "s3cr3t-that-must-never-be-printed-anywhere"
SERVICE = """
[providers.http.leonardo]
base_url = "https://api.example.com/v1/"
headers = { Authorization = "Bearer {secret}" }
[providers.http.leonardo.actions.txt2img]
path = "/jobs"
id = "id"
body = { prompt = "{prompt}", width = "{params.width}" }
[providers.http.leonardo.actions.txt2img.params]
width = { type = "integer", default = 5, minimum = 1, maximum = 9 }
[providers.http.leonardo.poll]
path = "/jobs/{id}"
status = "status"
done = ["done"]
outputs = "urls"
"""


def written(toml: str) -> None:
    Path("callsheet.toml").write_text(toml)


def refusal() -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("source", ["environment", "dotenv"])
def test_a_secret_inside_a_table_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    written(SERVICE + "[providers.plugins.tiny]\nsize = 3\n")
    names = ("CALLSHEET_PROVIDERS__HTTP__LEONARDO__SECRET", "CALLSHEET_PROVIDERS__PLUGINS__TINY__KEY")
    if source == "environment":
        for name in names:
            monkeypatch.setenv(name, SECRET)
    else:
        Path(".env").write_text("".join(f"{name}={SECRET}\n" for name in names))
    providers = load_settings().providers
    service = providers.http["leonardo"]
    assert service.secret is not None
    assert service.secret.get_secret_value() == SECRET
    assert (service.base_url, service.needs_secret) == ("https://api.example.com/v1", False)
    assert providers.plugins["tiny"].get_secret_value() == {"size": 3, "key": SECRET}
    assert SECRET not in f"{providers!r} {providers.model_dump()} {providers.model_dump_json()}"


def test_a_secret_of_digits_alone_stays_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written(SERVICE)
    monkeypatch.setenv("CALLSHEET_PROVIDERS__HTTP__LEONARDO__SECRET", "012e5")
    secret = load_settings().providers.http["leonardo"].secret
    assert secret is not None
    assert secret.get_secret_value() == "012e5"


def test_names_of_blocked_providers_are_a_list_or_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    written("[providers]\nblocked = ['a', 'b']\n")
    assert load_settings().providers.blocked == ("a", "b")
    monkeypatch.setenv("CALLSHEET_PROVIDERS__BLOCKED", "c, d")
    assert load_settings().providers.blocked == ("c", "d")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "https://api",
            f"https://user:{SECRET}@api",
            "providers.http.leonardo.base_url (from callsheet.toml): must be a URL",
        ),
        ("https://api", "api", "providers.http.leonardo.base_url (from callsheet.toml): must be like https://host"),
        (
            "{params.width}",
            "{params.with}",
            "providers.http.leonardo.actions.txt2img (from callsheet.toml): {params.with} is unknown",
        ),
        (
            "/jobs/{id}",
            "/jobs",
            "providers.http.leonardo.poll (from callsheet.toml): path, query or body must have {id}",
        ),
        ('"/jobs"', '"jobs"', "providers.http.leonardo.actions.txt2img.path (from callsheet.toml): "),
        (
            "default = 5",
            "default = 50",
            "params.width (from callsheet.toml): the default does not fit: The value must be 9 or less.",
        ),
        ("minimum = 1", "minimum = 10", "params.width (from callsheet.toml): minimum must not be above maximum."),
        (
            "Bearer {secret}",
            f"{SECRET}\\n",
            "providers.http.leonardo.headers (from callsheet.toml): must be plain characters.",
        ),
        ('done = ["done"]', "done = []", "providers.http.leonardo.poll.done (from callsheet.toml): "),
        ('outputs = "urls"', "", "providers.http.leonardo.poll.outputs (from callsheet.toml): it is required."),
        (
            SERVICE,
            '[providers.replicate.models.tts]\nmodel = "owner/name:latest"',
            "providers.replicate.models.tts.model (from callsheet.toml): must be owner/name, owner/name:version, ",
        ),
        (
            SERVICE,
            "[providers.http.leonardo.headers]\n'Two words' = ''",
            "it has a character that it cannot have, or begins with one it cannot begin with.",
        ),
        ("outputs =", "outptus =", "providers.http.leonardo.poll.outptus in callsheet.toml is not a setting."),
        (SERVICE, "[providers]\nhttp = 1", "CALLSHEET_PROVIDERS__HTTP is *** (from callsheet.toml): "),
        (SERVICE, "[providers.plugins]\nx = 1", "providers.plugins.x (from callsheet.toml): "),
    ],
)
def test_a_wrong_value_in_a_table_is_named_with_its_whole_path(old: str, new: str, sentence: str) -> None:
    assert old in SERVICE
    written(SERVICE.replace(old, new))
    assert sentence in refusal()


def test_a_wrong_variable_inside_a_table_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    written(SERVICE)
    monkeypatch.setenv("CALLSHEET_PROVIDERS__HTTP__LEONARDO__MAX_CONCURRENT", "0")
    assert refusal().startswith("providers.http.leonardo.max_concurrent (from the environment): ")
    monkeypatch.setenv("CALLSHEET_PROVIDERS__HTTP__LEONARDO__MAX_CONCURRENT", "1")
    monkeypatch.setenv("CALLSHEET_PROVIDERS__HTTP__LEONARDO__SECREET", SECRET)
    assert refusal().startswith("providers.http.leonardo.secreet in the environment is not a setting.")


@pytest.mark.parametrize("table", ["HTTP", "PLUGINS"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (f'{{"tiny": {{"secret": "{SECRET}"', "CALLSHEET_PROVIDERS__{} (from the environment) is not valid JSON. "),
        (f'"{SECRET}"', "CALLSHEET_PROVIDERS__{} is *** (from the environment): it must be an object"),
        (f'{{"tiny": "{SECRET}"}}', "providers.{}.tiny (from the environment): it must be an object"),
    ],
)
def test_an_invalid_table_in_a_variable_is_refused_without_being_printed(
    monkeypatch: pytest.MonkeyPatch, table: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"CALLSHEET_PROVIDERS__{table}", value)
    assert refusal().startswith(sentence.format(table.lower() if sentence.startswith("p") else table))


def test_every_service_in_the_document_can_be_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    services = documented_services()
    assert set(services) == {"leonardo", "midjourney"}
    blocks = DOCUMENT.read_text().split("```toml\n")[1:]
    written("\n".join(block.split("```")[0] for block in blocks if "[providers.http" in block))
    for name in services:
        monkeypatch.setenv(f"CALLSHEET_PROVIDERS__HTTP__{name.upper()}__SECRET", SECRET)
    assert set(load_settings().providers.http) == set(services)
