"""Settings for reading product pages."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from callsheet import __version__
from callsheet.toolbox.sections import Section

AGENT: Final = "Callsheet"


class ScrapingConfig(Section):
    timeout_seconds: float = Field(20.0, gt=0, le=300, description="Timeout for loading a page, in seconds.")
    max_bytes: int = Field(3_000_000, ge=1_000, le=50_000_000, description="Largest page that is read, in bytes.")
    read_seconds: float = Field(10.0, gt=0, le=120, description="Timeout for parsing a page, in seconds.")
    contact: str = Field(
        "",
        max_length=200,
        description="URL or e-mail address in the user agent, so that owners of pages can contact you.",
    )
    robots: bool = Field(True, description="Whether robots.txt is respected: pages that it excludes are not read.")
    max_concurrent: int = Field(
        10, ge=1, le=100_000, description="Largest number of concurrent jobs, across all machines."
    )

    @field_validator("contact")
    @classmethod
    def _contact_can_be_sent(cls, value: str) -> str:
        if not re.fullmatch(r"[!-'*-~]*", value):
            raise ValueError("must be plain characters without blanks and brackets")
        return value

    @property
    def user_agent(self) -> str:
        return f"{AGENT}/{__version__} (product pages{f'; +{self.contact}' if self.contact else ''})"
