"""Settings of the provider `lightbox`: an engine that the task's own process talks to."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section, WebAddress


class LightboxProviderConfig(Section):
    url: WebAddress | None = Field(
        None, description="Address of a Lightbox or ComfyUI engine. Default: none, it is not used."
    )
    allow_graphs: bool = Field(
        False, description="Whether users may send graphs of their own, which can use every node the engine has."
    )
    max_concurrent: int = Field(1, ge=1, le=1000, description="Most jobs it gets at once, from all machines together.")
    limit_seconds: int = Field(600, ge=1, le=86_400, description="Longest time one run may take, in seconds.")
    max_input_bytes: int = Field(52_428_800, ge=1, description="Largest picture fetched for img2img, in bytes.")
