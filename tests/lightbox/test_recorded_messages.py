"""A client gets the same messages in the same order as in the recordings of ComfyUI."""

from __future__ import annotations

import asyncio
import json
import struct
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import idle, render
from tests.support.comfyui.lightbox_recordings import differences, only_entry, sample
from tests.support.waiting import PATIENCE_SECONDS, until

Message = dict[str, Any]
FLAGS = {"type": "feature_flags", "data": {"supports_preview_metadata": True}}
REPEATED = ("progress_state", "progress", "binary")


@dataclass
class Listener:
    socket: ClientConnection
    client_id: str

    async def receive_until(self, ends: Callable[[Message], bool]) -> list[Message]:
        received: list[Message] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not received or not ends(received[-1]):
                received.append(read(await self.socket.recv()))
        return received


def read(message: str | bytes) -> Message:
    if isinstance(message, str):
        return dict(json.loads(message))
    (event,) = struct.unpack(">I", message[:4])
    found: Message = {"BINARY": True, "event": event, "len": len(message), "head_hex": message[:24].hex()}
    (number,) = struct.unpack(">I", message[4:8])
    if event == 4:
        image = message[8 + number :]
        return found | {"metadata": json.loads(message[8 : 8 + number]), "image_magic": image[:4].hex()}
    return found | {"image_type": number, "image_magic": message[8:12].hex()}


@asynccontextmanager
async def listening(engine: RunningLightbox, flags: bool = False) -> AsyncIterator[Listener]:
    client_id = uuid.uuid4().hex
    address = f"{engine.url.replace('http', 'ws')}/ws?clientId={client_id}"
    async with connect(address, max_size=None, proxy=None) as socket:
        if flags:
            await socket.send(json.dumps(FLAGS))
        yield Listener(socket, client_id)


def is_end(message: Message) -> bool:
    return message.get("type") == "executing" and message["data"]["node"] is None


def is_idle(message: Message) -> bool:
    return kind(message) == "status" and message["data"]["status"]["exec_info"]["queue_remaining"] == 0


def kind(message: Message) -> str:
    return "binary" if "BINARY" in message else str(message["type"])


def collapsed(messages: list[Message]) -> list[str]:
    """Kinds in order, with what comes once per step of a node kept once."""
    kinds: list[str] = []
    for each in map(kind, messages):
        if not (each in REPEATED and each in kinds[-3:] and set(kinds[-2:]) <= set(REPEATED)):
            kinds.append(each)
    return kinds


def recorded_run(name: str) -> tuple[list[Message], dict[str, Any]]:
    found = sample(name)
    return [each["msg"] for each in found["messages"]], only_entry(found["history"])


async def fill_cache(client: httpx.AsyncClient, graph: dict[str, Any], cached: list[str]) -> None:
    """The recording found these done: they are done here first, and nothing else."""
    if set(cached) == set(graph):
        await render(client, graph)
    elif cached:
        shown = {f"p{key}": {"class_type": "PreviewImage", "inputs": {"images": [key, 0]}} for key in cached}
        await render(client, {key: graph[key] for key in cached} | shown)
    else:
        await client.post("/free", json={"free_memory": True})
    await idle(client)


def cached_in(entry: dict[str, Any]) -> list[str]:
    return list(entry["status"]["messages"][1][1]["nodes"])


