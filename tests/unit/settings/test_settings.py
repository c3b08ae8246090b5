"""One frozen tree of settings; a wrong value stops the start with a sentence, and no secret is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.settings import Settings, SettingsError, load_settings, setting_fields, variable_name
from tests.support.run.source_files import source_files

SECRET = "s3cr3t-that-must-never-be-printed-anywhere"

# The one place that reads the environment, and the one that hands it on to a child, psql. The client is a part of other
# people's programs, which have no settings of Callsheet.
MAY_TOUCH_THE_ENVIRONMENT = {
    *("settings/variables.py", "cli/installation/database.py", "callsheet_lightbox/server.py"),
    "client/calls.py",
}


def refusal(**overrides: object) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(**overrides)
    return str(refused.value)


def test_the_defaults_apply_without_any_source(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.home == tmp_path / ".callsheet"
    assert settings.public_url == "http://127.0.0.1:8400"
    assert settings.database.dsn is None
    assert settings.cookie_secure is False


def test_environment_wins_over_dotenv_over_toml_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("callsheet.toml").write_text("[server]\nport = 1\nhost = 'from-toml'\nmax_body_bytes = 2048\n")
    Path(".env").write_text("CALLSHEET_SERVER__PORT=2\nCALLSHEET_SERVER__HOST=from-dotenv\n")
    monkeypatch.setenv("CALLSHEET_SERVER__PORT", "3")
    server = load_settings().server
    assert (server.port, server.host, server.max_body_bytes) == (3, "from-dotenv", 2048)
    assert server.shutdown_seconds == 10.0


def test_options_of_the_command_line_win_and_leave_their_neighbours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_SERVER__PORT", "3")
    monkeypatch.setenv("CALLSHEET_SERVER__HOST", "from-environment")
    server = load_settings(server={"port": 4}).server
    assert (server.port, server.host) == (4, "from-environment")


@pytest.mark.parametrize("named_in", ["environment", "dotenv"])
def test_the_config_file_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_in: str) -> None:
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text("[storage.s3]\nbucket = 'pictures'\n")
    if named_in == "environment":
        monkeypatch.setenv("CALLSHEET_CONFIG", str(elsewhere))
    else:
        Path(".env").write_text(f"CALLSHEET_CONFIG={elsewhere}\n")
    assert load_settings().storage.s3.bucket == "pictures"


def test_networks_are_lists_in_toml_and_comma_separated_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("callsheet.toml").write_text("[outgoing]\nallow_networks = ['fd00::/8']\n")
    monkeypatch.setenv("CALLSHEET_SERVER__TRUSTED_PROXIES", "10.0.0.0/8, 192.168.0.0/16")
    settings = load_settings()
    assert settings.outgoing.allow_networks == (ip_network("fd00::/8"),)
    assert settings.server.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("192.168.0.0/16"))


def test_media_types_are_lists_in_toml_and_comma_separated_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("callsheet.toml").write_text("[media]\nallowed_types = ['image/PNG', 'video/*']\n")
    assert load_settings().media.allowed_types == ("image/png", "video/*")
    monkeypatch.setenv("CALLSHEET_MEDIA__ALLOWED_TYPES", "audio/*, image/gif")
    assert load_settings().media.allowed_types == ("audio/*", "image/gif")


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("server.port", "eighty", "a whole number"),
        ("server.port", "70000", "less than or equal to 65535"),
        ("server.host", "", "at least 1 character"),
        ("server.public_url", "callsheet.example.com", "must be like https://host"),
        ("server.public_url", "https://example.com/callsheet", "without a path"),
        ("server.public_url", "http://example.com:99999", "must be like https://host"),
        ("server.max_body_bytes", "1", "greater than or equal to 1024"),
        ("server.trusted_proxies", "10.0.0.1/8", "whose last bits are 0"),
        ("server.trusted_proxies", "everybody", "must be a network like 10.0.0.0/8"),
        ("database.migrate_on_start", "perhaps", "true or false"),
        ("database.statement_seconds", "0", "greater than or equal to 0.001"),
        ("database.statement_seconds", "nan", "less than or equal to 3600"),
        ("storage.backend", "gcs", "'local' or 's3'"),
        ("storage.s3.bucket", "ab", "at least 3 characters"),
        ("storage.s3.endpoint_url", "s3.example.com", "must be like https://host"),
        ("storage.url_seconds", "604801", "less than or equal to 604800"),
        ("media.allowed_types", "video", "must be media types like video/mp4 or video/*"),
        ("media.allowed_types", "*/*", "must be media types like video/mp4 or video/*"),
        ("media.allowed_types", " , ", "must name one media type or more"),
        ("media.retention_days", "0", "greater than or equal to 1"),
        ("identity.session_hours", "0", "greater than or equal to 1"),
        ("log.level", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("engine.url", "ftp://127.0.0.1", "must be like https://host"),
        ("home", "", "must name a directory"),
    ],
)
def test_a_wrong_value_is_reported_with_setting_value_source_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, path: str, value: str, allowed: str
) -> None:
    variable = variable_name(path.split("."))
    monkeypatch.setenv(variable, value)
    sentence = refusal()
    assert f"{variable} is {value!r} (from the environment): " in sentence
    assert allowed in sentence
    assert sentence.endswith(description_of(path))
    assert "\n" not in sentence


def description_of(path: str) -> str:
    [description] = [field.description for names, field in setting_fields() if ".".join(names) == path]
    assert description
    return description


def test_the_sentence_says_where_a_wrong_value_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("callsheet.toml").write_text("[server]\nport = 'a'\n")
    assert "CALLSHEET_SERVER__PORT is 'a' (from callsheet.toml)" in refusal()
    Path(".env").write_text("CALLSHEET_SERVER__PORT=b\n")
    assert "CALLSHEET_SERVER__PORT is 'b' (from .env)" in refusal()
    monkeypatch.setenv("CALLSHEET_SERVER__PORT", "c")
    assert "CALLSHEET_SERVER__PORT is 'c' (from the environment)" in refusal(server={"host": "localhost"})
    assert "CALLSHEET_SERVER__PORT is -1 (from the command line)" in refusal(server={"port": -1})


def test_every_wrong_value_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_SERVER__PORT", "a")
    monkeypatch.setenv("CALLSHEET_LOG__LEVEL", "b")
    assert [line.split()[0] for line in refusal().splitlines()] == ["CALLSHEET_SERVER__PORT", "CALLSHEET_LOG__LEVEL"]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CALLSHEET_SEVER__PORT", "Did you mean CALLSHEET_SERVER__PORT?"),
        ("CALLSHEET_SERVER_PORT", "Did you mean CALLSHEET_SERVER__PORT?"),
        ("CALLSHEET_DATABASE_DSN", "Did you mean CALLSHEET_DATABASE__DSN?"),
        ("CALLSHEET_QQQ", "`callsheet settings` lists them all."),
    ],
)
@pytest.mark.parametrize("source", ["the environment", ".env"])
def test_a_misspelt_variable_is_refused_with_what_was_meant(
    monkeypatch: pytest.MonkeyPatch, variable: str, meant: str, source: str
) -> None:
    if source == ".env":
        Path(".env").write_text(f"{variable}={SECRET}\nSOMEBODY_ELSES=1\n")
    else:
        monkeypatch.setenv(variable, SECRET)
    assert refusal() == f"{variable} (from {source}) is not a setting. {meant}"


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("sever = 1", "sever in callsheet.toml is not a setting. Did you mean server?"),
        ("[server]\nprot = 1", "server.prot in callsheet.toml is not a setting. Did you mean server.port?"),
        ("[storage.s3]\nbukket = 'x'", "storage.s3.bukket in callsheet.toml is not a setting. "),
        (f"database = '{SECRET}'", "database in callsheet.toml must be a table of settings."),
        ("[server]\ntrusted_proxies = [5]", "CALLSHEET_SERVER__TRUSTED_PROXIES is [5] (from callsheet.toml): "),
        ("[server", "callsheet.toml is not valid TOML: "),
    ],
)
def test_a_wrong_config_file_is_reported_in_a_sentence(toml: str, sentence: str) -> None:
    Path("callsheet.toml").write_text(toml)
    assert refusal().startswith(sentence)
    assert SECRET not in refusal()


def test_files_that_cannot_be_read_are_named() -> None:
    Path("callsheet.toml").write_bytes(b"\xff")
    assert refusal().startswith("callsheet.toml cannot be read: ")
    Path("callsheet.toml").unlink()
    Path("callsheet.toml").mkdir()
    assert refusal().startswith("callsheet.toml cannot be read: ")
    Path(".env").write_bytes(b"\xff")
    assert refusal().startswith(".env cannot be read: ")


def test_a_config_file_that_was_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_CONFIG", "missing.toml")
    assert refusal() == "CALLSHEET_CONFIG is 'missing.toml': there is no such file."


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"storage": {"backend": "s3"}}, "storage.s3.bucket must name a bucket"),
        ({"storage": {"s3": {"access_key_id": "a"}}}, "go together"),
        ({"storage": {"s3": {"secret_access_key": SECRET}}}, "go together"),
        ({"database": {"direct_dsn": f"postgresql://user:{SECRET}@host/name"}}, "database.dsn must name the same"),
        ({"identity": {"cookie_secure": True}}, "browsers would never send the cookie"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given: dict[str, object], sentence: str) -> None:
    assert sentence in refusal(**given)
    assert SECRET not in refusal(**given)


def test_a_cookie_is_secure_by_default_if_the_public_url_is_https() -> None:
    assert load_settings(server={"public_url": "https://callsheet.example.com/"}).cookie_secure is True


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CALLSHEET_SECRET_KEY", SECRET[:20]),
        ("CALLSHEET_DATABASE__DSN", f"mysql://user:{SECRET}@host/name"),
        # urllib's own error would quote this one, password included.
        ("CALLSHEET_DATABASE__DSN", f"mysql://user:{SECRET}@ho\u2100st/name"),
    ],
)
def test_a_wrong_secret_is_refused_without_being_printed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    sentence = refusal()
    assert f"{variable} is *** (from the environment): must " in sentence
    assert SECRET[:20] not in sentence


def test_a_url_that_is_refused_for_its_password_is_printed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_PROVIDERS__REPLICATE__URL", f"https://user:{SECRET}@api.replicate.com")
    sentence = refusal()
    assert "CALLSHEET_PROVIDERS__REPLICATE__URL is 'https://user:***@api.replicate.com'" in sentence
    assert SECRET not in sentence


def test_secrets_are_in_no_representation_of_the_settings() -> None:
    settings = load_settings(
        secret_key=SECRET,
        database={"dsn": f"postgresql://user:{SECRET}@host/name"},
        server={"metrics_token": SECRET},
        storage={"s3": {"access_key_id": "id", "secret_access_key": SECRET}},
    )
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.model_dump())):
        assert SECRET not in shown
    assert settings.database.dsn is not None
    assert SECRET in settings.database.dsn.get_secret_value()


def test_settings_cannot_be_changed() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.home = Path("/elsewhere")
    for name in Settings.model_fields:
        section = getattr(settings, name)
        if hasattr(section, "model_fields_set"):
            with pytest.raises(ValidationError, match="frozen"):
                setattr(section, next(iter(type(section).model_fields)), None)


def test_every_setting_is_described_and_numbers_name_their_unit() -> None:
    units = (
        "bytes",
        "seconds",
        "minutes",
        "hours",
        "days",
        "connections",
        "logins",
        "jobs",
        "workers",
        "port",
        "uploads",
        "streams",
        "tasks",
        "runs",
        "calls",
        "times in a row",
        "values",
        "attempts",
        "retries",
        "failures",
        "files",
        "pipelines",
        "versions",
        "endpoints",
        "events",
        "deliveries",
        "keys",
    )
    for names, field in setting_fields():
        name, description = ".".join(names), field.description or ""
        assert description[:1].isupper(), name
        assert description.endswith("."), name
        if field.annotation in (int, float):
            assert any(unit in description.lower() for unit in units), f"{name} does not name its unit"


def environment_reads(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            if node.attr in ("environ", "environb", "getenv", "getenvb"):
                yield f"os.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (alias.name for alias in node.names if alias.name.startswith(("environ", "getenv")))
        elif isinstance(node, ast.Attribute) and node.attr in ("dotenv_values", "load_dotenv"):
            yield node.attr


def test_only_the_settings_module_reads_the_environment() -> None:
    # Whatever reads it has one of these words, and most files have none and need no parsing.
    words = re.compile("environ|getenv|dotenv")
    texts = {name: path.read_text("utf-8") for name, path in source_files().items()}
    touching = {name for name, text in texts.items() if words.search(text) and any(environment_reads(ast.parse(text)))}
    assert touching == MAY_TOUCH_THE_ENVIRONMENT


def test_psql_gets_the_environment_and_no_code_reads_it() -> None:
    tree = ast.parse(source_files()["cli/installation/database.py"].read_text("utf-8"))
    unpacked = [
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is None and ast.unparse(value) == "os.environ"
    ]
    assert len(unpacked) == len(list(environment_reads(tree))) == 1


@pytest.mark.parametrize("word", ["null", "none"])
@pytest.mark.parametrize("source", ["environment", "dotenv", "file", "command line"])
def test_an_optional_setting_can_be_set_to_null_in_every_source(
    monkeypatch: pytest.MonkeyPatch, word: str, source: str
) -> None:
    given: dict[str, Any] = {}
    match source:
        case "environment":
            monkeypatch.setenv("CALLSHEET_FLEET__AUDIT_LOG_DAYS", word)
            monkeypatch.setenv("CALLSHEET_WORKER__METADATA_URL", word)
        case "dotenv":
            lines = f"CALLSHEET_FLEET__AUDIT_LOG_DAYS={word}\nCALLSHEET_WORKER__METADATA_URL={word}\n"
            Path(".env").write_text(lines)
        case "file":
            lines = f'[fleet]\naudit_log_days = "{word}"\n[worker]\nmetadata_url = "{word}"\n'
            Path("callsheet.toml").write_text(lines)
        case _:
            given = {"fleet": {"audit_log_days": word}, "worker": {"metadata_url": word}}
    settings = load_settings(**given)
    assert (settings.fleet.audit_log_days, settings.worker.metadata_url) == (None, None)


def test_null_is_refused_for_a_setting_that_needs_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_FLEET__MAX_WORKERS", "null")
    with pytest.raises(SettingsError, match="MAX_WORKERS"):
        load_settings()
    monkeypatch.delenv("CALLSHEET_FLEET__MAX_WORKERS")
    monkeypatch.setenv("CALLSHEET_SERVER__HOST", "none")
    assert load_settings().server.host == "none"


def test_the_names_of_other_comfyui_clients_are_settings_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"TIMEOUT": "300", "MAX_RETRIES": "5", "POLL_INTERVAL": "7", "SUBMIT_INTERVAL": "11"}
    for name, value in given.items():
        monkeypatch.setenv(f"COMFYUI_{name}", value)
    settings = load_settings()
    engine = settings.engine
    assert (engine.run_limit_seconds, engine.max_retries, engine.poll_seconds) == (300, 5, 7)
    assert settings.pipelines.submit_seconds == 11
    monkeypatch.setenv("CALLSHEET_ENGINE__POLL_SECONDS", "3")
    assert load_settings().engine.poll_seconds == 3
    monkeypatch.setenv("COMFYUI_TIMEOUT", "soon")
    with pytest.raises(SettingsError, match="COMFYUI_TIMEOUT is 'soon'"):
        load_settings()
