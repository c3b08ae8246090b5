"""Every run has its own files, for any content of an engine's cache: the run's id is in its output nodes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from callsheet.providers.comfy.graphs import MARK, with_own_outputs
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import EngineError, EngineRun, Output
from callsheet_lightbox.media.frames import Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes import probes
from callsheet_lightbox.nodes.saving import PreviewImage
from tests.support.comfyui.engine_setups import EngineSetup, RecordingWatcher, new_run, open_engine_setup
from tests.support.comfyui.graphs import Graph, node


class Strict(PreviewImage):
    """A custom node that judges its inputs, those included that it does not know."""

    name = "ProbeStrict"
    category = probes.CATEGORY
    judged: ClassVar = (MARK,)

    @classmethod
    def refuse(cls, name: str, value: Any, folders: Any) -> str | None:
        return f"unexpected input {name}"


class Eager(PreviewImage):
    """A custom node that gets every input there is, and fails over one that it does not know."""

    name = "ProbeEager"
    category = probes.CATEGORY

    def run(self, context: NodeContext, *, images: Frames) -> Result:
        if any(MARK in each["inputs"] for each in context.prompt.values() if each["class_type"] == self.name):
            raise TypeError(f"ProbeEager.save() got an unexpected keyword argument '{MARK}'")
        return super().run(context, images=images)


class Counted(Node):
    """How often what comes before the output was computed."""

    name = "ProbeCounted"
    category = probes.CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE")}
    outputs = probes.ProbeSleep.outputs
    times: ClassVar[list[int]] = []

    def run(self, context: NodeContext, *, image: Frames) -> Result:
        self.times.append(1)
        return Result((image,))


@pytest.fixture(params=["self_hosted", "cloud"])
async def engine_setup(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EngineSetup]:
    Counted.times.clear()
    with patch.object(probes, "NODES", (*probes.NODES, Strict, Eager, Counted)):
        async with open_engine_setup(request.param, "lightbox", tmp_path) as engine_setup:
            yield engine_setup


def saved(kind: str, colour: int = 0x102030, **inputs: Any) -> Graph:
    return {
        "1": node("EmptyImage", width=16, height=16, batch_size=1, color=colour),
        "3": node("ProbeCounted", image=["1", 0]),
        "2": node(kind, images=["3", 0], **inputs),
    }


def linked() -> Graph:
    """The name of the file is made by another node, as people draw it."""
    return {
        "4": node("PrimitiveString", value="album"),
        "5": node("StringConcatenate", string_a=["4", 0], string_b="cover", delimiter="/"),
        **saved("SaveImage", filename_prefix=["5", 0]),
    }


async def content(engine_setup: EngineSetup, output: Output, folder: Path) -> bytes:
    target = folder / uuid.uuid4().hex
    await engine_setup.engine.fetch(output, target)
    return target.read_bytes()


@pytest.mark.parametrize("graph", [linked(), saved("PreviewImage")], ids=["linked prefix", "no prefix"])
async def test_the_same_graph_twice_has_two_results_and_is_computed_once(
    engine_setup: EngineSetup, tmp_path: Path, graph: Graph
) -> None:
    outputs = [output for _ in range(2) for output in await engine_setup.engine.run(new_run(graph), engine_setup.seen)]
    assert len({(each.folder, each.name) for each in outputs}) == 2
    assert len(Counted.times) == 1
    assert [len(await content(engine_setup, each, tmp_path)) > 0 for each in outputs] == [True, True]


@pytest.mark.parametrize("kind", ["ProbeStrict", "ProbeEager"])
async def test_a_node_that_refuses_the_mark_runs_without_it(
    engine_setup: EngineSetup, tmp_path: Path, kind: str
) -> None:
    first, second = [
        await engine_setup.engine.run(new_run(saved(kind, colour)), engine_setup.seen) for colour in (1, 2)
    ]
    assert [each.node_id for each in (*first, *second)] == ["2", "2"]
    # Learned once: nothing else goes without the mark.
    assert engine_setup.engine._marks.refusing == {kind}  # type: ignore[attr-defined]


async def test_a_cached_output_of_an_unmarked_node_is_used_if_the_same_inputs_made_it(
    tmp_path: Path,
) -> None:
    with patch.object(probes, "NODES", (*probes.NODES, Strict, Counted)):
        async with open_engine_setup("self_hosted", "lightbox", tmp_path) as engine_setup:
            [made] = await engine_setup.engine.run(new_run(saved("ProbeStrict")), engine_setup.seen)
            # The file has not been read yet: another run may have overwritten it before.
            with pytest.raises(EngineError, match="cache"):
                await engine_setup.engine.run(new_run(saved("ProbeStrict")), engine_setup.seen)
            before = await content(engine_setup, made, tmp_path)
            [again] = await engine_setup.engine.run(new_run(saved("ProbeStrict")), engine_setup.seen)
            assert (again.name, await content(engine_setup, again, tmp_path)) == (made.name, before)
            # Another agent has not seen it being made.
            other = ComfyUI(engine_setup.engine_server.url)
            with pytest.raises(EngineError) as refused:
                await other.run(new_run(saved("ProbeStrict")), engine_setup.seen)
            assert refused.value.type == "foreign_output"
            await other.close()
            # A file that was overwritten since then belongs to another run.
            [file] = (tmp_path / "lightbox" / "temp").rglob(made.name)
            file.write_bytes(before + b" ")
            [again] = await engine_setup.engine.run(new_run(saved("ProbeStrict")), engine_setup.seen)
            with pytest.raises(EngineError) as refused:
                await engine_setup.engine.fetch(again, tmp_path / "third")
            assert refused.value.type == "foreign_output"


@pytest.mark.parametrize("ended", ["fetched", "the agent was killed"])
async def test_files_are_removed_wherever_the_graph_put_them(tmp_path: Path, ended: str) -> None:
    with patch.object(probes, "NODES", (*probes.NODES, Counted)):
        async with open_engine_setup("self_hosted", "lightbox", tmp_path) as engine_setup:
            root = tmp_path / "lightbox"
            engine = ComfyUI(engine_setup.engine_server.url, directory=root)
            run_id = str(uuid.uuid4())
            graph = {**linked(), "6": node("PreviewImage", images=["3", 0])}
            run = EngineRun(run_id, with_own_outputs(graph, run_id), "2")
            await engine.run(run, RecordingWatcher())
            written = [path for store in ("output", "temp") for path in (root / store).rglob("*.png")]
            assert len(written) == 2
            other = root / "output" / "album" / "not-ours.png"
            other.write_bytes(b"x")
            if ended == "the agent was killed":
                await engine.close()
                engine = ComfyUI(engine_setup.engine_server.url, directory=root)
            await engine.forget(run_id)
            await engine.close()
            assert [path for path in written if path.exists()] == []
            assert other.exists()
