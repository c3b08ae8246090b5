"""`callsheet simulate`: replays arrivals against scaling policies, before they cost money. Needs no installation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import out, print_json
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import choose
from callsheet_simulation import options as options
from callsheet_simulation.display import print_reports, read_with_progress, replay_with_progress

if TYPE_CHECKING:
    from callsheet.wire.operate.scaling import FleetScaling
    from callsheet_simulation.conditions import Conditions
    from callsheet_simulation.policies import NamedPolicy
    from callsheet_simulation.report import SimulationReport
    from callsheet_simulation.trace import QueueTrace

# Options that change a rule of every policy. With several values, each combination is a separate policy.
CHANGEABLE_RULES = (
    "minimum",
    "maximum",
    "target_seconds",
    "idle_seconds",
    "warm_up_seconds",
    "scale_out_cooldown_seconds",
    "scale_in_cooldown_seconds",
    "on_demand_minimum",
    "spot_share",
)


def simulate(
    trace_file: Path | None = options.TRACE_FILE,
    jobs_per_day: float | None = options.JOBS_PER_DAY,
    days: float = options.DAYS,
    curve: str = options.CURVE,
    weekend: float = options.WEEKEND,
    run_seconds: float = options.RUN_SECONDS,
    run_spread: float = options.RUN_SPREAD,
    tenants: int = options.TENANTS,
    seed: int = options.SEED,
    written_trace: Path | None = options.WRITTEN_TRACE,
    policy_files: list[Path] = options.POLICY_FILES,
    fleets: list[str] = options.FLEETS,
    stage: str = options.STAGE,
    url: str | None = URL,
    minimum: list[int] = options.MINIMUM,
    maximum: list[int] = options.MAXIMUM,
    target_seconds: list[float] = options.TARGET_SECONDS,
    idle_seconds: list[float] = options.IDLE_SECONDS,
    warm_up_seconds: list[float] = options.WARM_UP_SECONDS,
    scale_out_cooldown_seconds: list[float] = options.SCALE_OUT_COOLDOWN_SECONDS,
    scale_in_cooldown_seconds: list[float] = options.SCALE_IN_COOLDOWN_SECONDS,
    on_demand_minimum: list[int] = options.ON_DEMAND_MINIMUM,
    spot_share: list[float] = options.SPOT_SHARE,
    slots: int = options.SLOTS,
    interval_seconds: float = options.INTERVAL_SECONDS,
    start_seconds: float | None = options.START_SECONDS,
    start_spread: float = options.START_SPREAD,
    pickup_seconds: float = options.PICKUP_SECONDS,
    run_noise: float = options.RUN_NOISE,
    interruptions_per_hour: float = options.INTERRUPTIONS_PER_HOUR,
    prefetch: bool = options.PREFETCH,
    wait_limit: float = options.WAIT_LIMIT,
    price: float | None = options.PRICE,
    spot_price: float | None = options.SPOT_PRICE,
    as_json: bool = options.AS_JSON,
) -> None:
    """Replay arrivals of jobs against scaling policies: waits, worker hours, idle share and cost of each.

    It uses the policy and the dispatch rules of the real fleet, and runs without an installation. Jobs come from a
    trace (--trace) or from a rate (--jobs-per-day).
    """
    given = dict(locals())
    _check(trace_file, jobs_per_day, price, spot_price, wait_limit)
    from callsheet_simulation.policies import variants
    from callsheet_simulation.report import MachinePrices
    from callsheet_simulation.trace_files import check_name

    conditions = _conditions(given)
    prices = None if price is None else MachinePrices(price, spot_price)
    if written_trace is not None:
        check_name(written_trace)
    policies = variants(
        _policies(policy_files or [], fleets or [], stage, url), {name: given[name] for name in CHANGEABLE_RULES}
    )
    trace = _made_trace(given) if trace_file is None else read_with_progress(trace_file)
    if written_trace is not None:
        _write(written_trace, trace)
        return
    reports = replay_with_progress(trace, policies, conditions, wait_limit, prices)
    _print(trace, conditions, reports, as_json=as_json)


def _conditions(given: Mapping[str, Any]) -> Conditions:
    """The options have the names of the fields. A field without an option keeps its default."""
    from callsheet_simulation.conditions import Conditions

    return Conditions(**{field.name: given[field.name] for field in fields(Conditions) if field.name in given})


def _made_trace(given: Mapping[str, Any]) -> QueueTrace:
    """The options have the names of the fields."""
    from callsheet_simulation.arrivals import Arrivals, make_trace, read_curve

    values = {field.name: given[field.name] for field in fields(Arrivals)}
    return make_trace(Arrivals(**{**values, "curve": read_curve(given["curve"])}))


def _write(file: Path, trace: QueueTrace) -> None:
    from callsheet_simulation.trace_files import write_trace

    write_trace(file, trace)
    out.print(f"Wrote {len(trace):,} {choose(len(trace), 'job')} to {file}.")


def _check(
    trace_file: Path | None,
    jobs_per_day: float | None,
    price: float | None,
    spot_price: float | None,
    wait_limit: float,
) -> None:
    if (trace_file is None) == (jobs_per_day is None):
        raise OperatorError("Give either --trace FILE, or --jobs-per-day N to make arrivals.")
    if spot_price is not None and price is None:
        raise OperatorError("--spot-price needs --price.")
    if not 0 <= wait_limit < math.inf:
        raise OperatorError(f"--wait-limit is {wait_limit:g}: it must be 0 or more.")


def _print(trace: QueueTrace, conditions: Conditions, reports: Sequence[SimulationReport], *, as_json: bool) -> None:
    if as_json:
        arrivals = {"jobs": len(trace), "seconds": trace.span_seconds, "run_seconds": trace.work_seconds}
        print_json({"arrivals": arrivals, "conditions": asdict(conditions), "policies": [*map(asdict, reports)]})
    else:
        print_reports(trace, reports)


def _policies(files: Sequence[Path], fleets: Sequence[str], stage: str, url: str | None) -> list[NamedPolicy]:
    """The named policies, or the default policy if none is named."""
    from callsheet.scaling.policy import Policy
    from callsheet_simulation.policies import NamedPolicy, policy_of, read_policy, rules_in

    named = [read_policy(file) for file in files]
    if fleets:
        from callsheet.cli.shared.operations_client import OperationsClient, with_operations

        async def ask(client: OperationsClient) -> list[FleetScaling]:
            return [await client.scaling(fleet, stage) for fleet in fleets]

        found = with_operations(url, ask)
        named += [
            NamedPolicy(each.fleet_slug, policy_of(rules_in(each.model_dump()), each.fleet_slug)) for each in found
        ]
    return named or [NamedPolicy("", Policy())]
