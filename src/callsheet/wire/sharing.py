"""Public links to results: as their owners see them, and what anyone with the link sees."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Switch, UserRequest
from callsheet.wire.library import Medium


class CreateShareLink(UserRequest):
    expires_in_days: Annotated[int, Field(ge=1, le=36_500), WHOLE] | None = Field(
        None, description="Default: `sharing.link_days` of the settings; at most `sharing.longest_link_days`."
    )
    show_prompt: Switch = Field(False, description="Whether the page shows the prompt.")
    show_input: Switch = Field(True, description="Whether the page shows the file that the job worked on.")


class ShareLink(Answer):
    """A public link to the result of a job, as its owner sees it."""

    id: UUID = Field(description="Names the link. It opens nothing.")
    job_id: UUID
    shows_prompt: bool
    shows_input: bool
    created_at: datetime
    expires_at: datetime
    opened: int = Field(description="How often the page was opened, exact to about a minute.")
    last_opened_at: datetime | None = None


class CreatedShareLink(ShareLink):
    url: str = Field(description="The link. It is shown this once and cannot be had again.")


class SharedFile(Answer):
    medium: Medium
    mime_type: str
    url: str = Field(description="Where it is read, relative to the API. It ends with the link.")
    poster_url: str | None = Field(None, description="A smaller image of it, or a frame of a video, as WebP.")
    width: int | None = Field(None, description="Of the image or video itself, in pixels, as it is shown.")
    height: int | None = None
    duration_seconds: float | None = None


class SharedResult(Answer):
    """All that anyone with the link sees."""

    title: str = Field(description="Name of the effect or actor.")
    prompt: str | None = Field(None, description="Only where the owner chose to show it.")
    before: SharedFile | None = Field(None, description="What the job worked on, where the owner shows it.")
    after: SharedFile = Field(description="The main file that the job made.")
    more: list[SharedFile] = Field(default_factory=list, description="Other files that it made.")
    expires_at: datetime = Field(description="When the link ends.")
