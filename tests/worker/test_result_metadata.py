"""What an engine writes into its files stays with the operator: the agent delivers results without the graph."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet_lightbox.folders import Folders
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.http.accounts import Person
from tests.support.media.files_with_graphs import packets, shown
from tests.worker.harness import QUICK, AgentHarness, open_agent_harness

SECRET = "hidden value of the effect"
IMAGES = (".png", ".webp", ".gif")
GRAPH: dict[str, Any] = {
    "picture": node("EmptyImage", width=64, height=48, batch_size=4, color=0x336699),
    "sound": node("EmptyAudio", duration=0.5, sample_rate=48000, channels=2),
    "one": node("LightboxFirstFrame", images=["picture", 0]),
    "film": node("CreateVideo", images=["picture", 0], fps=8.0, audio=["sound", 0]),
    "png": node("SaveImage", images=["one", 0], filename_prefix="still"),
    "apng": node("SaveAnimatedPNG", images=["picture", 0], filename_prefix="moving", fps=8.0, compress_level=4),
    "webp": node(
        "SaveAnimatedWEBP",
        images=["picture", 0],
        filename_prefix="webp",
        fps=8.0,
        lossless=True,
        quality=80,
        method="default",
    ),
    "gif": node("LightboxSaveGIF", images=["picture", 0], filename_prefix="gif", fps=8.0),
    "mp4": node("SaveVideo", video=["film", 0], filename_prefix="video", format="mp4", codec="auto"),
    "webm": node("SaveWEBM", images=["picture", 0], filename_prefix="web", codec="vp9", fps=8.0, crf=32.0),
    "flac": node("SaveAudio", audio=["sound", 0], filename_prefix="flac"),
    "mp3": node("SaveAudioMP3", audio=["sound", 0], filename_prefix="mp3", quality="V0"),
    "opus": node("SaveAudioOpus", audio=["sound", 0], filename_prefix="opus", quality="128k"),
}
ALL_KINDS = [".flac", ".gif", ".mp3", ".mp4", ".opus", ".png", ".png", ".webm", ".webp"]


@dataclass
class MetadataJobs:
    agent_harness: AgentHarness
    folders: Folders
    person: Person

    async def results(self, target: Path, **payload: Any) -> dict[str, Path]:
        """What a job delivered, by name; checked against what was announced."""
        extra = {"extra_pnginfo": {"workflow": {"widgets_values": [SECRET]}}}
        wanted = {"workflow": GRAPH, "assets": [], "output_node_id": None, "extra_data": extra, **payload}
        job_id = await self.agent_harness.submit(self.person, **wanted)
        await self.agent_harness.ends(self.person, job_id)
        found = {}
        await asyncio.to_thread(target.mkdir)
        for file in await self.agent_harness.worker_harness.files(self.person, job_id):
            content = await self.agent_harness.worker_harness.plane.rooms.storage.read(file["path"], 10_000_000)
            assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
            found[file["name"]] = target / file["name"]
            found[file["name"]].write_bytes(content)
        return found

    def original(self, name: str) -> Path:
        [path] = self.folders.output.rglob(name)
        return path


@pytest.fixture
async def metadata_jobs(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[MetadataJobs]:
    async with (
        lightbox_here(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        agent_harness.agent(engines=[ComfyUI(lightbox.url, patience=QUICK)])
        yield MetadataJobs(agent_harness, lightbox.folders, await agent_harness.person())


async def test_a_delivered_file_of_any_kind_carries_nothing_of_the_graph(
    metadata_jobs: MetadataJobs, tmp_path: Path
) -> None:
    results = await metadata_jobs.results(tmp_path / "results")
    assert sorted(path.suffix for path in results.values()) == ALL_KINDS
    for name, path in results.items():
        original = metadata_jobs.original(name)
        if path.suffix != ".gif":
            assert b"class_type" in original.read_bytes(), name
        for text in (b"class_type", b"widgets_values", SECRET.encode(), b"EmptyImage", b"prompt"):
            assert text not in path.read_bytes(), name
        content_of = shown if path.suffix in IMAGES else packets
        assert content_of(path) == content_of(original), name


@pytest.mark.thorough
async def test_a_workflow_that_keeps_metadata_delivers_files_as_they_are(
    metadata_jobs: MetadataJobs, tmp_path: Path
) -> None:
    results = await metadata_jobs.results(tmp_path / "results", keep_metadata=True)
    assert sorted(path.suffix for path in results.values()) == ALL_KINDS
    for name, path in results.items():
        assert path.read_bytes() == metadata_jobs.original(name).read_bytes(), name