def agree(recorded: list[Message], received: list[Message]) -> None:
    for expected, given in zip(recorded, received, strict=True):
        if "BINARY" in expected:
            assert {key: expected.get(key) for key in ("event", "image_type", "image_magic")} == {
                key: given.get(key) for key in ("event", "image_type", "image_magic")
            }
            assert expected.keys() == given.keys()
        else:
            assert differences(expected, given) == []


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "name",
    [
        "ws_success_uncached",
        "ws_success_fully_cached",
        "ws_error",
        "ws_progress_with_preview_flags",
        "ws_progress_with_preview_no_flags",
        "ws_SaveImageWebsocket",
        "ws_execution_blocked_silent",
        "ws_execution_blocked_with_message",
    ],
)
async def test_messages_of_a_run_come_in_the_recorded_order(
    name: str, lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded, entry = recorded_run(name)
    graph = entry["prompt"][2]
    await fill_cache(lightbox_client, graph, cached_in(entry))
    flags = any(kind(each) == "feature_flags" for each in recorded)
    async with listening(lightbox_engine, flags) as listener:
        hello = await listener.receive_until(lambda each: kind(each) == ("feature_flags" if flags else "status"))
        response = await lightbox_client.post("/prompt", json={"prompt": graph, "client_id": listener.client_id})
        received = hello + await listener.receive_until(is_end)
        # The history is there by the time the last message is.
        prompt_id = response.json()["prompt_id"]
        history = (await lightbox_client.get(f"/history/{prompt_id}")).json()[prompt_id]
    assert [kind(each) for each in received] == [kind(each) for each in recorded]
    agree(recorded, received)
    assert [event for event, _ in history["status"]["messages"]] == [event for event, _ in entry["status"]["messages"]]
    assert differences(entry["outputs"], history["outputs"]) == []


@pytest.mark.parametrize("name", ["ws_no_client_id_other_listener", "ws_no_client_id_interrupted"])
async def test_some_messages_of_a_run_without_a_client_go_to_all_listeners(
    name: str, lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded, entry = recorded_run(name)
    graph = entry["prompt"][2]
    await fill_cache(lightbox_client, graph, cached_in(entry))
    async with listening(lightbox_engine) as listener:
        received = await listener.receive_until(is_idle)
        await lightbox_client.post("/prompt", json={"prompt": graph})
        if name.endswith("interrupted"):
            received += await listener.receive_until(lambda each: kind(each) == "progress")
            await lightbox_client.post("/interrupt")
        received += await listener.receive_until(is_idle)
    assert collapsed(received) == collapsed(recorded)


async def test_messages_of_an_interrupted_run_are_as_recorded(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded, entry = recorded_run("ws_interrupted")
    graph = entry["prompt"][2]
    await fill_cache(lightbox_client, graph, cached_in(entry))
    async with listening(lightbox_engine) as listener:
        received = await listener.receive_until(is_idle)
        await lightbox_client.post("/prompt", json={"prompt": graph, "client_id": listener.client_id})
        received += await listener.receive_until(lambda each: kind(each) == "progress")
        await lightbox_client.post("/interrupt")
        received += await listener.receive_until(is_end)
    assert collapsed(received) == collapsed(recorded)
    by_kind = {kind(each): each for each in received}
    expected = next(each for each in recorded if kind(each) == "execution_interrupted")
    assert differences(expected, by_kind["execution_interrupted"]) == []


async def test_messages_of_the_queue_come_before_those_of_a_waiting_run(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded, entry = recorded_run("ws_queued_behind")
    await fill_cache(lightbox_client, entry["prompt"][2], [])
    sleeping = only_entry(sample("history_success_no_client_id"))["prompt"][2]
    sleeping["3"]["inputs"] |= {"seconds": 2.0, "steps": 20, "salt": uuid.uuid4().hex}
    async with listening(lightbox_engine) as listener:
        await listener.receive_until(is_idle)
        await lightbox_client.post("/prompt", json={"prompt": sleeping})
        await listener.receive_until(lambda each: kind(each) == "progress_state")
        await lightbox_client.post("/prompt", json={"prompt": entry["prompt"][2], "client_id": listener.client_id})
        received = await listener.receive_until(is_end)
    start = [kind(each) for each in recorded].index("execution_start")
    mine = [kind(each) for each in received].index("execution_start")
    assert [kind(each) for each in received[mine:]] == [kind(each) for each in recorded[start:]]
    agree(recorded[start:], received[mine:])
    assert {kind(each) for each in received[:mine]} == {"status", "progress_state", "progress"}


async def test_a_listener_that_reconnects_gets_the_current_node_of_the_run(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    recorded = sample("ws_reconnect")
    graph = only_entry(sample("history_success_no_client_id"))["prompt"][2]
    graph["3"]["inputs"] |= {"seconds": 2.0, "steps": 20, "salt": uuid.uuid4().hex}
    await lightbox_client.post("/free", json={"free_memory": True})
    async with listening(lightbox_engine) as listener:
        await lightbox_client.post("/prompt", json={"prompt": graph, "client_id": listener.client_id})
        await listener.receive_until(lambda each: kind(each) == "progress")
    address = f"{lightbox_engine.url.replace('http', 'ws')}/ws?clientId={listener.client_id}"
    async with connect(address, proxy=None) as socket:
        received = await Listener(socket, listener.client_id).receive_until(is_end)
    assert collapsed(received) == collapsed(recorded)
    agree(recorded[:2], received[:2])
    assert received[1] == recorded[1]


async def test_a_second_socket_of_a_client_goes_silent_when_the_first_closes(
    lightbox_engine: RunningLightbox, lightbox_client: httpx.AsyncClient
) -> None:
    async with listening(lightbox_engine) as first:
        await first.receive_until(is_idle)
        address = f"{lightbox_engine.url.replace('http', 'ws')}/ws?clientId={first.client_id}"
        async with connect(address, proxy=None) as second:
            await Listener(second, first.client_id).receive_until(is_idle)
            await first.socket.close()
            graph = only_entry(sample("history_cached_no_client_id"))["prompt"][2]

            async def is_silent() -> bool:
                await render(lightbox_client, graph, client_id=first.client_id)
                try:
                    async with asyncio.timeout(0.2):
                        while True:
                            await second.recv()
                except TimeoutError:
                    await render(lightbox_client, graph, client_id=first.client_id)
                    try:
                        async with asyncio.timeout(0.2):
                            await second.recv()
                    except TimeoutError:
                        return True
                return False

            await until(is_silent)


async def test_features_are_the_same_over_http(lightbox_client: httpx.AsyncClient) -> None:
    messages, _ = recorded_run("ws_progress_with_preview_flags")
    flags = next(each for each in messages if kind(each) == "feature_flags")
    assert (await lightbox_client.get("/features")).json() == flags["data"]
