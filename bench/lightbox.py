"""Lightbox with two nodes more, one whose result is as large as one likes, and one that needs a GPU that is shared:
`python -m bench.lightbox lightbox --probes`."""

from __future__ import annotations

import fcntl
import os
import time
from typing import ClassVar

from callsheet.cli.main import main
from callsheet_lightbox.media.frames import Frames
from callsheet_lightbox.node import Node, NodeContext, NodeInput, Result
from callsheet_lightbox.nodes import probes
from callsheet_lightbox.nodes.saving import shown_file


class LargeFile(Node):
    """The file is empty and is never decoded. What counts is that every byte of it is transferred."""

    name = "BenchLargeFile"
    category = "probe"
    is_output = True
    inputs: ClassVar = {
        "megabytes": NodeInput("INT", {"default": 1, "min": 1, "max": 100_000}),
        "filename_prefix": NodeInput("STRING", {"default": "large"}),
    }

    def run(self, context: NodeContext, *, megabytes: int, filename_prefix: str) -> Result:
        place = context.folders.place_for(filename_prefix, "output")
        name = place.file_name("mp4")
        with (place.folder / name).open("wb") as file:
            file.truncate(megabytes * 1_000_000)
        return Result(shown={"videos": [shown_file(place, name, "output")]})


class SharedGpu(Node):
    """Holds the GPU of the machine, which is a lock that all engines share: the file that BENCH_GPU names."""

    name = "BenchGpu"
    category = "probe"
    inputs: ClassVar = {
        "image": NodeInput("IMAGE"),
        "seconds": NodeInput("FLOAT", {"default": 0.1, "min": 0.0, "max": 60.0}),
    }
    outputs = probes.ProbeSleep.outputs

    def run(self, context: NodeContext, *, image: Frames, seconds: float) -> Result:
        with open(os.environ["BENCH_GPU"]) as gpu:
            fcntl.flock(gpu, fcntl.LOCK_EX)
            time.sleep(seconds)
        return Result((image,))


if __name__ == "__main__":
    probes.NODES = (*probes.NODES, LargeFile, SharedGpu)
    main()
