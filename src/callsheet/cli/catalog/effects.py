"""`callsheet effects`: the effects that users can order."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from callsheet.cli.catalog.catalog import AS_JSON, LISTED, with_catalog
from callsheet.cli.shared.console import checked, err, out, print_json, print_table, require_consent
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.effects import CreateEffect, EffectRecord, UpdateEffect
from callsheet.wire.plurals import counted

effects = typer.Typer(help="Effects: workflows with a name and a price.", no_args_is_help=True)

PRICE = typer.Option(
    None,
    "--price",
    metavar="FORMULA",
    help="Formula that calculates the price of a job from its values and files, for example "
    "'2 + ceil(video.seconds / 10)'.",
)
ONE_PRICE = "Give either --cost, the price of every job, or --price, a formula."
EFFECT = typer.Argument(help="Id or short name of the effect.")


@effects.command("create")
def create_effect(
    slug: str = typer.Argument(help="Short name: lower-case letters, digits and dashes."),
    workflow: str = typer.Option(..., help="Short name of the workflow."),
    name: str | None = typer.Option(None, help="Display name. Default: the short name."),
    description: str = typer.Option("", help="Description of the effect."),
    category: str = typer.Option("", help="Heading of the effect in the gallery."),
    cost: int | None = typer.Option(
        None,
        help="Price of a job in tokens. 0 makes the effect free. Required with --publish, unless --price is given.",
    ),
    price: str | None = PRICE,
    values: list[str] = typer.Option(
        [],
        "--set",
        help="Set a value of the workflow: KEY=VALUE. VALUE is parsed as JSON if possible, otherwise taken as text.",
    ),
    provider: str = typer.Option("self_hosted", help="Provider that runs the effect."),
    stage: str = typer.Option("production", help="Stage of the workers that run the effect."),
    publish: bool = typer.Option(False, "--publish", help="Publish the effect at once."),
    as_json: bool = AS_JSON,
) -> None:
    """Create an effect."""
    from callsheet.cli.shared.values import read_pairs
    from callsheet.identity.audit_log import OPERATOR

    if price is not None and cost is not None:
        raise OperatorError(ONE_PRICE)
    if cost is None and price is None and publish:
        cost = _prompt_for_cost(slug)
    request = checked(
        CreateEffect,
        slug=slug,
        name=name or slug,
        description=description,
        category=category,
        workflow=workflow,
        overrides=read_pairs(values),
        **({} if cost is None else {"credits_cost": cost}),
        **({} if price is None else {"price_formula": price}),
        is_published=publish,
        provider=provider,
        stage=stage,
    )
    effect = with_catalog(lambda catalog: catalog.effects.create(request, OPERATOR))
    _warn(effect)
    if as_json:
        print_json(effect)
    else:
        offered = (
            "is published"
            if effect.is_published
            else f"is not published yet. To publish it, run: callsheet effects publish {slug}"
        )
        out.print(f"Effect {effect.slug} of {effect.workflow} costs {_price_of(effect)} and {offered}.")


@effects.command("list")
def list_effects(as_json: bool = AS_JSON) -> None:
    """List the effects."""
    page = with_catalog(lambda catalog: catalog.effects.list(None, None, None, LISTED))
    if as_json:
        print_json(page.items)
    else:
        rows = [
            (row.slug, row.name, row.workflow, _cost_of(row), "yes" if row.is_published else "no", row.id)
            for row in page.items
        ]
        print_table(("slug", "name", "workflow", "cost", "published", "id"), rows)


@effects.command("show")
def show_effect(effect: str = EFFECT, as_json: bool = AS_JSON) -> None:
    """Show an effect, published or not."""
    found = with_catalog(lambda catalog: catalog.effects.get(effect))
    if as_json:
        print_json(found)
        return
    out.print(f"{found.slug}: {found.name}{'' if found.is_published else ' (not published)'}")
    if found.description:
        out.print(found.description)
    rows = [
        ("workflow", found.workflow),
        ("category", found.category or "none"),
        ("preview", _preview_text(found)),
        ("cost", _cost_of(found)),
        *([("price", found.price_formula)] if found.price_formula else []),
        ("provider", found.provider),
        ("stage", found.stage),
        ("has jobs", "yes" if found.has_jobs else "no"),
        ("id", found.id),
        *((f"set {key}", json.dumps(value)) for key, value in sorted(found.overrides.items())),
    ]
    print_table(("field", "value"), rows)


def _cost_of(effect: EffectRecord) -> str:
    return f"from {effect.credits_cost}" if effect.price_formula else str(effect.credits_cost)


def _price_of(effect: EffectRecord) -> str:
    tokens = counted(effect.credits_cost, "token")
    return f"{tokens} or more" if effect.price_formula else tokens


def _preview_text(effect: EffectRecord) -> str:
    if effect.preview is None:
        return "none"
    after = effect.preview.after
    kind = "video" if after.preview_url else "image" if after.width else "sound"
    return f"{kind}, before and after" if effect.preview.before is not None else kind


@effects.command("update")
def update_effect(
    effect: str = EFFECT,
    name: str | None = typer.Option(None, help="Display name."),
    description: str | None = typer.Option(None, help="Description of the effect."),
    category: str | None = typer.Option(None, help="Heading of the effect in the gallery."),
    preview: str | None = typer.Option(
        None,
        metavar="JOB_ID|FILE",
        help="Preview in the gallery: the id of a completed job, or an image, video or audio file. All users will see "
        "it.",
    ),
    before: Path | None = typer.Option(None, help="With a file as --preview: the original before the effect."),
    no_preview: bool = typer.Option(False, "--no-preview", help="Remove the preview."),
    cost: int | None = typer.Option(
        None, help="Price of a job in tokens, instead of the formula if there is one. 0 makes the effect free."
    ),
    price: str | None = PRICE,
    workflow: str | None = typer.Option(None, help="Short name of another workflow."),
    values: list[str] = typer.Option(
        [],
        "--set",
        help="Set a value of the workflow: KEY=VALUE. VALUE is parsed as JSON if possible, otherwise "
        "taken as text. Other values do not change.",
    ),
    unset: list[str] = typer.Option([], "--unset", help="Key of a value to reset to the workflow's default."),
    provider: str | None = typer.Option(None, help="Provider that runs the effect."),
    stage: str | None = typer.Option(None, help="Stage of the workers that run the effect."),
    as_json: bool = AS_JSON,
) -> None:
    """Change an effect. Jobs that were already submitted do not change."""
    from callsheet.cli.catalog.effect_previews import remove_preview, set_preview
    from callsheet.cli.shared.values import read_pairs

    if price is not None and cost is not None:
        raise OperatorError(ONE_PRICE)
    if (preview is not None and no_preview) or (before is not None and preview is None):
        raise OperatorError("Give --before only with --preview, and --preview not with --no-preview.")
    given = {
        "name": name,
        "description": description,
        "category": category,
        "credits_cost": cost,
        "price_formula": "" if cost is not None else price,
        "workflow": workflow,
        "provider": provider,
        "stage": stage,
    }
    changes: dict[str, object] = {field: value for field, value in given.items() if value is not None}
    version = None
    if values or unset:
        current = with_catalog(lambda catalog: catalog.effects.get(effect))
        kept = {key: value for key, value in current.overrides.items() if key not in unset}
        changes["overrides"], version = {**kept, **read_pairs(values)}, current.version
    if not changes and preview is None and not no_preview:
        raise OperatorError("Nothing to change. Name at least one field, for example --cost 5.")
    if changes:
        _changed(effect, {**changes, "version": version})
    if preview is not None:
        set_preview(effect, preview, before)
    elif no_preview:
        remove_preview(effect)
    changed = with_catalog(lambda catalog: catalog.effects.get(effect))
    if as_json:
        print_json(changed)
    else:
        # A price without a formula ends the formula: one change, not two.
        named = [each for each in changes if each != "price_formula" or price is not None]
        names = sorted([*named, *(["preview"] if preview or no_preview else [])])
        out.print(f"Effect {changed.slug} is changed: {', '.join(names)}.")


@effects.command("delete")
def delete_effect(
    effect: str = EFFECT, yes: bool = typer.Option(False, "--yes", "-y", help="Delete the effect without confirmation.")
) -> None:
    """Delete an effect that has no jobs. An effect with jobs can only be unpublished."""
    from callsheet.identity.audit_log import OPERATOR

    require_consent(f"Delete effect {effect}?", "deleted", yes, f"delete effect {effect}")
    with_catalog(lambda catalog: catalog.effects.delete(effect, OPERATOR))
    out.print(f"Effect {effect} is deleted.")


@effects.command("publish")
def publish_effect(
    effect: str = EFFECT,
    cost: int | None = typer.Option(
        None, help="Price of a job in tokens. 0 makes the effect free. Default: the current price."
    ),
) -> None:
    """Publish an effect."""
    current = with_catalog(lambda catalog: catalog.effects.get(effect))
    if cost is None and current.credits_cost == 0 and not current.price_formula:
        cost = _prompt_for_cost(effect)
    _publish(effect, is_published=True, **({} if cost is None else {"credits_cost": cost, "price_formula": ""}))


@effects.command("unpublish")
def unpublish_effect(effect: str = EFFECT) -> None:
    """Unpublish an effect. Its jobs continue."""
    _publish(effect, is_published=False)


def _publish(effect: str, **changes: object) -> None:
    changed = _changed(effect, changes)
    offered = f"published and costs {_cost_of(changed)}" if changed.is_published else "not published"
    out.print(f"Effect {changed.slug} is {offered}.")


def _changed(effect: str, changes: Mapping[str, object]) -> EffectRecord:
    from callsheet.identity.audit_log import OPERATOR

    update = checked(UpdateEffect, **changes)
    changed = with_catalog(lambda catalog: catalog.effects.update(effect, update, OPERATOR))
    _warn(changed)
    return changed


def _warn(effect: EffectRecord) -> None:
    for warning in effect.warnings:
        err.print(f"callsheet: warning: {warning}")


def _prompt_for_cost(effect: str) -> int:
    if not sys.stdin.isatty():
        raise OperatorError(f"Effect {effect} has no price. Add --cost TOKENS; --cost 0 makes it free.")
    return int(typer.prompt(f"Tokens that a job of {effect} costs (0 makes it free)", type=int))
