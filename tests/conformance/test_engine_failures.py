"""Requirements for the provider of every engine if something fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.engine import EngineError, EngineStuck, EngineUnreachable, NotStarted
from callsheet_lightbox.prompt_queue import PromptQueue
from tests.support.comfyui.engine_setups import EngineSetup, held_graph, new_run
from tests.support.comfyui.graphs import node
from tests.support.database.breakable_proxy import Moment
from tests.support.waiting import until


async def failed(running: asyncio.Task[Any]) -> EngineError:
    with pytest.raises(EngineError) as refused:
        await running
    return refused.value


async def stop(running: asyncio.Task[Any]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("err_missing_input", "EmptyImage: Required input is missing (width)"),
        ("err_below_min", "EmptyImage: Value 0 smaller than min of 1 (width)"),
        ("err_unknown_class", "The engine has no node of the class NoSuchNode (node 1 of the workflow)."),
        ("err_no_outputs", "Prompt has no outputs"),
        ("err_cycle", "Prompt outputs failed validation"),
    ],
)
async def test_a_workflow_that_the_engine_refuses_fails_permanently_with_the_reason(
    engine_setup: EngineSetup, case: str, message: str
) -> None:
    error = await engine_setup.refused(case)
    assert (error.type, error.retryable) == ("invalid_workflow", False)
    assert message in error.message


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("err_value_not_in_list", "the engine has no channel 'zzz'"),
        ("err_prompt_str", "The engine cannot read this workflow (500)."),
    ],
)
async def test_a_refusal_is_reported_without_other_files_of_the_machine(
    recorded_engine_setup: EngineSetup, case: str, message: str
) -> None:
    recorded_engine_setup.engine_server.play(case)
    error = await failed(asyncio.create_task(recorded_engine_setup.engine.run(new_run(), recorded_engine_setup.seen)))  # type: ignore[arg-type]
    assert (error.type, error.retryable) == ("invalid_workflow", False)
    assert message in error.message
    assert "alpha" not in error.message


async def test_an_output_that_could_not_be_validated_is_a_failure_though_others_run(engine_setup: EngineSetup) -> None:
    error = await engine_setup.refused("partial_one_good_one_bad_output", "6")
    assert (error.type, error.retryable) == ("invalid_workflow", False)


async def test_a_failing_node_fails_the_run_with_its_message_and_without_its_tensors(engine_setup: EngineSetup) -> None:
    error = await engine_setup.refused("error")
    assert (error.type, error.message, error.retryable) == ("execution_error", "boom", False)
    assert error.details == {"node_id": "3", "node_type": "ProbeFail", "exception_type": "RuntimeError"}
    assert "raise " in (error.traceback or "")
    assert "tensor(" not in f"{error.details}"


async def test_a_run_that_failed_half_way_delivers_nothing(engine_setup: EngineSetup) -> None:
    assert (await engine_setup.refused("partial_error")).type == "execution_error"


async def test_out_of_memory_may_be_retried_and_gives_no_advice_to_users(engine_setup: EngineSetup) -> None:
    error = await engine_setup.refused("oom")
    assert (error.type, error.retryable) == ("out_of_memory", True)
    assert "CUDA out of memory" in error.message
    assert "TIPS" not in error.message


async def test_the_error_of_a_blocked_output_names_the_cause(engine_setup: EngineSetup) -> None:
    error = await engine_setup.refused("blocked")
    assert not error.retryable
    assert "Execution Blocked" in error.message


async def test_a_run_that_another_client_interrupts_may_be_retried(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin()
    await until(engine_setup.engine_server.running)
    await until(lambda: engine_setup.seen.starts)
    await engine_setup.engine_server.interrupt()
    error = await failed(running)
    assert (error.type, error.retryable) == ("interrupted", True)


async def test_cancelling_a_running_run_affects_no_other_run(engine_setup: EngineSetup) -> None:
    run = new_run(held_graph())
    cancelled = engine_setup.begin(run)
    await until(engine_setup.engine_server.running)
    other = engine_setup.begin()
    await until(engine_setup.engine_server.pending)
    await stop(cancelled)
    await engine_setup.engine.cancel(run.id)
    assert engine_setup.engine.id_of(run.id) not in await engine_setup.engine_server.running()
    engine_setup.engine_server.release()
    assert len(await other) == 3


async def test_a_waiting_run_is_removed_from_the_queue_and_the_running_one_continues(engine_setup: EngineSetup) -> None:
    other = engine_setup.begin()
    await until(engine_setup.engine_server.running)
    run = new_run(held_graph())
    cancelled = engine_setup.begin(run)
    await until(engine_setup.engine_server.pending)
    await stop(cancelled)
    await engine_setup.engine.cancel(run.id)
    assert await engine_setup.engine_server.pending() == []
    engine_setup.engine_server.release()
    assert len(await other) == 3


async def test_a_run_cancelled_during_its_submission_is_stopped(
    engine_setup: EngineSetup,
) -> None:
    engine_setup.line.breaks = ["after"]
    run = new_run(held_graph())
    cancelled = engine_setup.begin(run)
    await until(lambda: engine_setup.line.broken)
    await stop(cancelled)
    await engine_setup.engine.cancel(run.id)

    async def is_idle() -> bool:
        return not await engine_setup.engine_server.running() and not await engine_setup.engine_server.pending()

    await until(is_idle)
    # The test does not ask the engine: it knows nothing of a run that left the queue before it was started.
    assert engine_setup.line.carried == 1


@pytest.mark.few_forms
@pytest.mark.parametrize(("breaks", "sent"), [(["after"], 1), (["before"], 1), (["before", "after"], 1)])
async def test_a_submission_whose_response_was_lost_is_not_run_twice(
    engine_setup: EngineSetup, breaks: list[Moment], sent: int
) -> None:
    engine_setup.line.breaks = list(breaks)
    run = new_run(held_graph())
    engine_setup.engine_server.release()
    outputs = await engine_setup.begin(run)
    assert len(outputs) == 3
    assert engine_setup.line.broken == len(breaks)
    assert await engine_setup.engine_server.submissions() == sent
    await engine_setup.engine.forget(run.id)


async def test_a_run_lost_by_an_engine_restart_may_be_retried(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin()
    # Waits until the worker knows of the run too: a prompt without a response was never started, and is sent again.
    await until(lambda: engine_setup.seen.starts)
    await engine_setup.kill()
    await engine_setup.start()
    lost = await failed(running)
    assert (lost.type, lost.retryable) == ("run_lost", True)
    assert len(await engine_setup.run("SaveImage_batch3")) == 3


async def test_waiting_for_an_unavailable_engine_ends_after_its_limit(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin(engine=engine_setup.with_patience(absent=0.3))
    await until(engine_setup.engine_server.running)
    await engine_setup.kill()
    gone = await failed(running)
    assert (gone.type, gone.retryable) == ("engine_unreachable", True)
    await engine_setup.start()


# Longer than any test: an engine that is noticed only by the timeout of a response fails the test.
NEVER_SECONDS = 3600.0


async def test_an_engine_that_freezes_during_a_run_is_noticed_after_its_limit(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin(engine=engine_setup.with_patience(absent=0.3, response=NEVER_SECONDS))
    await until(lambda: engine_setup.seen.starts)
    engine_setup.line.is_frozen = True
    gone = await failed(running)
    assert (gone.type, gone.message) == ("engine_unreachable", "The engine stopped responding.")


@pytest.mark.thorough
async def test_an_engine_that_is_frozen_takes_no_run_and_no_file(engine_setup: EngineSetup, tmp_path: Path) -> None:
    engine = engine_setup.with_patience(absent=0.3, response=0.3)
    engine_setup.line.is_frozen = True
    error = await failed(engine_setup.begin(engine=engine))
    assert isinstance(error, NotStarted)
    assert error.message == "The engine stopped responding. It did not take the run."
    file = tmp_path / "picture.png"
    file.write_bytes(b"x")
    with pytest.raises(EngineUnreachable, match=r"The engine stopped responding\."):
        await engine.upload(file, "picture.png", "0")


async def test_a_lost_socket_is_reopened_and_no_message_is_lost(engine_setup: EngineSetup) -> None:
    running = engine_setup.begin()
    await until(lambda: engine_setup.seen.previews)
    old = set(engine_setup.recorded.sockets.values()) if engine_setup.is_recorded else set()
    engine_setup.line.drop()
    before = len(engine_setup.seen.previews)
    if engine_setup.is_recorded:
        await until(lambda: set(engine_setup.recorded.sockets.values()) - old)
    else:
        await until(lambda: len(engine_setup.seen.previews) > before)
    engine_setup.engine_server.release()
    assert len(await running) == 3
    assert len(engine_setup.seen.previews) > before
    assert engine_setup.seen.starts == 1


async def test_a_run_whose_history_is_gone_is_delivered_from_the_messages_of_the_socket(
    engine_setup: EngineSetup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if engine_setup.is_recorded:
        engine_setup.recorded.forgets = True
    else:
        monkeypatch.setattr(PromptQueue, "finish", lambda queue, ticket, record: queue._running.pop(ticket))
    outputs = await engine_setup.run("SaveImage_batch3")
    assert len(outputs) == 3
    assert (await engine_setup.engine.fetch(outputs[0], tmp_path / "file")).size > 100


async def test_a_slow_engine_is_waited_for(engine_setup: EngineSetup) -> None:
    """The engine responds late, and a node works for long without a message."""
    if engine_setup.is_recorded:
        running = engine_setup.begin()
        path_of_history = "/job" if engine_setup.as_cloud else "/history"
        calls = engine_setup.recorded.calls
        await until(lambda: sum(path.removeprefix("/api").startswith(path_of_history) for _, path, _ in calls) > 5)
        assert not running.done()
        engine_setup.engine_server.release()
    else:
        hang = node("ProbeHang", image=["1", 0], seconds=0.6)
        running = engine_setup.begin(new_run(held_graph() | {"3": hang}))
    assert len(await running) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_stalled_engine_is_detected(engine_setup: EngineSetup) -> None:
    engine = engine_setup.with_patience(stall=0.3, idle=0.3)
    engine_setup.engine_server.play("wedged")
    dies = node("ProbeFail", image=["1", 0], message="the executor dies", kind="SystemExit")
    run = new_run(held_graph() | {"3": dies})
    with pytest.raises(EngineError) as stuck:
        await engine.run(run, engine_setup.seen)
    assert stuck.value.retryable
    # The cloud has other machines for the next job; this one has not.
    assert isinstance(stuck.value, EngineStuck) is not engine_setup.as_cloud
    if not engine_setup.as_cloud:
        with pytest.raises(EngineStuck):
            await engine.describe()
        await engine_setup.kill()
        await engine_setup.start()
        assert (await engine.describe()).version == "0.7.0"


async def test_an_output_name_that_the_engine_refuses_is_an_error_and_not_a_crash(
    recorded_engine_setup: EngineSetup, tmp_path: Path
) -> None:
    [output] = await recorded_engine_setup.run("SaveImage_dots_in_name")
    with pytest.raises(EngineError) as refused:
        await recorded_engine_setup.engine.fetch(output, tmp_path / "fetched")
    assert (refused.value.type, refused.value.retryable) == ("output_unreadable", False)


async def test_a_bare_interrupt_is_never_sent(recorded_engine_setup: EngineSetup) -> None:
    await recorded_engine_setup.engine.cancel(new_run().id)
    running = recorded_engine_setup.begin(run := new_run())
    await until(recorded_engine_setup.engine_server.running)
    await stop(running)
    await recorded_engine_setup.engine.cancel(run.id)
    sent = recorded_engine_setup.recorded.called("/interrupt")
    if recorded_engine_setup.as_cloud:
        assert sent == []
    else:
        assert run.id in [body["prompt_id"] for body in sent]
        assert all(body and body["prompt_id"] for body in sent)
