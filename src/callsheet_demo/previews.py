"""Previews of the demo's effects: Lightbox renders an example of each, after the link is printed.

The engine is called directly, without jobs, so that no library and no wallet shows jobs that no user requested.
Previews that are missing when the demo stops are made the next time.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from callsheet.catalog.effect_previews import FOR_EFFECTS
from callsheet.catalog.placeholders import fill
from callsheet.media.previews.sandbox import Kind, Previews, make_previews
from callsheet.toolbox.logs import get_logger
from callsheet.wire.effects import CreateEffect
from callsheet.wire.errors import NotFound
from callsheet_demo.catalog import INPUT, LOGO, OPERATOR, RECIPES, DemoRecipe, draw_logo

if TYPE_CHECKING:
    from callsheet.app.control_plane import ControlPlane

log = get_logger(__name__)
# Examples of users' texts.
EXAMPLES: dict[str, dict[str, Any]] = {
    "caption": {"prompt": "Above the lake"},
    "relight": {"seed": 5},
    "imagine": {"prompt": "mountains at dawn", "seed": 7},
}
# A moment at which the balloon is in the middle.
STILL_SECONDS = 1.5
POLL_SECONDS = 0.1
RENDER_SECONDS = 120


async def render_previews(plane: ControlPlane, engine_url: str, sample: Path) -> None:
    """Renders previews of effects that have none. An effect that cannot be rendered keeps none."""
    missing = [(recipe, effect) for recipe in RECIPES for effect in recipe.effects if await _is_bare(plane, effect)]
    if not missing:
        return
    still = await asyncio.to_thread(_draw_still)
    inputs = {"video": (await asyncio.to_thread(sample.read_bytes), "sample.mp4"), "image": (still, "sample.png")}
    before: dict[str, Previews] = {}
    async with httpx.AsyncClient(base_url=engine_url, trust_env=False, timeout=RENDER_SECONDS) as engine:
        names = {kind: await _upload(engine, *file) for kind, file in inputs.items()}
        logo = await _upload(engine, draw_logo(), "logo.png")
        for recipe, effect in missing:
            kind = _input_kind(recipe)
            try:
                made = await _render(engine, recipe, effect, {INPUT: names.get(kind or "", ""), LOGO: logo})
                shown = {"after": await _previews("video" if recipe.mime_type.startswith("video/") else "image", made)}
                if kind is not None:
                    before[kind] = before.get(kind) or await _previews(kind, inputs[kind][0])
                    shown["before"] = before[kind]
                await plane.rooms.catalog.effect_previews.keep(effect.slug, shown, OPERATOR)
            # A missing preview in the gallery is not a reason to end the demo.
            except Exception as error:  # noqa: BLE001
                log.warning("demo.no_preview", effect=effect.slug, error=repr(error))


async def _is_bare(plane: ControlPlane, effect: CreateEffect) -> bool:
    try:
        return (await plane.rooms.catalog.effects.get(effect.slug)).preview is None
    except NotFound:
        return False


def _input_kind(recipe: DemoRecipe) -> Kind | None:
    primary = next((each["type"] for each in recipe.properties if each.get("is_primary_input")), None)
    return "video" if primary == "video" else "image" if primary == "image" else None


def _draw_still() -> bytes:
    from PIL import Image

    from callsheet_demo.clip import image

    target = BytesIO()
    Image.fromarray(image(STILL_SECONDS)).save(target, "PNG")
    return target.getvalue()


async def _upload(engine: httpx.AsyncClient, content: bytes, name: str) -> str:
    response = await engine.post("/upload/image", files={"image": (name, content)}, data={"subfolder": "previews"})
    response.raise_for_status()
    stored = response.json()
    return f"{stored['subfolder']}/{stored['name']}"


async def _render(engine: httpx.AsyncClient, recipe: DemoRecipe, effect: CreateEffect, files: dict[str, str]) -> bytes:
    values: dict[str, Any] = {
        each["placeholder"]: EXAMPLES.get(effect.slug, {}).get(
            each["key"], effect.overrides.get(each["key"], each.get("default"))
        )
        for each in recipe.properties
        if each["type"] not in ("image", "video")
    }
    graph = fill(recipe.graph, {**values, **files}, []).graph
    response = await engine.post("/prompt", json={"prompt": graph})
    response.raise_for_status()
    file = await _finished(engine, response.json()["prompt_id"])
    names = {name: file[name] for name in ("filename", "subfolder", "type")}
    view = await engine.get("/view", params=names)
    view.raise_for_status()
    return view.content


async def _finished(engine: httpx.AsyncClient, prompt_id: str) -> dict[str, Any]:
    """The file that was saved."""
    async with asyncio.timeout(RENDER_SECONDS):
        while True:
            entry = (await engine.get(f"/history/{prompt_id}")).json().get(prompt_id)
            if entry is not None:
                saved = entry["outputs"]["save"]
                return next(files[0] for files in saved.values() if files and isinstance(files[0], dict))
            await asyncio.sleep(POLL_SECONDS)


async def _previews(kind: Kind, content: bytes) -> Previews:
    async def read(start: int, length: int) -> bytes:
        return content[start : start + length]

    return await make_previews(kind, len(content), read, FOR_EFFECTS)
