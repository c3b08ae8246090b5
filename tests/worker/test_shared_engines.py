"""What each provider must never do to an engine that others share."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.comfy.cloud import ComfyCloud
from callsheet.providers.comfy.files import view_query
from callsheet.providers.comfy.graphs import with_own_outputs
from callsheet.providers.comfy.http import EngineHttp
from callsheet.providers.comfy.inventory import version_of
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.comfy.socket import socket_address
from callsheet.providers.engine import EngineError, EngineRun, EngineUnreachable, NodeState, Output
from tests.support.comfyui.engine_setups import RecordingWatcher
from tests.support.comfyui.replaying_engine import KEY, PNG, replaying
from tests.support.database.breakable_proxy import breakable_proxy_to
from tests.support.waiting import until

QUICK = Patience(stall=3600, absent=120, poll=0.05)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.providers.comfy.http.backoff_seconds", lambda *_: 0.02)


class Deaf:
    def started(self) -> None: ...

    def progressed(self, percent: float | None, message: str | None) -> None: ...

    def previewed(self, mime_type: str, image: bytes) -> None: ...

    def freed(self) -> None: ...

    def at_node(self, node_id: str, state: NodeState) -> None: ...


def new_run() -> EngineRun:
    run_id = str(uuid.uuid4())
    graph: dict[str, dict[str, Any]] = {
        "1": {"class_type": "EmptyImage", "inputs": {}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
    }
    return EngineRun(run_id, with_own_outputs(graph, run_id), "2")


@pytest.mark.parametrize(("version", "interrupts"), [("0.3.56", False), ("0.3.57", True), ("unknown", False)])
async def test_an_engine_that_may_interrupt_the_run_of_another_client_is_never_asked_to(
    version: str, interrupts: bool
) -> None:
    async with replaying() as server:
        server.version, server.scenario = version, "held"
        engine = ComfyUI(server.url, patience=QUICK)
        await engine.describe()
        run = new_run()
        running = asyncio.create_task(engine.run(run, Deaf()))
        await until(lambda: server.running)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await engine.cancel(run.id)
        assert bool(server.called("/interrupt")) is interrupts
        await engine.close()


@pytest.mark.parametrize("version", ["0.3.44", "v0.2.7"])
async def test_an_engine_that_gives_runs_ids_of_its_own_gets_no_job(version: str) -> None:
    async with replaying() as server:
        server.version = version
        engine = ComfyUI(server.url, patience=QUICK)
        with pytest.raises(EngineError, match=r"too old .*: 0\.3\.45 or newer is needed") as refused:
            await engine.describe()
        assert refused.value.type == "engine_too_old"
        await engine.close()


async def test_a_run_under_another_id_is_taken_out_of_the_queue() -> None:
    async with replaying() as server:
        server.version, server.scenario, server.names_runs = "unknown", "wedged", True
        engine = ComfyUI(server.url, patience=QUICK)
        await engine.describe()
        with pytest.raises(EngineError) as refused:
            await engine.run(new_run(), Deaf())
        assert (refused.value.type, refused.value.retryable) == ("engine_too_old", True)
        [body] = server.called("/queue")
        assert body["delete"] == list(server.taken)
        await engine.close()


async def test_one_socket_serves_all_runs_of_an_engine() -> None:
    async with replaying() as server:
        engine = ComfyUI(server.url, patience=QUICK)
        for _ in range(3):
            await engine.run(new_run(), Deaf())
        assert len(server.sockets) == 1
        assert {body["client_id"] for body in server.called("/prompt")} == set(server.sockets)
        await engine.close()


async def test_the_cloud_key_goes_nowhere_but_to_the_cloud(tmp_path: Path) -> None:
    async with replaying(as_cloud=True) as server, replaying() as storage:
        server.storage_url, storage.files = storage.url, server.files
        engine = ComfyCloud(server.url, KEY, patience=QUICK)
        [output, *_] = await engine.run(new_run(), Deaf())
        await engine.fetch(output, tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == PNG
        [headers] = storage.views
        assert KEY not in str(headers)
        assert "x-api-key" not in {name.lower() for name in headers}
        assert server.views == []
        await engine.close()


async def test_a_lost_cloud_run_is_found_by_its_graph_where_the_list_names_no_workflow() -> None:
    async with replaying(as_cloud=True) as server, breakable_proxy_to(server.url) as line:
        server.lists_workflows = False
        line.breaks = ["after"]
        engine = ComfyCloud(line.url, KEY, patience=QUICK)
        await engine.run(new_run(), Deaf())
        assert len(server.called("/prompt")) == 1
        await engine.close()


async def test_a_cloud_run_of_an_agent_that_was_killed_can_be_cancelled_by_the_next() -> None:
    async with replaying(as_cloud=True) as server:
        server.scenario = "held"
        killed, run = ComfyCloud(server.url, KEY, patience=QUICK), new_run()
        running = asyncio.create_task(killed.run(run, Deaf()))
        await until(lambda: server.running)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        following = ComfyCloud(server.url, KEY, patience=QUICK)
        await following.cancel(run.id)
        await until(lambda: server.running is None)
        for engine in (killed, following):
            await engine.close()


async def test_a_cloud_that_cancels_only_waiting_runs_is_never_asked_to_interrupt_all() -> None:
    async with replaying(as_cloud=True) as server:
        server.scenario, server.stops_running = "held", False
        engine, run = ComfyCloud(server.url, KEY, patience=QUICK), new_run()
        running = asyncio.create_task(engine.run(run, Deaf()))
        await until(lambda: server.running)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await engine.cancel(run.id)
        assert server.running
        assert server.called("/interrupt") == []
        await engine.close()


@pytest.mark.parametrize("status", [401, 402, 429])
async def test_a_cloud_account_without_permission_is_not_retried_repeatedly(status: int) -> None:
    async with replaying(as_cloud=True) as server:
        server.refuses_with = status
        engine = ComfyCloud(server.url, KEY, patience=QUICK)
        with pytest.raises(EngineError) as refused:
            await engine.run(new_run(), Deaf())
        assert not refused.value.retryable
        assert refused.value.type.startswith("cloud_")
        assert len(server.called("/prompt")) == 1
        # Nor is it given the next job at once, to be refused as well.
        with pytest.raises(EngineError) as again:
            await engine.describe()
        assert again.value.message == refused.value.message
        await engine.close()


def test_urls_and_versions_are_parsed() -> None:
    assert socket_address("https://host:1/path/") == "wss://host:1/path"
    assert socket_address("http://host") == "ws://host"
    assert version_of("0.7.0") == (0, 7, 0)
    assert version_of("v0.3.57-3-gabc") == (0, 3, 57)
    assert version_of(None) is None
    assert view_query(Output("1", "a&b=ü/.png", "c d")) == "filename=a%26b%3D%C3%BC%2F.png&subfolder=c%20d&type=output"


@pytest.mark.few_forms
@pytest.mark.parametrize(("retries", "failures", "succeeds"), [(2, 2, True), (2, 3, False), (0, 1, False)])
@pytest.mark.parametrize("kind", [ComfyUI, ComfyCloud])
async def test_an_upload_to_an_engine_is_retried_up_to_the_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[ComfyUI | ComfyCloud],
    retries: int,
    failures: int,
    succeeds: bool,
) -> None:
    """The connection breaks so many times."""
    file = tmp_path / "in.png"
    file.write_bytes(PNG)
    left = failures
    call = EngineHttp.call

    async def breaking(self: EngineHttp, *arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise EngineUnreachable("The engine cannot be reached.")
        return await call(self, *arguments, **options)

    async with replaying(as_cloud=kind is ComfyCloud) as server:
        patience = Patience(poll=0.05, retries=retries)
        engine = (
            ComfyUI(server.url, patience=patience)
            if kind is ComfyUI
            else ComfyCloud(server.url, KEY, patience=patience)
        )
        with monkeypatch.context() as broken:
            broken.setattr(EngineHttp, "call", breaking)
            if succeeds:
                assert (await engine.upload(file, "in.png", "run-1")).endswith(".png")
            else:
                with pytest.raises(EngineUnreachable):
                    await engine.upload(file, "in.png", "run-1")
        assert left == max(0, failures - retries - 1)
        await engine.close()


async def test_a_request_to_a_slow_engine_times_out() -> None:
    stays = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stays.wait()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    engine = ComfyUI(f"http://127.0.0.1:{port}", patience=Patience(response=0.05))
    with pytest.raises(EngineUnreachable, match="stopped responding"):
        await engine.describe()
    stays.set()
    await engine.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("as_cloud", [False, True], ids=["self_hosted", "cloud"])
async def test_messages_that_are_read_after_the_result_still_say_when_each_node_ran(as_cloud: bool) -> None:
    async with replaying(as_cloud=as_cloud) as server:
        server.scenario = "late"
        engine = ComfyCloud(server.url, KEY, patience=QUICK) if as_cloud else ComfyUI(server.url, patience=QUICK)
        seen = RecordingWatcher()
        await engine.run(new_run(), seen)
        assert {node for node, state in seen.nodes if state == "started"} == {
            node for node, state in seen.nodes if state == "finished"
        }
        assert {node for node, _ in seen.nodes} >= {"1", "2"}
        await engine.close()
