"""Runs one paid job of an effect on real processes, and counts the modules that its requests enter.

A control plane on embedded PostgreSQL, a worker and Lightbox run the job; `traced_process` writes down the modules. The
job has an input file and an output file, and its run lasts long enough for heartbeats.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import ROOT
from bench.product import TRIVIAL, Graph, image, lightbox, node, open_product
from callsheet.wire.plurals import counted
from tools.measure_house import Figure

TRACED = str(ROOT / "tools" / "traced_process.py")
EFFECT = "traced"
# The run has a heartbeat of its own for its start, and one for its progress.
RUN_SECONDS = 2.0
GRAPH: Graph = {
    **TRIVIAL,
    "wait": node("ProbeSleep", image=["change", 0], seconds=RUN_SECONDS, steps=2, preview=False),
    "save": node("SaveImage", images=["wait", 0], filename_prefix="traced"),
}
CONTROL_PLANE = ("submit", "poll", "heartbeat", "complete", "stream")
WORKER = "worker"
CONTROL_PLANE_MODULES = 50
WORKER_MODULES = 15
FOLDERS_BELOW = ("plumbing", "toolbox", "wire")
# The functions, with their modules, by the name of the request that enters them.
Entered = dict[str, set[tuple[str, str]]]
BELOW_ROOMS = re.compile(rf"callsheet/({'|'.join(FOLDERS_BELOW)})/")


async def traced_figures() -> list[Figure]:
    return path_figures(await trace())


async def trace() -> Entered:
    with TemporaryDirectory() as directory:
        record = Path(directory) / "record"

        def traced(*arguments: str) -> list[str]:
            return [sys.executable, "-P", TRACED, str(record), *arguments]

        async with open_product(command=traced) as product, lightbox(product.home) as engine:
            await product.offer(EFFECT, GRAPH)
            file = await product.upload(image(1))
            async with product.agent(EFFECT, engine):
                await product.ended(await product.client.submit(EFFECT, file=file))
        return read_record(record.read_text(encoding="utf-8"))


def read_record(text: str) -> Entered:
    entered: Entered = defaultdict(set)
    for line in text.splitlines():
        name, module, function = line.split("\t")
        entered[name].add((module, function))
    return entered


def path_figures(entered: Entered) -> list[Figure]:
    control_plane = {each for name in CONTROL_PLANE for each in entered[name]}
    below = {(module, function) for module, function in control_plane if BELOW_ROOMS.match(module)}
    return [
        _figure("modules of the control plane on the path of a paid job", control_plane, CONTROL_PLANE_MODULES),
        _figure("  in rooms", control_plane - below),
        _figure("  below the rooms: " + ", ".join(FOLDERS_BELOW), below),
        *(_figure(f"  {name}", entered[name]) for name in CONTROL_PLANE),
        _figure("modules of the worker on the path of a paid job", entered[WORKER], WORKER_MODULES),
    ]


def _figure(name: str, entered: set[tuple[str, str]], target: int | None = None) -> Figure:
    modules = Counter(module for module, _ in entered)
    details = tuple(f"{module}: {counted(functions, 'function')}" for module, functions in sorted(modules.items()))
    return Figure(name, f"{len(modules)} ({counted(len(entered), 'function')})", str(target or ""), details)
