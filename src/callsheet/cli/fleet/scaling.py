"""`callsheet fleets scale` and `decisions`: scaling of fleets."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.cli.fleet.fleet import AS_JSON, OPERATOR, STAGE
from callsheet.cli.shared.console import checked, moment, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.scaling import FleetScaling, ScalingDecision, ScalingRequest
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.fleet.fleets.fleets import Fleets
    from callsheet.scaling.rules import ScalingRules

Result = TypeVar("Result")
FLEET = typer.Argument(help="Short name of the fleet.")


def scale_fleet(
    slug: str = FLEET,
    stage: str = STAGE,
    driver: str | None = typer.Option(
        None, help="Driver that starts and ends workers: aws_asg, kubernetes, process, command."
    ),
    options: list[str] = typer.Option(
        [],
        "--option",
        help="Option of the driver: KEY=VALUE. VALUE is parsed as JSON if possible, otherwise taken as text. "
        "KEY=null removes the option. Options that are not named stay as they are, unless the driver changes.",
    ),
    minimum: int | None = typer.Option(None, "--min", help="Smallest number of workers."),
    maximum: int | None = typer.Option(None, "--max", help="Largest number of workers."),
    target_seconds: float | None = typer.Option(None, "--target", help="Target backlog per slot, in seconds of work."),
    idle_seconds: float | None = typer.Option(
        None, "--idle", help="Remove a worker that was not needed for this many seconds."
    ),
    warm_up_seconds: float | None = typer.Option(
        None, "--warm-up", help="Seconds within which an ordered worker is expected to register."
    ),
    scale_out_cooldown_seconds: float | None = typer.Option(
        None, "--scale-out-cooldown", help="Smallest number of seconds between two orders of workers."
    ),
    scale_in_cooldown_seconds: float | None = typer.Option(
        None, "--scale-in-cooldown", help="Smallest number of seconds after a change before workers are removed."
    ),
    on_demand_minimum: int | None = typer.Option(None, "--on-demand-min", help="Number of on-demand workers."),
    spot_share: float | None = typer.Option(
        None, help="Share of spot workers above the on-demand workers, from 0 to 1."
    ),
    providers: list[str] = typer.Option(
        [], "--provider", help="Provider whose jobs the workers run. Can be repeated. Default: self_hosted."
    ),
    confirm: bool = typer.Option(
        False, "--confirm", help="Scale the fleet from this database, even if this database is a copy."
    ),
    retry: bool = typer.Option(
        False, "--retry", help="Start workers again for jobs that the last workers could not run."
    ),
    off: bool = typer.Option(False, "--off", help="Stop scaling the fleet. Its workers do not change."),
    as_json: bool = AS_JSON,
) -> None:
    """Scale a fleet by its queue, change the rules, or show them. Rules that are not named stay as they are."""
    named: dict[str, object] = {
        "driver": driver,
        "minimum": minimum,
        "maximum": maximum,
        "target_seconds": target_seconds,
        "idle_seconds": idle_seconds,
        "warm_up_seconds": warm_up_seconds,
        "scale_out_cooldown_seconds": scale_out_cooldown_seconds,
        "scale_in_cooldown_seconds": scale_in_cooldown_seconds,
        "on_demand_minimum": on_demand_minimum,
        "spot_share": spot_share,
        "providers": providers or None,
        "options": _options(options) or None,
    }
    changes = {name: value for name, value in named.items() if value is not None}
    if off and (changes or confirm or retry):
        raise OperatorError("--off removes the rules. Leave the other options out.")
    change = _removal(slug, stage) if off else _change(slug, stage, changes, rewrite=confirm or retry)
    scaling = _with_rules(change)
    if scaling is None:
        out.print(f"Fleet {slug} in {stage} is no longer scaled. Its workers do not change.")
    elif as_json:
        print_json(scaling)
    else:
        _show(scaling)


def _removal(slug: str, stage: str) -> Callable[[Fleets, ScalingRules], Awaitable[FleetScaling | None]]:
    async def remove(found: Fleets, rules: ScalingRules) -> None:
        await rules.remove((await found.find(slug, stage)).id, OPERATOR)

    return remove


def _change(
    slug: str, stage: str, changes: dict[str, object], *, rewrite: bool
) -> Callable[[Fleets, ScalingRules], Awaitable[FleetScaling | None]]:
    """`rewrite`: write the rules even if none of them changes."""

    async def change(found: Fleets, rules: ScalingRules) -> FleetScaling | None:
        fleet = await found.find(slug, stage)
        current = await _known(rules, fleet.id)
        if current is None and "driver" not in changes:
            raise OperatorError(
                f"The fleet {slug} in {stage} is not scaled. Choose a driver: callsheet fleets scale {slug} --driver …"
            )
        if current is not None and not changes and not rewrite:
            return current
        return await rules.put(fleet.id, _request(current, changes), OPERATOR)

    return change


def list_decisions(
    slug: str = FLEET,
    stage: str = STAGE,
    limit: int = typer.Option(20, min=1, max=1000, help="Number of decisions to list."),
    as_json: bool = AS_JSON,
) -> None:
    """List what the autoscaler decided for a fleet and why, newest first."""

    async def read(found: Fleets, rules: ScalingRules) -> list[ScalingDecision]:
        return (await rules.decisions((await found.find(slug, stage)).id, None, limit)).items

    decisions = _with_rules(read)
    print_json(decisions) if as_json else _print_decisions(decisions)


async def _known(rules: ScalingRules, fleet_id: int) -> FleetScaling | None:
    try:
        return await rules.get(fleet_id)
    except NotFound:
        return None


def _request(known: FleetScaling | None, changes: dict[str, object]) -> ScalingRequest:
    """The earlier rules with the changes. Options belong to a driver: another driver starts without options."""
    before = {} if known is None else known.model_dump(include=set(ScalingRequest.model_fields))
    is_same_driver = changes.get("driver", before.get("driver")) == before.get("driver")
    options = {**(before.get("options", {}) if is_same_driver else {}), **_as_dict(changes.get("options"))}
    kept = {name: value for name, value in options.items() if value is not None}
    return checked(ScalingRequest, **before | changes | {"options": kept})


def _as_dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _options(values: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in values:
        key, sign, value = each.partition("=")
        if not key or not sign:
            raise OperatorError(f"--option is {each!r}: write it like KEY=VALUE.")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _show(scaling: FleetScaling) -> None:
    rules = [
        ("driver", scaling.driver),
        ("options", json.dumps(scaling.options)),
        ("providers", ", ".join(scaling.providers)),
        ("workers", f"{scaling.minimum} to {scaling.maximum}"),
        ("on-demand", f"{scaling.on_demand_minimum}, and {1 - scaling.spot_share:.0%} of the others"),
        ("target", f"{scaling.target_seconds:g} s of work per slot"),
        ("warm-up", f"{scaling.warm_up_seconds:g} s"),
        ("cooldown", f"{scaling.scale_out_cooldown_seconds:g} s out, {scaling.scale_in_cooldown_seconds:g} s in"),
        ("idle", f"{scaling.idle_seconds:g} s"),
        (
            "queue",
            ""
            if scaling.queued_jobs is None
            else f"{counted(scaling.queued_jobs, 'job')}, {scaling.queued_seconds:.0f} s",
        ),
        ("wanted", scaling.wanted),
        ("actual", scaling.actual),
        ("coming", scaling.coming),
        ("why", scaling.reason or "The autoscaler has not checked it yet."),
        ("driver error", scaling.driver_error),
    ]
    print_table((f"{scaling.fleet_slug} in {scaling.stage}", ""), [row for row in rules if row[1] is not None])
    if scaling.decisions:
        _print_decisions(scaling.decisions)


def _print_decisions(decisions: Sequence[ScalingDecision]) -> None:
    rows = [
        (moment(each.at), each.wanted, each.serving, each.coming, each.queued_jobs, each.reason) for each in decisions
    ]
    print_table(("decided", "wanted", "actual", "coming", "queued", "why"), rows)


def _with_rules(work: Callable[[Fleets, ScalingRules], Awaitable[Result]]) -> Result:
    return with_rooms(lambda rooms: work(rooms.fleet.fleets, rooms.scaling.rules))
