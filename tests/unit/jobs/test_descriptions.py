"""What lists show of jobs, as far as it is found in what engines were sent."""

from __future__ import annotations

from uuid import uuid4

import pytest

from callsheet.jobs.operate.description_backfill import JobToDescribe, texts_of_job, title_of
from callsheet.jobs.show.descriptions import texts_in


def node(text: object) -> dict[str, object]:
    return {"3": {"class_type": "CLIPTextEncode", "inputs": {"text": text}}}


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("{{prompt}}", "a fox", {"{{prompt}}": "a fox"}),
        (
            "a photo of {{prompt}}, {{style}} look",
            "a photo of a fox, noir look",
            {"{{prompt}}": "a fox", "{{style}}": "noir"},
        ),
        ("{{prompt}}", "", {"{{prompt}}": ""}),
        ("a secret of whoever made the workflow", "a secret of whoever made the workflow", {}),
        # The workflow was changed since.
        ("a drawing of {{prompt}}", "a photo of a fox", {}),
        ("{{prompt}} in oil", "a fox in clay", {}),
        ("{{prompt}}{{style}}", "a foxnoir", {}),
        ("{{prompt}}", 7, {}),
        (["1", 0], "a fox", {}),
    ],
)
def test_texts_of_users_are_distinguished_from_texts_of_the_graph(
    text: object, value: object, found: dict[str, str]
) -> None:
    assert texts_in(node(text), node(value), ["{{prompt}}", "{{style}}"]) == found


def test_a_missing_node_has_no_description() -> None:
    assert texts_in(node("{{prompt}}"), {}, ["{{prompt}}"]) == {}


def test_a_task_is_described_by_its_actor_and_its_payload() -> None:
    payload = {"product": {"name": "Kettle"}, "n": 1}
    row = JobToDescribe(uuid4(), uuid4(), uuid4(), "task", "static_ad", None, True, payload, [], None)
    assert (title_of(row), texts_of_job(row, None)) == ("Static ad", {"name": "Kettle"})
    # One that is too large to be read.
    assert texts_of_job(row._replace(payload=None), None) == {}
