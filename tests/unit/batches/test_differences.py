"""The values in which the items of a batch differ."""

from __future__ import annotations

from callsheet.batches.differences import SentValue, differing_values


def test_a_value_that_is_the_same_for_all_items_is_left_out() -> None:
    rows = [SentValue(item, key, text, text) for item in (1, 2) for key, text in (("a", "same"), ("b", str(item)))]
    found = differing_values(rows)
    assert found.keys == ["b"]
    assert [each.values for each in found.items] == [{"b": "1"}, {"b": "2"}]


def test_long_texts_differ_by_their_hash_and_missing_values_differ_too() -> None:
    rows = [SentValue(1, "a", "long", "1"), SentValue(2, "a", "long", "2"), SentValue(2, "b", None, None)]
    found = differing_values(rows)
    assert found.keys == ["a", "b"]
    assert [each.values for each in found.items] == [{"a": "long"}, {"a": "long", "b": ""}]
