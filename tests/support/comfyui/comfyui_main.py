"""A replacement of ComfyUI's main.py: it takes the same arguments, and Lightbox renders.

It is copied into a directory of its own, so it imports nothing of the tests."""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

if Path("broken").exists():
    raise ModuleNotFoundError("No module named 'torch'")

from callsheet.settings import LightboxSettings
from callsheet_lightbox.node import Node, NodeInput, Result
from callsheet_lightbox.nodes import probes
from callsheet_lightbox.server import running_lightbox

parser = argparse.ArgumentParser()
parser.add_argument("--listen", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8188)
for name in ("input", "output", "temp", "user"):
    parser.add_argument(f"--{name}-directory", type=Path, required=True)
parser.add_argument("--database-url")
parser.add_argument("--disable-auto-launch", action="store_true")
parser.add_argument("--max-upload-size", type=int, default=100)


class EndsExecutor(Node):
    """Ends the executor's thread before the first node, as a graph with a broken node does that no output needs."""

    name = "ProbeEndsExecutor"
    category = probes.CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE")}
    outputs = probes.ProbeSleep.outputs

    @classmethod
    def fingerprint(cls, values: Any, folders: Any) -> Any:
        raise SystemExit


class Held(Node):
    """Runs as long as the directory has a file `held`, and leaves a file for each run that started."""

    name = "ProbeHeld"
    category = probes.CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE"), "salt": NodeInput("STRING")}
    outputs = probes.ProbeSleep.outputs

    def run(self, context: Any, *, image: Any, salt: str) -> Result:
        Path(f"run-{salt}-{os.getpid()}").touch()
        while Path("held").exists():
            time.sleep(0.02)
        return Result((image,))


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


async def main() -> None:
    given = parser.parse_args()
    assert given.temp_directory == given.output_directory.parent == given.input_directory.parent
    print_line(f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES')} secret {os.environ.get('FLEET_SECRET')}")
    settings = LightboxSettings(
        host=given.listen, port=given.port, probes=True, max_upload_megabytes=given.max_upload_size
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running_lightbox(settings, given.output_directory.parent) as running:
        print_line(f"To see the GUI go to: {running.url}")
        waits = [asyncio.create_task(each.wait()) for each in (stop, running.broke)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    sys.exit(1 if running.broke.is_set() else 0)


if __name__ == "__main__":
    probes.NODES = (*probes.NODES, EndsExecutor, Held)
    asyncio.run(main())
