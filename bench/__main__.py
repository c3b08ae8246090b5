"""`python -m bench [--only NAME] [--seconds N]`: runs the benchmarks, prints a table, writes a JSON file."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import http_me, startup_demo, storage_presign
from bench.results import Result, show, write

# One module per benchmark, each with `name` and `async def run(seconds) -> list[Result]`.
BENCHMARKS = {module.name: module for module in (http_me, storage_presign, startup_demo)}
LATEST = Path(__file__).with_name("results") / "latest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="run this one only; may be repeated")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each benchmark measures (default 12)")
    parser.add_argument("--output", type=Path, default=LATEST, help="where the JSON goes")
    options = parser.parse_args(arguments)

    chosen = options.only or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.\n")
        return 2
    if not options.seconds > 0:
        sys.stderr.write(f"--seconds is {options.seconds:g}: it should be greater than 0.\n")
        return 2

    results: list[Result] = []
    for name in chosen:
        sys.stderr.write(f"{name} …\n")
        results += asyncio.run(BENCHMARKS[name].run(options.seconds))
    show(results)
    write(options.output, results)
    sys.stderr.write(f"Written to {options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
