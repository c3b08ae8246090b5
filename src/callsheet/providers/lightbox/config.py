"""Settings of the provider `lightbox`: an engine that the task's own process calls."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section, WebAddress


class LightboxProviderConfig(Section):
    url: WebAddress | None = Field(
        None, description="URL of a Lightbox or ComfyUI engine. Default: none, and the provider is not used."
    )
    allow_graphs: bool = Field(
        False, description="Whether users may send their own graphs, which can use every node of the engine."
    )
    max_concurrent: int = Field(1, ge=1, le=1000, description="Largest number of concurrent jobs, across all machines.")
    limit_seconds: int = Field(600, ge=1, le=86_400, description="Timeout of one run, in seconds.")
    max_input_bytes: int = Field(52_428_800, ge=1, description="Largest image that is fetched for img2img, in bytes.")
