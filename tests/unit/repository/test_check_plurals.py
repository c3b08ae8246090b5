"""`make lint` finds numbers that are written with their noun by hand."""

from __future__ import annotations

import pytest

from callsheet.wire.plurals import choose, counted
from tools.check_plurals import in_python, in_typescript


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1.0, "1 job"), (0.5, "0.5 jobs"), (2**70, None)]
)
def test_a_number_has_its_noun(number: float, text: str | None) -> None:
    assert counted(number, "job") == (text or f"{2**70} jobs")


def test_a_verb_follows_the_number() -> None:
    assert [counted(n, "job waits", "jobs wait") for n in (1, 2)] == ["1 job waits", "2 jobs wait"]
    assert [choose(n, "leaf", "leaves") for n in (1, 3)] == ["leaf", "leaves"]


@pytest.mark.parametrize(
    "source",
    [
        'f"It costs {cost} tokens."',
        'f"{count:,} waiting jobs"',
        'f"{count}+ jobs are ahead"',
        """f"{n} token{'' if n == 1 else 's'}\"""",
        '"is" if jobs == 1 else "are"',
        '"1 of" + ("job" if count == 1 else "jobs")',
    ],
)
def test_a_plural_made_by_hand_is_found_in_python(source: str) -> None:
    assert len(list(in_python(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        """f"It costs {counted(cost, 'token')}.\"""",
        'f"at most {MAX_JOBS} jobs"',
        'f"at most {limits.MAX_JOBS} jobs"',
        'f"{name} has jobs"',
        'f"{driver} starts"',
        '"mono" if channels == 1 else "stereo"',
    ],
)
def test_other_texts_are_not_found_in_python(source: str) -> None:
    assert list(in_python(source)) == []


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("jobs: (n: number) => `${n} jobs`", 1),
        ('jobs: (n: number) => (n === 1 ? "1 job" : `${n} jobs`)', 2),
        ('jobs: (n: number) => `${n} ${n === 1 ? "job" : "jobs"}`', 1),
        ('jobs: (n: number) => counted(n, "job")', 0),
        ("created: (name: string) => `${name} takes jobs again.`", 0),
        ('kind: (n: number) => (n === 1 ? "mono" : "stereo")', 0),
    ],
)
def test_plurals_made_by_hand_are_found_in_texts_of_the_web_application(source: str, number: int) -> None:
    assert len(list(in_typescript(source))) == number
