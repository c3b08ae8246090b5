import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.toolbox.http.unpacking import CannotUnpack, Unpacker


def unpack(data: bytes, encoding: str, chunk_bytes: int) -> list[bytes]:
    unpacker = Unpacker(encoding)
    chunks = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    pieces = [piece for chunk in chunks for piece in unpacker.pieces(chunk)]
    unpacker.finish()
    return pieces


@given(
    # Around the size of a piece, where input and output do not end together.
    st.binary(min_size=1, max_size=100).map(lambda seed: seed * 2_000) | st.integers(65_000, 132_000).map(bytes),
    st.integers(1, 70_000),
    st.sampled_from([("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes), ("", bytes)]),
)
def test_compressed_text_is_decompressed_in_bounded_pieces(
    text: bytes, chunk_bytes: int, kind: tuple[str, Callable[[bytes], bytes]]
) -> None:
    encoding, pack = kind
    # One-byte chunks of unpacked text would only be slow.
    pieces = unpack(pack(text), encoding, chunk_bytes if encoding in ("gzip", "deflate") else 65_536)
    assert b"".join(pieces) == text
    assert max(len(piece) for piece in pieces) <= 65_536


@given(st.integers(1, 60), st.integers(1, 60))
def test_packed_data_that_is_cut_short_is_never_taken_for_whole(cut: int, chunk_bytes: int) -> None:
    packed = gzip.compress(bytes(range(256)))
    with pytest.raises(CannotUnpack):
        unpack(packed[:-cut], "gzip", chunk_bytes)


@given(st.binary(min_size=1))
def test_invalid_data_is_refused_without_another_error(data: bytes) -> None:
    with pytest.raises(CannotUnpack):
        unpack(data, "gzip", 7)


def test_empty_data_needs_no_decompression() -> None:
    assert unpack(b"", "gzip", 1) == []
