"""A number with its noun. `make lint` finds texts that count by hand: many of them were wrong for 1."""

from __future__ import annotations


def counted(number: float, one: str, many: str | None = None) -> str:
    """`1 token` or `2 tokens`; with the verb where it follows: `counted(n, "job waits", "jobs wait")`."""
    return f"{_shown(number)} {choose(number, one, many)}"


def choose(number: float, one: str, many: str | None = None) -> str:
    """Only the words, for a number that is written in another way, for example as 1,000."""
    return one if number == 1 else many or f"{one}s"


def _shown(number: float) -> str:
    # str() of a large integer is exact; of a float it would show 30.0.
    return str(int(number)) if number == int(number) else f"{number:g}"
