"""Which candidates may get another child is defined once, by `candidate_is_eligible` and `candidate_has_failed`."""

from __future__ import annotations

import re

from callsheet.plumbing.database.migrate import known_migrations
from tools.keep_statements import every_statement

# The condition written out: the place that is left for a child, or the number of failures.
COPY = re.compile(r"in_flight\s*<\s*\w*\.?max_children|failure_count\s*(<|>=)\s*\w*\.?strikes")


def test_no_statement_repeats_the_condition() -> None:
    assert [name for name, statement in every_statement().items() if COPY.search(statement.text)] == []


def test_the_check_finds_a_repeated_condition() -> None:
    [schema] = [each.sql for each in known_migrations("pool") if each.name == "pipelines"]
    in_index, *in_functions = COPY.finditer(schema)
    assert "eligible_parents" in schema[: in_index.start()].splitlines()[-2]
    assert len(in_functions) == 4
