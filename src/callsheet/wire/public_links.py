"""Public links to results: the owner's view, and the view of anyone with the link."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, ResponseModel, Switch, UserRequest
from callsheet.wire.library import Medium


class CreateShareLink(UserRequest):
    expires_in_days: Annotated[int, Field(ge=1, le=36_500), WHOLE] | None = Field(
        None,
        description="Days until the link expires. Default: the setting `sharing.link_days`. Maximum: "
        "`sharing.max_link_days`.",
    )
    show_prompt: Switch = Field(False, description="Whether the page shows the prompt.")
    show_input: Switch = Field(True, description="Whether the page shows the file that the job worked on.")


class ShareLink(ResponseModel):
    """A public link to the result of a job, as its owner sees it."""

    id: UUID = Field(description="Id of the link. It cannot be used to open the page.")
    job_id: UUID
    shows_prompt: bool
    shows_input: bool
    created_at: datetime
    expires_at: datetime
    opened: int = Field(description="How often the page was opened, exact to about a minute.")
    last_opened_at: datetime | None = None


class CreatedShareLink(ShareLink):
    url: str = Field(description="The link. It is shown only this once.")


class SharedFile(ResponseModel):
    medium: Medium
    mime_type: str
    url: str = Field(description="URL of the file, relative to the API. It expires with the link.")
    poster_url: str | None = Field(None, description="A smaller image of it, or a frame of a video, as WebP.")
    width: int | None = Field(None, description="Size of the image or video in pixels, as it is shown.")
    height: int | None = None
    duration_seconds: float | None = None


class SharedResult(ResponseModel):
    """Everything that anyone with the link sees."""

    title: str = Field(description="Name of the effect, actor or workflow.")
    prompt: str | None = Field(None, description="Prompt of the job, if the owner shows it.")
    before: SharedFile | None = Field(None, description="Input of the job, if the owner shows it.")
    after: SharedFile = Field(description="The main file that the job made.")
    more: list[SharedFile] = Field(default_factory=list, description="Other files that it made.")
    expires_at: datetime = Field(description="When the link ends.")
