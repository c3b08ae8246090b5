"""The facts that an agent sends with some of its polls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from callsheet.worker.agent.polls import REPORT_SECONDS, PollFacts
from callsheet.worker.engines.engines import Engines


class Described:
    def __init__(self) -> None:
        self.version = "1.0"
        self.now = 0.0

    def capabilities(self) -> dict[str, Any]:
        return {"engine": self.version}

    def facts(self, directory: Path) -> PollFacts:
        return PollFacts(directory, Engines([]), self.capabilities, lambda: self.now)


def test_the_disk_of_a_directory_that_does_not_exist_yet_is_reported_twice_a_minute(tmp_path: Path) -> None:
    described = Described()
    facts = described.facts(tmp_path / "not" / "yet")
    first = facts.due()
    assert 0 < first["disk"].free_bytes <= first["disk"].size_bytes
    assert facts.due() == {}
    described.now = REPORT_SECONDS
    assert "disk" in facts.due()


def test_capabilities_are_sent_when_they_changed_until_a_response_arrives(tmp_path: Path) -> None:
    described = Described()
    facts = described.facts(tmp_path)
    assert facts.registered() == {"engine": "1.0"}
    assert "capabilities" not in facts.due()
    described.version, described.now = "2.0", REPORT_SECONDS
    assert facts.due()["capabilities"] == {"engine": "2.0"}
    # The poll got no response, so they are sent again.
    described.now += REPORT_SECONDS
    assert facts.due()["capabilities"] == {"engine": "2.0"}
    facts.arrived()
    described.now += REPORT_SECONDS
    assert "capabilities" not in facts.due()
