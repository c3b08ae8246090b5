"""Sound as the input of effects: real files, from an import of an export to what the engine made of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.media.previews import image
from tests.support.media.sounds import FORMATS, analyze, sound
from tests.worker.harness import QUICK, AgentHarness, open_agent_harness

EXPORT: dict[str, Any] = {
    "1": node("LoadAudio", audio="voice.mp3", audioUI="http://127.0.0.1:8188/api/view?filename=voice.mp3"),
    "2": node("SaveAudio", audio=["1", 0], filename_prefix="audio/ComfyUI"),
}


@dataclass
class SoundJobs:
    agent_harness: AgentHarness
    catalog_api: CatalogApi
    lightbox: RunningLightbox
    ann: Person

    async def effect(self, export: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """The effect of a workflow as the import proposes it; a worker offers it."""
        response = await self.catalog_api.call("POST", "/api/admin/workflows/proposals", {"graph": export})
        assert response.status_code == 200, response.text
        proposal = response.json()
        [output] = proposal["outputs"]
        wanted = {
            "graph": proposal["graph"],
            "properties": proposal["properties"],
            "output_node_id": output["node_id"],
            "output_extension": output["extension"],
            "output_mime_type": output["mime_type"],
        }
        made = await self.catalog_api.workflow(**{**wanted, **changes})
        engine = ComfyUI(self.lightbox.url, patience=QUICK)
        self.agent_harness.agent(engines=[engine], workflows=(made["slug"],))
        return await self.catalog_api.effect(made["slug"], credits_cost=3)

    async def file(self, extension: str, seconds: float = 1.0, pitch: float = 440.0) -> str:
        mime_type = FORMATS[extension][2]
        content = sound(extension, seconds, pitch)
        return await self.catalog_api.file(self.ann, content, mime_type, f"My voice.{extension}")

    async def result(self, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        ended = await self.agent_harness.ends(self.ann, job["id"])
        [output] = ended["outputs"]
        return output, (await self.catalog_api.client.get(output["url"])).content


@pytest.fixture
async def sound_jobs(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[SoundJobs]:
    async with (
        lightbox_here(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        client = agent_harness.worker_harness.client
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        yield SoundJobs(agent_harness, catalog_api, lightbox, await catalog_api.person(tokens=100))


@pytest.mark.parametrize("extension", FORMATS)
async def test_an_effect_works_on_the_sound_of_a_user(sound_jobs: SoundJobs, extension: str) -> None:
    effect = await sound_jobs.effect(EXPORT)
    shown = await sound_jobs.catalog_api.shown(sound_jobs.ann, f"/api/effects/{effect['slug']}")
    assert (shown["input"]["type"], shown["input"]["accept"]) == ("audio", ["audio/*"])
    assert shown["output"] == {"type": "audio", "mime_type": "audio/flac"}
    file_id = await sound_jobs.file(extension, pitch=660.0)
    job = await sound_jobs.catalog_api.submit(sound_jobs.ann, effect, input_file_id=file_id, input_payload={})
    output, content = await sound_jobs.result(job)
    assert (output["mime_type"], output["name"].rpartition(".")[2]) == ("audio/flac", "flac")
    found = analyze(content)
    assert (found.codec, found.pitch) == ("flac", pytest.approx(660.0, abs=5))
    assert found.seconds == pytest.approx(1.0, abs=0.1)
    assert await sound_jobs.agent_harness.worker_harness.balance(sound_jobs.ann) == 97


async def test_a_sound_beside_an_image_becomes_the_sound_of_a_video(sound_jobs: SoundJobs) -> None:
    """A workflow of two files: the image is its primary input, and users send the sound as a value."""
    export = {
        "2": node("LoadAudio", audio="music.wav"),
        "3": node("LoadImage", image="cover.png", upload="image"),
        "4": node("CreateVideo", images=["3", 0], fps=12.0, audio=["2", 0]),
        "5": node("SaveVideo", video=["4", 0], filename_prefix="video", format="auto", codec="auto"),
    }
    effect = await sound_jobs.effect(export)
    shown = await sound_jobs.catalog_api.shown(sound_jobs.ann, f"/api/effects/{effect['slug']}")
    assert shown["input"]["type"] == "image"
    assert [(each["key"], each["type"], each["accept"]) for each in shown["properties"]] == [
        ("audio", "audio", ["audio/*"])
    ]
    cover = await sound_jobs.catalog_api.file(sound_jobs.ann, image(32, 32), "image/png", "cover.png")
    values = {"audio": await sound_jobs.file("ogg", pitch=880.0)}
    job = await sound_jobs.catalog_api.submit(sound_jobs.ann, effect, input_file_id=cover, input_payload=values)
    output, content = await sound_jobs.result(job)
    assert output["mime_type"] == "video/mp4"
    assert analyze(content).pitch == pytest.approx(880.0, abs=5)


async def test_a_result_of_an_unknown_kind_gets_the_type_of_its_bytes(sound_jobs: SoundJobs) -> None:
    unknown = {"output_extension": "bin", "output_mime_type": "application/octet-stream"}
    effect = await sound_jobs.effect(EXPORT, **unknown)
    shown = await sound_jobs.catalog_api.shown(sound_jobs.ann, f"/api/effects/{effect['slug']}")
    assert shown["output"] == {"type": "other", "mime_type": "application/octet-stream"}
    job = await sound_jobs.catalog_api.submit(
        sound_jobs.ann, effect, input_file_id=await sound_jobs.file("wav"), input_payload={}
    )
    output, content = await sound_jobs.result(job)
    assert (output["mime_type"], output["name"].rpartition(".")[2]) == ("audio/flac", "flac")
    assert analyze(content).codec == "flac"


async def test_a_text_that_a_node_shows_is_a_result(sound_jobs: SoundJobs) -> None:
    export = {
        "1": node("StringConcatenate", string_a="{{greeting}}", string_b="Ann", delimiter=", "),
        "2": node("PreviewAny", source=["1", 0]),
    }
    effect = await sound_jobs.effect(export)
    shown = await sound_jobs.catalog_api.shown(sound_jobs.ann, f"/api/effects/{effect['slug']}")
    assert shown["output"] == {"type": "text", "mime_type": "text/plain"}
    job = await sound_jobs.catalog_api.submit(sound_jobs.ann, effect, input_payload={"greeting": "Grüße 🎬"})
    output, content = await sound_jobs.result(job)
    assert (output["mime_type"], output["name"].rpartition(".")[2]) == ("text/plain", "txt")
    assert content.decode() == "Grüße 🎬, Ann"
