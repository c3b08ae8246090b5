"""The catalog of the demo: workflows for the built-in engine, effects of them, and a fleet that serves them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import httpx

from callsheet.toolbox.http.certificates import certificates
from callsheet.wire.catalog import CreateAsset, CreateWorkflow, UpdateWorkflow
from callsheet.wire.effects import CreateEffect, UpdateEffect
from callsheet.wire.errors import NotFound
from callsheet.wire.fleet import ChangeWorkflowsRequest, CreateFleetRequest

if TYPE_CHECKING:
    from callsheet.app.control_plane import ControlPlane

FLEET = "demo"
STAGE = "production"
OPERATOR = "operator"
INPUT = "__INPUT_PATH__"
LOGO = "__LOGO__"
Graph = dict[str, Any]


def _node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def _video_graph(**changed: dict[str, Any]) -> Graph:
    """A graph for the frames of the user's video, changed by nodes of which the last is `change`, with the original
    sound.
    """
    return {
        "load": _node("LoadVideo", file=INPUT),
        "parts": _node("GetVideoComponents", video=["load", 0]),
        **changed,
        "join": _node("CreateVideo", images=["change", 0], fps=["parts", 2], audio=["parts", 1]),
        "save": _node("SaveVideo", video=["join", 0], filename_prefix="demo", format="mp4", codec="h264"),
    }


def _property(key: str, kind: str, **rest: Any) -> dict[str, Any]:
    named = {"key": key, "type": kind, "label": key.capitalize(), "placeholder": f"{{{{{key}}}}}"}
    return {**named, "user_configurable": True, **rest}


def _input(kind: str) -> dict[str, Any]:
    named = {"key": "input", "type": kind, "label": kind.capitalize(), "placeholder": INPUT}
    return {**named, "required": True, "is_primary_input": True}


def _number(key: str, default: float, low: float, high: float, **rest: Any) -> dict[str, Any]:
    return _property(key, "number", default=default, limits={"min": low, "max": high}, **rest)


POSITIONS = ["bottom", "top", "center", "top-left", "top-right", "bottom-left", "bottom-right"]
FRAMES = ["parts", 0]


@dataclass(frozen=True, slots=True)
class DemoRecipe:
    """A workflow of the demo, and its effects."""

    slug: str
    graph: Graph
    properties: tuple[dict[str, Any], ...]
    effects: tuple[CreateEffect, ...]
    extension: str = "mp4"
    mime_type: str = "video/mp4"

    def request(self, logo: str | None) -> CreateWorkflow:
        named = [{**each, "default": logo} if each["placeholder"] == LOGO else each for each in self.properties]
        return CreateWorkflow.model_validate(
            {
                "slug": self.slug,
                "name": self.effects[0].name,
                "graph": self.graph,
                "properties": named,
                "output_node_id": "save",
                "output_extension": self.extension,
                "output_mime_type": self.mime_type,
            }
        )

    @property
    def needs_logo(self) -> bool:
        return any(each["placeholder"] == LOGO for each in self.properties)


def _effect(
    slug: str, name: str, category: str, workflow: str, cost: int, description: str, **overrides: Any
) -> CreateEffect:
    return CreateEffect(
        slug=slug,
        name=name,
        category=category,
        workflow=workflow,
        credits_cost=cost,
        description=description,
        overrides=overrides,
        is_published=True,
    )


COLOR, TEXT, MOTION, IMAGES = "Color", "Text and logos", "Motion", "Images"
_GRADES = ("brightness", "contrast", "gamma", "saturation", "warmth")
RECIPES: tuple[DemoRecipe, ...] = (
    DemoRecipe(
        "demo-negative",
        _video_graph(change=_node("ImageInvert", image=FRAMES)),
        (_input("video"),),
        (
            _effect(
                "negative",
                "Negative",
                COLOR,
                "demo-negative",
                2,
                "Every colour becomes its opposite; the sound stays.",
            ),
        ),
    ),
    DemoRecipe(
        "demo-caption",
        _video_graph(
            change=_node(
                "LightboxTextOverlay",
                image=FRAMES,
                text="{{prompt}}",
                position="{{position}}",
                size=0.09,
                color="#ffffff",
                opacity=1.0,
            )
        ),
        (
            _input("video"),
            _property("prompt", "text", label="Caption", required=True, limits={"max_length": 300}),
            _property("position", "choice", default="bottom", limits={"choices": POSITIONS}),
        ),
        (_effect("caption", "Caption", TEXT, "demo-caption", 2, "Writes your words on a video."),),
    ),
    DemoRecipe(
        "demo-watermark",
        {
            "logo": _node("LoadImage", image=LOGO),
            **_video_graph(
                change=_node(
                    "LightboxOverlay",
                    image=FRAMES,
                    overlay=["logo", 0],
                    mask=["logo", 1],
                    position="{{position}}",
                    size="{{size}}",
                    opacity=0.85,
                )
            ),
        },
        (
            _input("video"),
            {"key": "logo", "type": "image", "label": "Logo", "placeholder": LOGO, "user_configurable": True},
            _property("position", "choice", default="bottom-right", limits={"choices": POSITIONS}),
            _number("size", 0.25, 0.05, 1.0, description="Width as a share of the video's width."),
        ),
        (
            _effect(
                "watermark",
                "Watermark",
                TEXT,
                "demo-watermark",
                2,
                "A logo on a video: ours, or your own image.",
            ),
        ),
    ),
    DemoRecipe(
        "demo-speed",
        {
            "load": _node("LoadVideo", file=INPUT),
            "change": _node("LightboxVideoSpeed", video=["load", 0], speed="{{speed}}", keep_audio=True),
            "save": _node("SaveVideo", video=["change", 0], filename_prefix="demo", format="mp4", codec="h264"),
        },
        (
            _input("video"),
            _number("speed", 0.5, 0.1, 10.0, description="A value below 1 is slower, a value above 1 is faster."),
        ),
        (
            _effect(
                "slow-motion",
                "Slow motion",
                MOTION,
                "demo-speed",
                3,
                "Half the speed, at the same frame rate and pitch.",
            ),
        ),
    ),
    DemoRecipe(
        "demo-grade",
        _video_graph(change=_node("LightboxColorGrade", image=FRAMES, **{name: f"{{{{{name}}}}}" for name in _GRADES})),
        (
            _input("video"),
            *(_number(name, 1.0, 0.1, 4.0) for name in _GRADES[:4]),
            _number("warmth", 0.0, -1.0, 1.0),
        ),
        (
            _effect(
                "noir",
                "Film noir",
                COLOR,
                "demo-grade",
                2,
                "Black and white, hard light.",
                saturation=0.1,
                contrast=1.5,
            ),
            _effect(
                "moonlight",
                "Moonlight",
                COLOR,
                "demo-grade",
                2,
                "Day becomes night.",
                brightness=0.6,
                contrast=1.15,
                saturation=0.55,
                warmth=-0.7,
            ),
            _effect(
                "golden-hour", "Golden hour", COLOR, "demo-grade", 2, "Warm, late light.", warmth=0.6, saturation=1.2
            ),
        ),
    ),
    DemoRecipe(
        "demo-glow",
        {
            "load": _node("LoadImage", image=INPUT),
            "soft": _node("ImageBlur", image=["load", 0], blur_radius=24, sigma=8.0),
            "change": _node(
                "ImageBlend", image1=["load", 0], image2=["soft", 0], blend_factor="{{strength}}", blend_mode="screen"
            ),
            "save": _node("SaveImage", images=["change", 0], filename_prefix="demo"),
        },
        (_input("image"), _number("strength", 0.6, 0.0, 1.0)),
        (_effect("glow", "Glow", IMAGES, "demo-glow", 1, "A soft glow over an image."),),
        "png",
        "image/png",
    ),
    DemoRecipe(
        "demo-relight",
        {
            "load": _node("LoadImage", image=INPUT),
            "paint": _node(
                "LightboxTextToImage", text="{{mood}}", seed="{{seed}}", width=768, height=512, steps=1, batch_size=1
            ),
            "soft": _node("ImageBlur", image=["paint", 0], blur_radius=24, sigma=10.0),
            "change": _node(
                "ImageBlend", image1=["load", 0], image2=["soft", 0], blend_factor="{{strength}}", blend_mode="overlay"
            ),
            "save": _node("SaveImage", images=["change", 0], filename_prefix="demo"),
        },
        (
            _input("image"),
            _property("mood", "text", default="", limits={"max_length": 300}, description="Empty: the seed decides."),
            _number("strength", 0.9, 0.0, 1.0),
            _property("seed", "number", default=1, limits={"min": 0, "max": 2**32, "integer": True}),
        ),
        (_effect("relight", "Relight", IMAGES, "demo-relight", 1, "The light of another hour over an image."),),
        "png",
        "image/png",
    ),
    DemoRecipe(
        "demo-imagine",
        {
            "paint": _node(
                "LightboxTextToImage", text="{{prompt}}", seed="{{seed}}", width=768, height=512, steps=8, batch_size=1
            ),
            "save": _node("SaveImage", images=["paint", 0], filename_prefix="demo"),
        },
        (
            _property("prompt", "text", label="Prompt", required=True, limits={"max_length": 1000}),
            _property("seed", "number", default=1, limits={"min": 0, "max": 2**32, "integer": True}),
        ),
        (_effect("imagine", "Imagine", IMAGES, "demo-imagine", 1, "A landscape from your words; needs no file."),),
        "png",
        "image/png",
    ),
)


async def seed_catalog(plane: ControlPlane) -> list[str]:
    """Writes missing objects and updates the demo's own workflows. Other objects that people changed stay. Returns
    the slugs of the effects.
    """
    for recipe in RECIPES:
        await _seed_workflow(plane, recipe)
        for effect in recipe.effects:
            try:
                found = await plane.rooms.catalog.effects.get(effect.slug)
            except NotFound:
                await plane.rooms.catalog.effects.create(effect, OPERATOR)
                continue
            if not found.category:
                await plane.rooms.catalog.effects.update(effect.slug, UpdateEffect(category=effect.category), OPERATOR)
    await _seed_fleet(plane)
    return [effect.slug for recipe in RECIPES for effect in recipe.effects]


async def _seed_workflow(plane: ControlPlane, recipe: DemoRecipe) -> None:
    try:
        found = await plane.rooms.catalog.workflows.get(recipe.slug)
    except NotFound:
        logo = await _upload_logo(plane) if recipe.needs_logo else None
        await plane.rooms.catalog.workflows.create(recipe.request(logo), OPERATOR)
        return
    logo = next((str(each.default) for each in found.properties if each.placeholder == LOGO and each.default), None)
    if recipe.needs_logo and logo is None:
        logo = await _upload_logo(plane)
    wanted = recipe.request(logo)
    if (found.graph, found.properties) != (wanted.graph, wanted.properties):
        update = UpdateWorkflow(graph=wanted.graph, properties=wanted.properties)
        await plane.rooms.catalog.workflows.update(recipe.slug, update, OPERATOR)


async def _seed_fleet(plane: ControlPlane) -> None:
    slugs = [recipe.slug for recipe in RECIPES]
    try:
        fleet = await plane.rooms.fleet.fleets.find(FLEET, STAGE)
    except NotFound:
        request = CreateFleetRequest(slug=FLEET, stage=STAGE, name="Demo", workflow_slugs=slugs)
        await plane.rooms.fleet.fleets.create(request, OPERATOR)
        return
    missing = [slug for slug in slugs if slug not in fleet.workflows]
    if missing:
        await plane.rooms.fleet.fleets.change_workflows(fleet.id, ChangeWorkflowsRequest(add=missing), OPERATOR)


async def _upload_logo(plane: ControlPlane) -> str:
    content = draw_logo()
    request = CreateAsset(
        name="callsheet.png",
        mime_type="image/png",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    created = await plane.rooms.catalog.assets.create(request, OPERATOR)
    async with httpx.AsyncClient(trust_env=False, verify=certificates()) as http:
        assert created.upload is not None, "no resume key was sent"
        stored = await http.put(created.upload.url, content=content, headers=created.upload.headers)
    stored.raise_for_status()
    await plane.rooms.catalog.assets.confirm(created.asset.id, OPERATOR)
    return str(created.asset.id)


def draw_logo() -> bytes:
    """A clapperboard on a transparent background."""
    from PIL import Image, ImageDraw

    logo = Image.new("RGBA", (256, 192))
    draw = ImageDraw.Draw(logo)
    draw.rounded_rectangle((8, 70, 248, 184), 14, fill=(24, 26, 32, 235), outline=(255, 255, 255, 255), width=5)
    draw.rounded_rectangle((8, 12, 248, 58), 10, fill=(255, 255, 255, 255))
    for left in range(20, 248, 60):
        draw.polygon(((left, 58), (left + 30, 58), (left + 50, 12), (left + 20, 12)), fill=(24, 26, 32, 255))
    draw.polygon(((104, 98), (104, 156), (156, 127)), fill=(255, 196, 0, 255))
    written = BytesIO()
    logo.save(written, "PNG")
    return written.getvalue()
