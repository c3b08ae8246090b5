"""The settings section `providers`: which providers may execute, and their configuration."""

from __future__ import annotations

from typing import Any

from pydantic import Field, Secret

from callsheet.providers.ads.copywriting_config import CopywritingConfig
from callsheet.providers.ads.scraping_config import ScrapingConfig
from callsheet.providers.comfy.config import ComfyUIConfig
from callsheet.providers.http.config import HttpProviderConfig
from callsheet.providers.lightbox.config import LightboxProviderConfig
from callsheet.providers.replicate.config import ReplicateConfig
from callsheet.toolbox.sections import Names, Section
from callsheet.wire.forms import Provider

__all__ = [
    "ComfyUIConfig",
    "CopywritingConfig",
    "HttpProviderConfig",
    "LightboxProviderConfig",
    "ProvidersConfig",
    "ReplicateConfig",
    "ScrapingConfig",
]


class ProvidersConfig(Section):
    blocked: Names = Field((), description="Media providers that are switched off, comma separated.")
    http: dict[Provider, HttpProviderConfig] = Field(
        default_factory=dict, description="Services that are called over HTTP, by name."
    )
    plugins: dict[str, Secret[dict[str, Any]]] = Field(
        default_factory=dict, description="Settings of providers and actors of other packages, by name."
    )
    replicate: ReplicateConfig = Field(default_factory=ReplicateConfig, description="Replicate.")
    copywriting: CopywritingConfig = Field(
        default_factory=CopywritingConfig, description="The service that writes texts."
    )
    scraping: ScrapingConfig = Field(default_factory=ScrapingConfig, description="How product pages are read.")
    comfyui: ComfyUIConfig = Field(default_factory=ComfyUIConfig, description="Media tasks that a GPU worker runs.")
    lightbox: LightboxProviderConfig = Field(
        default_factory=LightboxProviderConfig, description="Media tasks that are sent to an engine directly."
    )
