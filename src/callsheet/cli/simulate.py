"""`callsheet simulate`: replay arrivals against scaling policies, before they cost money. Needs no installation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from callsheet.cli.console import out, print_json
from callsheet.cli.simulation_display import print_reports, read_with_progress, replay_with_progress
from callsheet.cli.submit import URL
from callsheet.toolbox.errors import OperatorError

if TYPE_CHECKING:
    from callsheet.scaling.simulation.policies import NamedPolicy
    from callsheet.wire.scaling import FleetScaling

ARRIVALS, POLICIES, CONDITIONS, RESULTS = "Arrivals", "Policies", "Conditions", "Results"


def simulate(
    trace_file: Path | None = typer.Option(
        None,
        "--trace",
        metavar="FILE",
        help="Replay the jobs of this file: CSV or JSON Lines. `callsheet jobs export` writes one of your own history.",
        rich_help_panel=ARRIVALS,
    ),
    jobs_per_day: float | None = typer.Option(
        None, help="Generate arrivals instead of a trace: number of jobs on a weekday.", rich_help_panel=ARRIVALS
    ),
    days: float = typer.Option(365.0, help="Number of days to generate arrivals for.", rich_help_panel=ARRIVALS),
    curve: str = typer.Option(
        "flat",
        help="Distribution of arrivals over the day: flat, office, evening, or 24 comma-separated numbers, one for "
        "each hour.",
        rich_help_panel=ARRIVALS,
    ),
    weekend: float = typer.Option(
        1.0, help="Jobs of a Saturday or Sunday as a share of those of a weekday.", rich_help_panel=ARRIVALS
    ),
    run_seconds: float = typer.Option(60.0, help="Mean run time of a job.", rich_help_panel=ARRIVALS),
    run_spread: float = typer.Option(
        0.5, help="Standard deviation of the run times, relative to their mean.", rich_help_panel=ARRIVALS
    ),
    tenants: int = typer.Option(1, help="Number of tenants that the jobs belong to.", rich_help_panel=ARRIVALS),
    seed: int = typer.Option(1, help="Random seed; the same seed gives the same result.", rich_help_panel=ARRIVALS),
    written_trace: Path | None = typer.Option(
        None,
        "--write-trace",
        metavar="FILE",
        help="Write the arrivals to this file (.csv or .jsonl) and stop.",
        rich_help_panel=ARRIVALS,
    ),
    policy_files: list[Path] = typer.Option(
        None,
        "--policy",
        metavar="FILE",
        help="TOML file with the rules of a policy, for example maximum = 4. Can be repeated.",
        rich_help_panel=POLICIES,
    ),
    fleets: list[str] = typer.Option(
        None,
        "--fleet",
        metavar="SLUG",
        help="Use the current policy of this fleet of your installation. Can be repeated.",
        rich_help_panel=POLICIES,
    ),
    stage: str = typer.Option("production", help="Stage of these fleets.", rich_help_panel=POLICIES),
    url: str | None = URL,
    minimum: list[int] = typer.Option(
        None,
        "--min",
        metavar="<int>",
        help="Smallest number of workers. This option and the following ones can be repeated; all combinations are "
        "compared.",
        rich_help_panel=POLICIES,
    ),
    maximum: list[int] = typer.Option(
        None, "--max", metavar="<int>", help="Largest number of workers.", rich_help_panel=POLICIES
    ),
    target_seconds: list[float] = typer.Option(
        None,
        "--target",
        metavar="<float>",
        help="Target backlog per slot, in seconds of work.",
        rich_help_panel=POLICIES,
    ),
    idle_seconds: list[float] = typer.Option(
        None,
        "--idle",
        metavar="<float>",
        help="A worker that was not needed for this time is removed.",
        rich_help_panel=POLICIES,
    ),
    warm_up_seconds: list[float] = typer.Option(
        None,
        "--warm-up",
        metavar="<float>",
        help="Time from the order of a worker until it is expected.",
        rich_help_panel=POLICIES,
    ),
    scale_out_cooldown_seconds: list[float] = typer.Option(
        None,
        "--scale-out-cooldown",
        metavar="<float>",
        help="Smallest time between two orders of workers.",
        rich_help_panel=POLICIES,
    ),
    scale_in_cooldown_seconds: list[float] = typer.Option(
        None,
        "--scale-in-cooldown",
        metavar="<float>",
        help="Smallest time after a change of the fleet before workers are removed.",
        rich_help_panel=POLICIES,
    ),
    on_demand_minimum: list[int] = typer.Option(
        None, "--on-demand-min", metavar="<int>", help="Number of on-demand workers.", rich_help_panel=POLICIES
    ),
    spot_share: list[float] = typer.Option(
        None,
        "--spot-share",
        metavar="<float>",
        help="Share of spot workers above the on-demand workers, from 0 to 1.",
        rich_help_panel=POLICIES,
    ),
    slots: int = typer.Option(1, help="Number of jobs that one worker runs at once.", rich_help_panel=CONDITIONS),
    interval_seconds: float = typer.Option(
        5.0, help="How often the autoscaler checks the fleet.", rich_help_panel=CONDITIONS
    ),
    start_seconds: float | None = typer.Option(
        None,
        help="Time from the order of a worker until it takes jobs. Default: the warm-up of the policy.",
        rich_help_panel=CONDITIONS,
    ),
    start_spread: float = typer.Option(
        0.0, help="Standard deviation of the start-up time, relative to its mean.", rich_help_panel=CONDITIONS
    ),
    pickup_seconds: float = typer.Option(
        0.0,
        help="Time from the lease of a job to the start of its run, in which the worker fetches files.",
        rich_help_panel=CONDITIONS,
    ),
    run_noise: float = typer.Option(
        0.0, help="Vary each run time, with this relative standard deviation.", rich_help_panel=CONDITIONS
    ),
    interruptions_per_hour: float = typer.Option(
        0.0, help="How often a spot worker is interrupted.", rich_help_panel=CONDITIONS
    ),
    prefetch: bool = typer.Option(
        True, help="Whether a busy worker takes its next jobs in advance (worker.prefetch).", rich_help_panel=CONDITIONS
    ),
    wait_limit: float = typer.Option(
        60.0, help="Count jobs that wait for more seconds than this.", rich_help_panel=RESULTS
    ),
    price: float | None = typer.Option(None, help="Price of an hour of one worker.", rich_help_panel=RESULTS),
    spot_price: float | None = typer.Option(
        None, help="Price of an hour of one spot worker. Default: as --price.", rich_help_panel=RESULTS
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON.", rich_help_panel=RESULTS),
) -> None:
    """Replay arrivals of jobs against scaling policies: waits, worker hours, idle share and cost of each.

    It uses the policy and the dispatch rules of the real fleet, and runs without an installation. Jobs come from a
    trace (--trace) or from a rate (--jobs-per-day).
    """
    if (trace_file is None) == (jobs_per_day is None):
        raise OperatorError("Give either --trace FILE, or --jobs-per-day N to make arrivals.")
    if spot_price is not None and price is None:
        raise OperatorError("--spot-price needs --price.")
    if not 0 <= wait_limit < math.inf:
        raise OperatorError(f"--wait-limit is {wait_limit:g}: it must be 0 or more.")
    from callsheet.scaling.simulation.arrivals import Arrivals, make_trace, read_curve
    from callsheet.scaling.simulation.conditions import Conditions
    from callsheet.scaling.simulation.policies import variants
    from callsheet.scaling.simulation.report import Prices
    from callsheet.scaling.simulation.trace_files import check_name, write_trace

    conditions = Conditions(
        interval_seconds=interval_seconds,
        slots=slots,
        start_seconds=start_seconds,
        start_spread=start_spread,
        pickup_seconds=pickup_seconds,
        run_noise=run_noise,
        interruptions_per_hour=interruptions_per_hour,
        prefetch=prefetch,
        seed=seed,
    )
    prices = None if price is None else Prices(price, spot_price)
    changes: dict[str, Sequence[float]] = {
        "minimum": minimum,
        "maximum": maximum,
        "target_seconds": target_seconds,
        "idle_seconds": idle_seconds,
        "warm_up_seconds": warm_up_seconds,
        "scale_out_cooldown_seconds": scale_out_cooldown_seconds,
        "scale_in_cooldown_seconds": scale_in_cooldown_seconds,
        "on_demand_minimum": on_demand_minimum,
        "spot_share": spot_share,
    }
    if written_trace is not None:
        check_name(written_trace)
    policies = variants(_policies(policy_files or [], fleets or [], stage, url), changes)
    if trace_file is not None:
        trace = read_with_progress(trace_file)
    else:
        assert jobs_per_day is not None, "one of the two is given"
        shape = read_curve(curve)
        trace = make_trace(Arrivals(jobs_per_day, days, shape, weekend, run_seconds, run_spread, tenants, seed))
    if written_trace is not None:
        write_trace(written_trace, trace)
        out.print(f"Wrote {len(trace):,} jobs to {written_trace}.")
        return
    reports = replay_with_progress(trace, policies, conditions, wait_limit, prices)
    if as_json:
        arrivals = {"jobs": len(trace), "seconds": trace.span_seconds, "run_seconds": trace.work_seconds}
        print_json({"arrivals": arrivals, "conditions": asdict(conditions), "policies": [*map(asdict, reports)]})
    else:
        print_reports(trace, reports)


def _policies(files: Sequence[Path], fleets: Sequence[str], stage: str, url: str | None) -> list[NamedPolicy]:
    """The usual policy where none is named."""
    from callsheet.scaling.policy import Policy
    from callsheet.scaling.simulation.policies import NamedPolicy, policy_of, read_policy, rules_in

    named = [read_policy(file) for file in files]
    if fleets:
        from callsheet.cli.operations_client import OperationsClient, with_operations

        async def ask(client: OperationsClient) -> list[FleetScaling]:
            return [await client.scaling(fleet, stage) for fleet in fleets]

        found = with_operations(url, ask)
        named += [
            NamedPolicy(each.fleet_slug, policy_of(rules_in(each.model_dump()), each.fleet_slug)) for each in found
        ]
    return named or [NamedPolicy("", Policy())]
