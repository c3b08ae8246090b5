"""Lightbox with one node more, whose result is as large as one likes: `python -m bench.lightbox lightbox --probes`."""

from __future__ import annotations

from typing import ClassVar

from callsheet.cli.main import main
from callsheet.lightbox.node import Context, Input, Node, Result
from callsheet.lightbox.nodes import probes
from callsheet.lightbox.nodes.saving import shown_file


class LargeFile(Node):
    """Empty as it is, nobody decodes it: what counts is that every byte of it is carried."""

    name = "BenchLargeFile"
    category = "probe"
    is_output = True
    inputs: ClassVar = {
        "megabytes": Input("INT", {"default": 1, "min": 1, "max": 100_000}),
        "filename_prefix": Input("STRING", {"default": "large"}),
    }

    def run(self, context: Context, *, megabytes: int, filename_prefix: str) -> Result:
        place = context.folders.place_for(filename_prefix, "output")
        name = place.file_name("mp4")
        with (place.folder / name).open("wb") as file:
            file.truncate(megabytes * 1_000_000)
        return Result(shown={"videos": [shown_file(place, name, "output")]})


if __name__ == "__main__":
    probes.NODES = (*probes.NODES, LargeFile)
    main()
