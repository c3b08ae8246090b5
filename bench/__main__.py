"""`python -m bench [--only NAME] [--seconds N] [--short]`: runs benchmarks, prints a table, writes a JSON file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench import (
    database_pooler,
    dispatch_batch,
    dispatch_core,
    dispatch_fairness,
    dispatch_growth,
    dispatch_idle_workers,
    dispatch_lanes,
    dispatch_pickup,
    http_me,
    http_memory,
    http_protocol,
    http_slow_clients,
    jobs_batch,
    jobs_full,
    pipelines_engine_idle,
    pipelines_select,
    scaling_simulate,
    sse_fanout,
    startup_demo,
    storage_presign,
    tasks_sync,
    uploads_parts,
    web_gallery,
    web_lists,
    web_overview,
    web_runs,
    web_tab_memory,
    webhooks_out,
    worker_engine_idle,
    worker_engines,
    worker_memory,
    worker_overhead,
)
from bench.results import Result, show, write

# One module per benchmark, each with `name` and `async def run(seconds) -> list[Result]`. A module may have `seconds`
# of its own to run for, and arguments for the short form in `short`.
MODULES = (
    http_me,
    http_memory,
    http_protocol,
    http_slow_clients,
    storage_presign,
    uploads_parts,
    startup_demo,
    dispatch_core,
    dispatch_batch,
    jobs_full,
    jobs_batch,
    database_pooler,
    dispatch_fairness,
    dispatch_growth,
    dispatch_idle_workers,
    dispatch_lanes,
    dispatch_pickup,
    sse_fanout,
    tasks_sync,
    webhooks_out,
    web_lists,
    web_overview,
    worker_overhead,
    worker_engine_idle,
    worker_engines,
    worker_memory,
    pipelines_select,
    pipelines_engine_idle,
    scaling_simulate,
    web_gallery,
    web_runs,
    web_tab_memory,
)
BENCHMARKS = {module.name: module for module in MODULES}
SECONDS, SHORT_SECONDS = 12.0, 0.2
LATEST = Path(__file__).with_name("results") / "latest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="run this one only; may be repeated")
    parser.add_argument("--seconds", type=float, help=f"how long each benchmark measures (default {SECONDS:g})")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that it works, not how fast")
    parser.add_argument("--output", type=Path, default=LATEST, help="where the JSON goes")
    options = parser.parse_args(arguments)

    chosen = options.only or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.\n")
        return 2
    if options.seconds is not None and not options.seconds > 0:
        sys.stderr.write(f"--seconds is {options.seconds:g}: it should be greater than 0.\n")
        return 2

    results: list[Result] = []
    for name in chosen:
        sys.stderr.write(f"{name} …\n")
        module = BENCHMARKS[name]
        usual = SHORT_SECONDS if options.short else getattr(module, "seconds", SECONDS)
        smaller = getattr(module, "short", {}) if options.short else {}
        results += uvloop.run(module.run(options.seconds or usual, **smaller))
    show(results)
    write(options.output, results)
    sys.stderr.write(f"Written to {options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
