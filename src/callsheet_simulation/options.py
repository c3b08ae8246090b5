"""The options of `callsheet simulate`."""

from __future__ import annotations

import typer

ARRIVALS, POLICIES, CONDITIONS, RESULTS = "Arrivals", "Policies", "Conditions", "Results"

TRACE_FILE = typer.Option(
    None,
    "--trace",
    metavar="FILE",
    help="Replay the jobs of this file: CSV or JSON Lines. `callsheet jobs export` writes one of your own history.",
    rich_help_panel=ARRIVALS,
)
JOBS_PER_DAY = typer.Option(
    None, help="Generate arrivals instead of a trace: number of jobs on a weekday.", rich_help_panel=ARRIVALS
)
DAYS = typer.Option(365.0, help="Number of days to generate arrivals for.", rich_help_panel=ARRIVALS)
CURVE = typer.Option(
    "flat",
    help="Distribution of arrivals over the day: flat, office, evening, or 24 comma-separated numbers, one for "
    "each hour.",
    rich_help_panel=ARRIVALS,
)
WEEKEND = typer.Option(
    1.0, help="Jobs of a Saturday or Sunday as a share of those of a weekday.", rich_help_panel=ARRIVALS
)
RUN_SECONDS = typer.Option(60.0, help="Mean run time of a job.", rich_help_panel=ARRIVALS)
RUN_SPREAD = typer.Option(
    0.5, help="Standard deviation of the run times, relative to their mean.", rich_help_panel=ARRIVALS
)
TENANTS = typer.Option(1, help="Number of tenants that the jobs belong to.", rich_help_panel=ARRIVALS)
SEED = typer.Option(1, help="Random seed; the same seed gives the same result.", rich_help_panel=ARRIVALS)
WRITTEN_TRACE = typer.Option(
    None,
    "--write-trace",
    metavar="FILE",
    help="Write the arrivals to this file (.csv or .jsonl) and stop.",
    rich_help_panel=ARRIVALS,
)
POLICY_FILES = typer.Option(
    None,
    "--policy",
    metavar="FILE",
    help="TOML file with the rules of a policy, for example maximum = 4. Can be repeated.",
    rich_help_panel=POLICIES,
)
FLEETS = typer.Option(
    None,
    "--fleet",
    metavar="SLUG",
    help="Use the current policy of this fleet of your installation. Can be repeated.",
    rich_help_panel=POLICIES,
)
STAGE = typer.Option("production", help="Stage of these fleets.", rich_help_panel=POLICIES)
MINIMUM = typer.Option(
    None,
    "--min",
    metavar="<int>",
    help="Smallest number of workers. This option and the following ones can be repeated; all combinations are "
    "compared.",
    rich_help_panel=POLICIES,
)
MAXIMUM = typer.Option(None, "--max", metavar="<int>", help="Largest number of workers.", rich_help_panel=POLICIES)
TARGET_SECONDS = typer.Option(
    None,
    "--target",
    metavar="<float>",
    help="Target backlog per slot, in seconds of work.",
    rich_help_panel=POLICIES,
)
IDLE_SECONDS = typer.Option(
    None,
    "--idle",
    metavar="<float>",
    help="A worker that was not needed for this time is removed.",
    rich_help_panel=POLICIES,
)
WARM_UP_SECONDS = typer.Option(
    None,
    "--warm-up",
    metavar="<float>",
    help="Time from the order of a worker until it is expected.",
    rich_help_panel=POLICIES,
)
SCALE_OUT_COOLDOWN_SECONDS = typer.Option(
    None,
    "--scale-out-cooldown",
    metavar="<float>",
    help="Smallest time between two orders of workers.",
    rich_help_panel=POLICIES,
)
SCALE_IN_COOLDOWN_SECONDS = typer.Option(
    None,
    "--scale-in-cooldown",
    metavar="<float>",
    help="Smallest time after a change of the fleet before workers are removed.",
    rich_help_panel=POLICIES,
)
ON_DEMAND_MINIMUM = typer.Option(
    None, "--on-demand-min", metavar="<int>", help="Number of on-demand workers.", rich_help_panel=POLICIES
)
SPOT_SHARE = typer.Option(
    None,
    "--spot-share",
    metavar="<float>",
    help="Share of spot workers above the on-demand workers, from 0 to 1.",
    rich_help_panel=POLICIES,
)
SLOTS = typer.Option(1, help="Number of jobs that one worker runs at once.", rich_help_panel=CONDITIONS)
INTERVAL_SECONDS = typer.Option(5.0, help="How often the autoscaler checks the fleet.", rich_help_panel=CONDITIONS)
START_SECONDS = typer.Option(
    None,
    help="Time from the order of a worker until it takes jobs. Default: the warm-up of the policy.",
    rich_help_panel=CONDITIONS,
)
START_SPREAD = typer.Option(
    0.0, help="Standard deviation of the start-up time, relative to its mean.", rich_help_panel=CONDITIONS
)
PICKUP_SECONDS = typer.Option(
    0.0,
    help="Time from the lease of a job to the start of its run, in which the worker fetches files.",
    rich_help_panel=CONDITIONS,
)
RUN_NOISE = typer.Option(
    0.0, help="Vary each run time, with this relative standard deviation.", rich_help_panel=CONDITIONS
)
INTERRUPTIONS_PER_HOUR = typer.Option(0.0, help="How often a spot worker is interrupted.", rich_help_panel=CONDITIONS)
PREFETCH = typer.Option(
    True, help="Whether a busy worker takes its next jobs in advance (worker.prefetch).", rich_help_panel=CONDITIONS
)
WAIT_LIMIT = typer.Option(60.0, help="Count jobs that wait for more seconds than this.", rich_help_panel=RESULTS)
PRICE = typer.Option(None, help="Price of an hour of one worker.", rich_help_panel=RESULTS)
SPOT_PRICE = typer.Option(
    None, help="Price of an hour of one spot worker. Default: as --price.", rich_help_panel=RESULTS
)
AS_JSON = typer.Option(False, "--json", help="Print JSON.", rich_help_panel=RESULTS)
