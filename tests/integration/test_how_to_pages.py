"""README and the how-to pages are followed literally: each alone, and one after the other in one clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs.documentation_pages import ROOT, demo_running_in, steps_of

README = ROOT / "README.md"
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [page for page in (README, *HOW_TO) if steps_of(page)]


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_works_by_itself(tmp_path: Path, page: Path) -> None:
    with demo_running_in(tmp_path) as clone:
        clone.follow([page])


@pytest.mark.thorough
def test_pages_work_one_after_the_other_and_once_more(tmp_path: Path) -> None:
    """In one shell, one directory and one installation."""
    with demo_running_in(tmp_path) as clone:
        clone.follow([*PAGES, *reversed(PAGES)])


@pytest.mark.parametrize("page", [README, *HOW_TO], ids=lambda page: page.stem)
def test_every_output_on_a_page_is_compared(page: Path) -> None:
    """A `text` block that does not follow an executed command would be a claim without a check."""
    assert sum(step.printed is not None for step in steps_of(page)) == page.read_text("utf-8").count("```text")
