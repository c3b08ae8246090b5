"""What lists show of tasks, and what a search finds them by."""

from __future__ import annotations

from callsheet.jobs.show.descriptions import JobDescription, texts_of


def test_a_task_is_described_by_the_texts_of_its_payload() -> None:
    payload = {"product": {"name": "Kettle"}, "n": 1, "lines": ["one", "two"], "prompt": " "}
    assert texts_of(payload) == {"name": "Kettle", "lines": "one"}
    described = JobDescription("Static ad", input_names=("Fox.mp4",), texts={"prompt": "A Kettle", "style": "noir"})
    assert (described.prompt, described.search_text) == ("A Kettle", "static ad fox.mp4 a kettle noir")
