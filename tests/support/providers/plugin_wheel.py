"""A third-party package with a media provider and actors: what docs/how-to/add-a-provider.md describes, as a wheel,
which uses only the ports of Callsheet."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

NAME = "tiny_studio"
VERSION = "1.0"

MODULE = '''\
"""A studio that makes one tiny picture, and actors that count and wait."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from callsheet.providers.actor import Done, Plan, Task
from callsheet.providers.context import PluginContext
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Concurrency, Finish, Generation, Made, MadeFile, ReportProgress
from callsheet.wire.errors import FieldProblem, InvalidRequest


class TinyProvider:
    name = "tiny"
    finish = Finish.SYNC
    actions = frozenset({"txt2img"})
    paid = False
    run_limit_seconds = 60

    def __init__(self, context: PluginContext):
        self._signature = str(context.settings.get("signature", "unsigned"))

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        if not generation.prompt:
            yield FieldProblem("prompt", "This field is required.")

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return Concurrency("media:tiny", 2)

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {"width": 1, "height": 1}

    async def generate(self, generation: Generation, directory: Path, report_progress: ReportProgress) -> Made:
        report_progress(50.0, "Painting")
        path = directory / "tiny.png"
        path.write_bytes(picture(sum(generation.prompt.encode()) % 256))
        return Made([MadeFile(path, path.name, "image/png")], "tiny-1", {"signature": self._signature})

    async def close(self) -> None:
        pass


class CountActor:
    """Counts the letters of `payload.text`; a text of `fail` fails."""

    name = "tiny_count"
    paid = False

    def __init__(self, context: PluginContext):
        self._providers = sorted(context.media)

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        if not isinstance(payload.get("text"), str):
            raise InvalidRequest.field("payload.text", "The value must be a text.")
        return Plan(concurrency=Concurrency("tiny_count", 5))

    async def run(self, task: Task) -> Done:
        if task.payload["text"] == "fail":
            raise ProviderError("tiny_failed", "It was told to fail.")
        task.report_progress(100.0, "Counted")
        return Done({"letters": len(task.payload["text"]), "providers": self._providers})


class WaitActor:
    """Waits for `payload.seconds`: something to kill in the middle of."""

    name = "tiny_wait"
    paid = False

    def __init__(self, context: PluginContext):
        pass

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        if not isinstance(payload.get("seconds"), int | float):
            raise InvalidRequest.field("payload.seconds", "The value must be a number.")
        return Plan()

    async def run(self, task: Task) -> Done:
        task.report_progress(1.0, "Waiting")
        await asyncio.sleep(task.payload["seconds"])
        return Done({"attempt": task.attempt})


def picture(grey: int) -> bytes:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"".join(
        (
            bytes((0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A)),
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(bytes((0, grey)))),
            chunk(b"IEND", b""),
        )
    )
'''

ENTRY_POINTS = f"""\
[callsheet.providers]
tiny = {NAME}:TinyProvider

[callsheet.actors]
tiny_count = {NAME}:CountActor
tiny_wait = {NAME}:WaitActor
"""
METADATA = f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {VERSION}\nRequires-Dist: callsheet\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: callsheet tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def plugin_wheel(directory: Path, entry_points: str = ENTRY_POINTS) -> Path:
    """Writes the wheel; `pip install` takes it without a network, because it depends only on Callsheet."""
    folder = f"{NAME}-{VERSION}.dist-info"
    files = {
        f"{NAME}.py": MODULE,
        f"{folder}/METADATA": METADATA,
        f"{folder}/WHEEL": WHEEL,
        f"{folder}/entry_points.txt": entry_points,
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{folder}/RECORD"] = f"{record}{folder}/RECORD,,\n"
    path = directory / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def unpacked_plugin(directory: Path, entry_points: str = ENTRY_POINTS) -> Path:
    """The same as a directory for `sys.path` or PYTHONPATH: to Python it looks installed."""
    with zipfile.ZipFile(plugin_wheel(directory, entry_points)) as wheel:
        wheel.extractall(directory / "site")
    return directory / "site"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
