"""Builds the prompts for images, videos and speech of typed jobs. Pure.

The names of inputs are those of most models. If a model has other names, its settings translate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.wire.generation import ProductFields, SpeechInput, StaticAdInput, VideoInput

# Models use the first few hundred words of a prompt, and some refuse longer ones.
MAX_DESCRIPTION_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    prompt: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    # Sent only if the settings of the model name the input.
    extra: Mapping[str, Any] = field(default_factory=dict)


def image_request(wanted: StaticAdInput) -> ProviderRequest:
    words = f'With the headline "{wanted.headline}".' if wanted.headline else "Without any words in the image."
    prompt = f"Advertising photograph, style: {wanted.style}. {about(wanted.product)} {words}"
    extra = {"image": first_image(wanted.product), "style": wanted.style, "headline": wanted.headline}
    return ProviderRequest(prompt, {"aspect_ratio": wanted.aspect_ratio}, extra)


def video_request(wanted: VideoInput) -> ProviderRequest:
    product = about(wanted.product) if wanted.product else ""
    script = f"Script: {wanted.script}" if wanted.script else ""
    prompt = " ".join(part for part in (f"User-made video, style: {wanted.style}.", product, script) if part)
    extra = {"image": first_image(wanted.product), "style": wanted.style, "script": wanted.script}
    return ProviderRequest(prompt, {"aspect_ratio": wanted.aspect_ratio, "duration": wanted.duration_seconds}, extra)


def speech_request(wanted: SpeechInput) -> ProviderRequest:
    return ProviderRequest(
        params={"text": wanted.text, "voice": wanted.voice},
        extra={"language": wanted.language, "speed": wanted.speed},
    )


def about(product: ProductFields) -> str:
    description = " ".join(product.description.split())[:MAX_DESCRIPTION_LENGTH]
    return f"Product: {product.title}. {description}".strip()


def first_image(product: ProductFields | None) -> str | None:
    return product.images[0] if product and product.images else None
