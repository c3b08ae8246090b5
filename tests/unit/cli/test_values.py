"""`--set KEY=VALUE` for a task, whose payload only its actor knows."""

from __future__ import annotations

import pytest

from callsheet.cli.shared.values import read_payload
from callsheet.toolbox.errors import OperatorError


def test_dotted_keys_are_members_and_values_are_parsed_as_json_if_possible() -> None:
    pairs = [
        "product.title=A = B",
        "product.price=19.5",
        "params.tags=[1, true]",
        "prompt={not json",
        'code="007"',
        "odd=NaN",
    ]
    assert read_payload(pairs) == {
        "product": {"title": "A = B", "price": 19.5},
        "params": {"tags": [1, True]},
        "prompt": "{not json",
        "code": "007",
        "odd": "NaN",
    }


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (["title"], "--set takes KEY=VALUE, not 'title'."),
        (["=lamp"], "--set takes KEY=VALUE, not '=lamp'."),
        (["title=a", "title.more=b"], "title.more: title already has a value."),
        (["title=\udc80"], "title: its value is not text in UTF-8."),
    ],
)
def test_an_unreadable_value_is_refused_before_anything_is_sent(pairs: list[str], sentence: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_payload(pairs)
    assert str(refused.value) == sentence
