import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.ids import secret_token, uuid7


def milliseconds_of(value: uuid.UUID) -> int:
    return value.int >> 80


@given(st.integers(0, 2**48 - 1))
def test_a_uuid7_carries_its_millisecond_version_and_variant(now_ms: int) -> None:
    value = uuid7(now_ms)
    assert milliseconds_of(value) == now_ms
    assert value.version == 7
    assert value.variant == uuid.RFC_4122


@given(st.lists(st.integers(1_700_000_000_000, 1_700_000_000_005), min_size=2, max_size=50))
def test_ids_made_in_a_row_for_one_millisecond_ascend(times: list[int]) -> None:
    made = [(now_ms, uuid7(now_ms)) for now_ms in times]
    for (earlier, first), (later, second) in pairwise(made):
        assert (first < second) == (earlier <= later)


def test_ids_by_the_clock_ascend_and_carry_the_present() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(10_000)]
    after = time.time_ns() // 1_000_000
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert before <= milliseconds_of(made[0]) <= milliseconds_of(made[-1]) <= after + 1


def test_a_clock_that_is_set_back_does_not_put_new_ids_before_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    first = uuid7()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert uuid7() > first


def test_threads_never_make_the_same_id_and_each_sees_its_own_ascend() -> None:
    def make(_: int) -> list[uuid.UUID]:
        return [uuid7() for _ in range(2_000)]

    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(make, range(4)))
    assert all(batch == sorted(batch) for batch in batches)
    assert len({value for batch in batches for value in batch}) == 8_000


@pytest.mark.parametrize("now_ms", [-1, 2**48])
def test_a_millisecond_outside_48_bits_is_refused(now_ms: int) -> None:
    with pytest.raises(ValueError, match="milliseconds"):
        uuid7(now_ms)


@given(st.integers(16, 64))
def test_a_secret_token_is_its_prefix_and_letters_and_digits(entropy_bytes: int) -> None:
    prefix, _, secret = secret_token("csk", entropy_bytes).partition("_")
    assert prefix == "csk"
    assert secret.isascii()
    assert secret.isalnum()
    assert 62 ** len(secret) >= 256**entropy_bytes


def test_secret_tokens_differ() -> None:
    tokens = {secret_token("csk") for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert {len(token) for token in tokens} == {47}
