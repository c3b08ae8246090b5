"""A worker is configured by our settings or by the names that machine images use; ours win."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.cli.fleet.worker import agent_config, machine_name
from callsheet.cli.fleet.worker_engines import engines_of
from callsheet.settings import SHORT_NAMES, SettingsError, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.worker.agent.departure import Departure
from callsheet.worker.agent.ec2 import SPOT_SECONDS, seconds_until
from callsheet.worker.agent.reports import claim
from tests.support.http.metadata_service import metadata_service

SECRET = "s3cr3t-that-nobody-prints"


@pytest.fixture(autouse=True)
def _without_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SHORT_NAMES:
        monkeypatch.delenv(name, raising=False)


def test_the_short_names_are_read_and_ours_win(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "API_BASE_URL": "https://api.example",
        "WORKER_ID": "i-0abc",
        "FLEET_SECRET": SECRET,
        "FLEET_SLUG": "gpus",
        "FLEET_STAGE": "staging",
        "COMFYUI_BASE_URL": "http://127.0.0.1:9999",
        "MAX_CONCURRENCY": "2",
        "HEARTBEAT_INTERVAL_SECONDS": "12",
        "ASG_NAME": "group",
        "COMFY_CLOUD_API_KEY": "key",
        "CAPABILITIES": '{"gpu": "RTX"}',
        "COMFYUI_TIMEOUT": "300",
        "COMFYUI_MAX_RETRIES": "5",
        "COMFYUI_POLL_INTERVAL": "7",
        "COMFYUI_SUBMIT_INTERVAL": "11",
    }
    assert given.keys() == SHORT_NAMES.keys()
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CALLSHEET_WORKER__STAGE", "production")
    settings = load_settings()
    config = agent_config(settings, settings.worker.id or "")
    assert (config.api_url, config.worker_id, config.fleet) == ("https://api.example", "i-0abc", "gpus")
    assert (config.stage, config.max_concurrency, config.heartbeat_seconds) == ("production", 2, 12)
    assert (config.capabilities, config.asg_name) == ({"gpu": "RTX"}, "group")
    assert settings.engine.url == "http://127.0.0.1:9999"
    [engine] = engines_of(settings)
    assert engine.provider == "cloud"
    assert (config.run_limit_seconds, engine._patience.retries, engine._patience.poll) == (300, 5, 7)  # type: ignore[attr-defined]
    assert settings.pipelines.submit_seconds == 11
    assert SECRET not in f"{settings}{config}"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("MAX_CONCURRENCY", "many", "MAX_CONCURRENCY is 'many' (from the environment)"),
        ("API_BASE_URL", "nowhere", "API_BASE_URL is 'nowhere' (from the environment)"),
        ("CAPABILITIES", "gpu", "CAPABILITIES is 'gpu' (from the environment)"),
    ],
)
def test_a_wrong_value_is_named_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert sentence in str(refused.value)


def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENCY", "")
    assert load_settings().worker.max_concurrency == 1


def test_a_worker_without_a_secret_or_anything_to_serve_names_the_missing_setting() -> None:
    with pytest.raises(OperatorError, match="FLEET_SECRET"):
        agent_config(load_settings(), "gpu-1")
    with pytest.raises(OperatorError, match="FLEET_SLUG"):
        agent_config(load_settings(worker={"secret": SECRET}), "gpu-1")


async def test_a_worker_without_a_name_is_named_after_its_instance_or_its_host() -> None:
    async with metadata_service() as service:
        settings = load_settings(worker={"metadata_url": service.url})
        assert await machine_name(settings) == service.metadata["instance-id"]
        service.metadata["instance-id"] = "odd name/1"
        assert await machine_name(settings) == "odd-name-1"
    assert (await machine_name(load_settings(worker={"metadata_url": None}))) in socket.gethostname()


def test_two_agents_never_share_a_directory(tmp_path: Path) -> None:
    lock = claim(tmp_path)
    with pytest.raises(OperatorError, match="Another worker already uses"):
        claim(tmp_path)
    lock.close()
    claim(tmp_path).close()


@pytest.mark.parametrize(
    ("notice", "expected"),
    [
        ('{"action": "terminate", "time": "2026-02-15T12:02:00Z"}', 120.0),
        ('{"action": "stop", "time": "2026-02-15T11:59:00Z"}', -60.0),
        ("{}", SPOT_SECONDS),
        ("not JSON", SPOT_SECONDS),
        ('{"time": 3}', SPOT_SECONDS),
    ],
)
def test_a_spot_notice_says_how_long_the_machine_lives(notice: str, expected: float) -> None:
    assert seconds_until(notice, datetime(2026, 2, 15, 12, tzinfo=UTC)) == expected


async def test_the_earliest_deadline_counts() -> None:
    departure = Departure()
    departure.begin("rebalance recommendation", None)
    assert (departure.reason, departure.seconds_left()) == ("rebalance recommendation", None)
    departure.begin("spot interruption", 60)
    departure.begin("SIGTERM", 1000)
    left = departure.seconds_left()
    assert departure.reason == "spot interruption"
    assert left is not None
    assert left <= 60


def test_comfy_cloud_replaces_the_engine_unless_engines_are_named_beside_it() -> None:
    def kinds(**engine: object) -> list[str]:
        settings = load_settings(worker={"cloud_api_key": "key"}, engine=engine)
        return [each.provider for each in engines_of(settings)]

    assert kinds(url="http://127.0.0.1:8188") == ["cloud"]
    assert kinds(urls=["http://127.0.0.1:8188", "http://127.0.0.1:8189"]) == ["self_hosted", "self_hosted", "cloud"]
