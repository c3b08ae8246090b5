"""Settings of the counts and samples for charts."""

from __future__ import annotations

from pydantic import Field

from callsheet.toolbox.sections import Section


class StatisticsSettings(Section):
    days: int = Field(400, ge=31, le=36_500, description="How long the hourly statistics are kept, in days.")
