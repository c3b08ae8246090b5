"""A finding of `callsheet doctor` about one part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from callsheet.settings.safety import Unsafe

CLOCK_TOLERANCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SettingsFinding:
    part: str
    status: Literal["ok", "warning", "problem"]
    message: str
    advice: str = ""


def clock_finding(whose: str, drift_seconds: float) -> SettingsFinding:
    message = f"The {whose}'s clock and this machine's differ by {abs(drift_seconds):.2f} s."
    if abs(drift_seconds) > CLOCK_TOLERANCE_SECONDS:
        advice = "Run a time service (chrony, systemd-timesyncd) on both: signed URLs expire by the clock."
        return SettingsFinding("clock", "problem", message, advice)
    return SettingsFinding("clock", "ok", message)


def safety_findings(found: Sequence[Unsafe]) -> list[SettingsFinding]:
    return [SettingsFinding("settings", "warning", each.message, each.advice) for each in found]
