"""What every engine's provider must do, whichever engine it drives."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.comfy_cloud import ComfyCloud
from callsheet.providers.comfyui import ComfyUI, Patience
from callsheet.providers.engine import Engine, EngineError, EngineStuck, Output, Run
from callsheet.providers.graphs import with_own_outputs
from callsheet.providers.outputs import mime_type_of, public_names
from tests.support.engines import KEY, PNG, ReplayingEngine, replaying
from tests.support.waiting import until

QUICK = Patience(stall=3600, absent=20, poll=0.05)


@dataclass
class Seen:
    starts: int = 0
    percents: list[float | None] = field(default_factory=list)
    messages: list[str | None] = field(default_factory=list)
    previews: list[tuple[str, int]] = field(default_factory=list)

    def started(self) -> None:
        self.starts += 1

    def progressed(self, percent: float | None, message: str | None) -> None:
        self.percents.append(percent)
        self.messages.append(message)

    def previewed(self, mime_type: str, picture: bytes) -> None:
        self.previews.append((mime_type, len(picture)))


@dataclass
class Bench:
    """A provider and the engine it drives."""

    server: ReplayingEngine
    engine: Engine
    make: Callable[..., Engine]
    seen: Seen = field(default_factory=Seen)
    others: list[Engine] = field(default_factory=list)

    def with_patience(self, **seconds: float) -> Engine:
        engine = self.make(Patience(**{"stall": 3600, "absent": 20, "poll": 0.05, **seconds}))
        self.others.append(engine)
        return engine

    async def run(self, scenario: str, output_node: str | None = "2", engine: Engine | None = None) -> list[Output]:
        self.server.scenario = scenario
        run = new_run(output_node)
        return list(await (engine or self.engine).run(run, self.seen))

    async def refused(self, scenario: str, engine: Engine | None = None) -> EngineError:
        with pytest.raises(EngineError) as refused:
            await self.run(scenario, engine=engine)
        return refused.value


def new_run(output_node: str | None = "2") -> Run:
    run_id = str(uuid.uuid4())
    graph: dict[str, dict[str, Any]] = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0}},
        "3": {"class_type": "ProbeSleep", "inputs": {"image": ["1", 0], "seconds": 1.0}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "mine"}},
    }
    return Run(run_id, with_own_outputs(graph, run_id), output_node, {})


@pytest.fixture(params=["self_hosted", "cloud"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with replaying(as_cloud=request.param == "cloud") as server:

        def make(patience: Patience) -> Engine:
            if request.param == "cloud":
                return ComfyCloud(server.url, KEY, patience=patience)
            return ComfyUI(server.url, patience=patience)

        bench = Bench(server, make(QUICK), make)
        await bench.engine.describe()
        yield bench
        for engine in (bench.engine, *bench.others):
            await engine.close()


async def fetched(bench: Bench, output: Output, folder: Path) -> bytes:
    target = folder / "fetched"
    got = await bench.engine.fetch(output, target)
    content = target.read_bytes()
    assert (got.size, got.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    return content


async def test_an_image_comes_back_as_it_was_made(bench: Bench, tmp_path: Path) -> None:
    [first, *_] = await bench.run("SaveImage_batch3")
    assert await fetched(bench, first, tmp_path) == PNG


async def test_a_run_is_heard_to_start_once_to_progress_and_to_show_pictures(bench: Bench) -> None:
    if bench.server.as_cloud:
        # The cloud gives its own ids: what it says before the answer to the submission cannot be told apart.
        bench.server.scenario = "held"
        running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
        await until(lambda: bench.seen.starts)
        bench.server.release.set()
        await running
    else:
        await bench.run("SaveImage_batch3")
        assert bench.seen.messages[-1] == "SaveImage"
    assert bench.seen.starts == 1
    percents = [percent or 0 for percent in bench.seen.percents]
    assert percents == sorted(percents)
    assert all(0 <= percent < 100 for percent in percents)
    assert {kind for kind, _ in bench.seen.previews} == {"image/jpeg"}


async def test_several_outputs_come_in_order(bench: Bench) -> None:
    outputs = await bench.run("SaveImage_batch3")
    assert [output.name for output in outputs] == [f"multi_0000{number}_.png" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("shape", "node", "kind"),
    [
        ("CreateVideo_SaveVideo", "3", "video/mp4"),
        ("SaveWEBM", "2", "video/webm"),
        ("SaveAnimatedWEBP", "2", "image/webp"),
        ("EmptyAudio_SaveAudio_flac", "2", "audio/flac"),
        ("ProbeUI_gifs_like_VHS", "2", "video/mp4"),
        ("SaveLatent", "2", "application/octet-stream"),
        ("PreviewImage_temp", "2", "image/png"),
    ],
)
async def test_every_kind_of_output_is_found_whatever_its_node_calls_it(
    bench: Bench, tmp_path: Path, shape: str, node: str, kind: str
) -> None:
    [output] = await bench.run(shape, output_node=node)
    assert mime_type_of(output.name) == kind
    assert await fetched(bench, output, tmp_path) == PNG


async def test_a_text_becomes_a_file(bench: Bench, tmp_path: Path) -> None:
    [output] = await bench.run("ProbeUI_text")
    assert (await fetched(bench, output, tmp_path)).decode() == "hello\nwörld"
    assert mime_type_of(output.name) == "text/plain"


async def test_kept_files_go_before_temporary_ones_where_no_node_is_named(bench: Bench) -> None:
    outputs = await bench.run("only_preview_and_save", output_node=None)
    assert [output.name for output in outputs] == ["final_00001_.png"]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("err_value_not_in_list", "Value not in list (channel)"),
        ("err_missing_input", "EmptyImage: Required input is missing (width)"),
        ("err_unknown_class", "Node ID '#1'"),
        ("err_no_outputs", "Prompt has no outputs"),
        ("err_cycle", "Prompt outputs failed validation"),
        ("err_prompt_str", "The engine cannot read this workflow (500)."),
    ],
)
async def test_a_workflow_it_refuses_fails_for_good_and_says_why(bench: Bench, case: str, said: str) -> None:
    error = await bench.refused(case)
    assert (error.type, error.retryable) == ("invalid_workflow", False)
    assert said in error.message
    assert "alpha" not in error.message


async def test_an_output_that_could_not_be_validated_is_a_failure_though_others_run(bench: Bench) -> None:
    bench.server.scenario = "partial_one_good_one_bad_output"
    for node, expected in (("6", "invalid_workflow"), ("2", None)):
        with pytest.raises(EngineError) as refused:
            async with asyncio.timeout(5):
                await bench.engine.run(new_run(node), bench.seen)
        assert refused.value.type == (expected or "run_lost")


async def test_a_failing_node_fails_the_run_with_its_words_and_without_its_tensors(bench: Bench) -> None:
    error = await bench.refused("error")
    assert (error.type, error.message, error.retryable) == ("execution_error", "boom", False)
    assert error.details == {"node_id": "3", "node_type": "ProbeFail", "exception_type": "RuntimeError"}
    assert "raise RuntimeError" in (error.traceback or "")
    assert "tensor(" not in f"{error.details}"


async def test_a_run_that_failed_half_way_delivers_nothing(bench: Bench) -> None:
    assert (await bench.refused("partial_error")).type == "execution_error"


async def test_out_of_memory_may_be_tried_again_and_gives_no_advice_to_users(bench: Bench) -> None:
    error = await bench.refused("oom")
    assert (error.type, error.retryable) == ("out_of_memory", True)
    assert "TIPS" not in error.message


async def test_a_run_that_somebody_interrupts_may_be_tried_again(bench: Bench) -> None:
    bench.server.scenario = "held"
    running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
    await until(lambda: bench.server.running)
    assert bench.server.running
    bench.server.running.interrupted.set()
    with pytest.raises(EngineError) as interrupted:
        await running
    assert (interrupted.value.type, interrupted.value.retryable) == ("interrupted", True)


async def stop(running: asyncio.Task[Any]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_running_run_is_cancelled_and_no_other(bench: Bench) -> None:
    bench.server.scenario = "held"
    runs = [new_run(), new_run()]
    tasks = [asyncio.create_task(bench.engine.run(run, bench.seen)) for run in runs]
    await until(lambda: bench.server.running and bench.server.pending)
    await stop(tasks[0])
    await bench.engine.cancel(runs[0].id)
    await until(lambda: bench.server.running and not bench.server.pending)
    bench.server.release.set()
    assert len(await tasks[1]) == 3


async def test_a_waiting_run_is_taken_out_of_the_queue_and_the_running_one_goes_on(bench: Bench) -> None:
    bench.server.scenario = "held"
    runs = [new_run(), new_run()]
    tasks = [asyncio.create_task(bench.engine.run(run, bench.seen)) for run in runs]
    await until(lambda: bench.server.running and bench.server.pending)
    await stop(tasks[1])
    await bench.engine.cancel(runs[1].id)
    assert bench.server.pending == []
    bench.server.release.set()
    assert len(await tasks[0]) == 3


async def test_a_bare_interrupt_is_never_sent(bench: Bench) -> None:
    await bench.engine.cancel(new_run().id)
    sent = bench.server.called("/interrupt")
    if bench.server.as_cloud:
        assert sent == []
    assert all(body and body["prompt_id"] for body in sent)


async def test_a_restarted_engine_loses_the_run_and_it_may_be_tried_again(bench: Bench) -> None:
    bench.server.scenario = "held"
    running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
    await until(lambda: bench.server.running)
    await bench.server.kill()
    await bench.server.start()
    with pytest.raises(EngineError) as lost:
        await running
    assert (lost.value.type, lost.value.retryable) == ("run_lost", True)
    bench.server.scenario = "SaveImage_batch3"
    assert len(await bench.engine.run(new_run(), bench.seen)) == 3


async def test_an_engine_that_stays_away_is_given_up(bench: Bench) -> None:
    engine = bench.with_patience(absent=0.3)
    bench.server.scenario = "held"
    running = asyncio.create_task(engine.run(new_run(), bench.seen))
    await until(lambda: bench.server.running)
    await bench.server.kill()
    with pytest.raises(EngineError) as gone:
        await running
    assert (gone.value.type, gone.value.retryable) == ("engine_unreachable", True)
    await bench.server.start()


async def test_a_lost_socket_loses_nothing(bench: Bench) -> None:
    bench.server.scenario = "held"
    running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
    await until(lambda: bench.server.running and bench.server.sockets)
    await bench.server.drop_sockets()
    bench.server.release.set()
    assert len(await running) == 3


async def test_a_socket_that_comes_back_is_listened_to_again(bench: Bench) -> None:
    bench.server.scenario = "held"
    running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
    await until(lambda: bench.server.running and bench.server.sockets)
    await bench.server.drop_sockets()
    await until(lambda: bench.server.sockets)
    before = len(bench.seen.percents) + len(bench.seen.previews)
    bench.server.release.set()
    await running
    assert len(bench.seen.percents) + len(bench.seen.previews) > before


async def test_a_run_whose_history_was_cleared_is_delivered_from_what_the_socket_told_or_may_be_tried_again(
    bench: Bench, tmp_path: Path
) -> None:
    bench.server.forgets = True
    if bench.server.as_cloud:
        error = await bench.refused("SaveImage_batch3")
        assert (error.type, error.retryable) == ("run_lost", True)
    else:
        [first, *_] = await bench.run("SaveImage_batch3")
        assert await fetched(bench, first, tmp_path) == PNG


async def test_a_slow_engine_is_waited_for(bench: Bench) -> None:
    bench.server.scenario = "held"
    running = asyncio.create_task(bench.engine.run(new_run(), bench.seen))
    asked = "/job" if bench.server.as_cloud else "/history"
    await until(lambda: sum(path.removeprefix("/api").startswith(asked) for _, path, _ in bench.server.calls) > 5)
    assert not running.done()
    bench.server.release.set()
    assert len(await running) == 3


async def test_an_engine_that_moves_nothing_any_more_is_noticed(bench: Bench) -> None:
    engine = bench.with_patience(stall=0.3)
    error = await bench.refused("wedged", engine)
    assert error.retryable
    if not bench.server.as_cloud:
        assert isinstance(error, EngineStuck)
        with pytest.raises(EngineStuck):
            await engine.describe()
        await bench.server.kill()
        await bench.server.start()
        assert (await engine.describe()).version == "0.7.0"


async def test_a_blocked_output_says_what_blocked_it(bench: Bench) -> None:
    error = await bench.refused("blocked")
    assert not error.retryable
    assert error.message


async def test_a_huge_output_is_written_piece_by_piece(bench: Bench, tmp_path: Path) -> None:
    bench.server.content = bytes(range(256)) * 262_144
    [output, *_] = await bench.run("SaveImage_batch3")
    assert len(await fetched(bench, output, tmp_path)) == 67_108_864


async def test_unicode_names_come_back_as_they_are(bench: Bench, tmp_path: Path) -> None:
    [output] = await bench.run("SaveImage_unicode_space")
    assert output.name == "日本 語 ü_00001_.png"
    assert await fetched(bench, output, tmp_path) == PNG
    assert public_names([output]) == ["日本 語 ü_00001_.png"]


async def test_a_name_the_engine_does_not_hand_out_is_an_error_and_not_a_crash(bench: Bench, tmp_path: Path) -> None:
    [output] = await bench.run("SaveImage_dots_in_name")
    with pytest.raises(EngineError) as refused:
        await bench.engine.fetch(output, tmp_path / "fetched")
    assert (refused.value.type, refused.value.retryable) == ("output_unreadable", False)


@pytest.mark.parametrize("name", ["clip.mp4", "日本 語.png", 'a"b;c\r\n.png', "x" * 120 + ".png"])
async def test_any_file_name_can_be_uploaded(bench: Bench, tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what the user sent")
    reference = await bench.engine.upload(path, name, "run-1")
    assert b"what the user sent" in bench.server.files.values()
    assert reference.startswith("callsheet/run-1/") is not bench.server.as_cloud


async def test_a_finished_run_is_forgotten_quietly_also_where_the_engine_is_gone(bench: Bench) -> None:
    await bench.run("SaveImage_batch3")
    await bench.server.kill()
    await bench.engine.forget("run-1")
    await bench.engine.cancel("run-1")
    await bench.server.start()
