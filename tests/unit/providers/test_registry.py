"""Which actors and providers are in the registry, and why one is left out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from callsheet.providers.actor import Task
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.media import Generation, SyncProvider
from callsheet.providers.registry import ACTORS, lacking_of_provider, open_registry
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.errors import InvalidRequest
from tests.support.providers.media_providers import ProgressLog, media_task, opened
from tests.support.providers.plugin_wheel import ENTRY_POINTS, NAME, unpacked_plugin
from tests.support.providers.recording_provider import RecordingProvider

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with these entry points where Python finds it, for one test."""

    def installed(entry_points: str = ENTRY_POINTS, module: str | None = None) -> None:
        site = unpacked_plugin(tmp_path, entry_points)
        if module is not None:
            (site / f"{NAME}.py").write_text(module)
        monkeypatch.syspath_prepend(str(site))

    yield installed
    sys.modules.pop(NAME, None)
    importlib.invalidate_caches()


def stops(**config: Any) -> str:
    with pytest.raises(OperatorError) as stopped:
        open_registry(ProvidersConfig.model_validate(config))
    return str(stopped.value)


async def test_workers_leave_tasks_of_providers_that_are_not_set_up_to_others() -> None:
    async with opened() as registry:
        assert set(registry.provider_names).isdisjoint({"lightbox", "replicate"})
    async with opened(lightbox={"url": "http://127.0.0.1:1"}, replicate={"token": "r8_" + "0" * 37}) as registry:
        assert {"lightbox", "replicate"} <= set(registry.provider_names)


async def test_built_in_actors_and_providers_need_no_settings() -> None:
    async with opened() as registry:
        assert {"comfyui", "lightbox", "replicate"} <= set(registry.media)
        assert "media" in registry.actors
        assert len(registry.actors) == len(ACTORS)
        for name, provider in registry.media.items():
            assert (provider.name, lacking_of_provider(provider)) == (name, [])


async def test_another_package_can_add_providers_and_actors(install: Install, tmp_path: Path) -> None:
    install()
    async with opened(plugins={"tiny": {"signature": "by me"}}) as registry:
        assert {"tiny_count", "tiny_wait", "media"} <= set(registry.actors)
        tiny = cast("SyncProvider", registry.media["tiny"])
        made = await tiny.generate(Generation("txt2img", "x"), tmp_path, ProgressLog())
        assert made.details == {"signature": "by me"}
        done = await registry.actors["media"].run(media_task(tmp_path, provider="tiny"))
        assert cast("Any", done).result["details"] == {"signature": "by me"}
        counted = await registry.actors["tiny_count"].run(Task("tq_1", {"text": "four"}, 1, tmp_path, ProgressLog()))
        assert cast("Any", counted).result["letters"] == 4
        assert "tiny" in cast("Any", counted).result["providers"]
        with pytest.raises(InvalidRequest):
            registry.actors["tiny_count"].plan({})


async def test_settings_of_a_package_are_not_shown(install: Install) -> None:
    config = ProvidersConfig.model_validate({"plugins": {"tiny": {"key": "very-secret"}}})
    assert "very-secret" not in f"{config!r} {config.model_dump()} {config.model_dump_json()}"


async def test_a_blocked_provider_of_another_package_is_not_listed(install: Install) -> None:
    install()
    async with opened(blocked="tiny") as registry:
        assert "tiny" not in registry.media


@pytest.mark.parametrize(
    ("entry_points", "module", "sentence"),
    [
        (
            "[callsheet.providers]\ntiny = tiny_studio:Missing",
            None,
            "'tiny' of callsheet.providers (tiny_studio:Missing) cannot",
        ),
        (
            "[callsheet.actors]\ntiny = tiny_nowhere:Actor",
            None,
            "'tiny' of callsheet.actors (tiny_nowhere:Actor) cannot be used",
        ),
        (ENTRY_POINTS, "raise RuntimeError('boom')", "cannot be used: RuntimeError: boom."),
        (ENTRY_POINTS, "raise SystemExit(0)", "cannot be used: SystemExit: 0."),
        (ENTRY_POINTS, "def TinyProvider(context): return 5", "it has no finish of sync, webhook, worker"),
        (
            "[callsheet.actors]\nmedia = tiny_studio:TinyProvider",
            None,
            "'media' of callsheet.actors (tiny_studio:TinyProvider) cannot be used: it has no plan, run.",
        ),
        (
            "[callsheet.actors]\nmedia = tiny_studio:Other",
            "class Other:\n    name = 'media'\n    paid = plan = run = None\n    def __init__(self, context): pass",
            "There are two in callsheet.actors that are named 'media'.",
        ),
        (
            "[callsheet.actors]\nbad = tiny_studio:Other",
            "class Other:\n    name = 'Bad Name'\n    paid = plan = run = None\n    def __init__(self, context): pass",
            "'Bad Name' cannot be a name in callsheet.actors",
        ),
    ],
)
def test_a_package_that_cannot_be_used_stops_the_start_and_is_named(
    install: Install, entry_points: str, module: str | None, sentence: str
) -> None:
    install(entry_points, module)
    assert sentence in stops()


@pytest.mark.parametrize("name", ["replicate", "comfyui", "self_hosted", "cloud"])
def test_a_service_cannot_take_the_name_of_another_provider(name: str) -> None:
    service = {
        "base_url": "https://example.com",
        "actions": {"txt2img": {"path": "/a", "id": "id"}},
        "poll": {"path": "/a/{id}", "status": "s", "done": ["x"], "outputs": "o"},
    }
    assert stops(http={name: service}) == f"There are two in callsheet.providers that are named {name!r}."


async def test_an_error_in_the_close_of_a_provider_does_not_keep_others_open() -> None:
    closed: list[str] = []

    class Closing(RecordingProvider):
        async def close(self) -> None:
            closed.append(self.name)
            if self.name == "broken":
                raise RuntimeError("cannot close")

    async with opened() as registry:
        broken = type(registry)({}, {name: Closing(name) for name in ("first", "broken", "last")})
        with pytest.raises(RuntimeError, match="cannot close"):
            await broken.close()
    assert sorted(closed) == ["broken", "first", "last"]
