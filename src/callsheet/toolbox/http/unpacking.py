"""Decodes the Content-Encoding of a response with a limited size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

ENCODINGS = ("gzip", "deflate")
_PIECE_BYTES = 65_536


class CannotUnpack(Exception):
    """The data does not match its encoding."""


class Unpacker:
    """Returns pieces of at most 64 kB, so that the reader can stop at its limit.

    httpx's own decoders turn 64 kB into 64 MB in one step, and `gzip, gzip` into gigabytes.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        self._packed = self._encoding not in ("", "identity")
        self._started = False
        # 32 accepts both kinds of header, gzip's and zlib's.
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if not self._packed:
            yield data
            return
        if self._encoding not in ENCODINGS:
            raise CannotUnpack("it has an encoding that was not requested")
        self._started = True
        while True:
            if self._inflate.eof and data:
                # zlib would collect all further data, and copy it again with every chunk.
                raise CannotUnpack("there is data after its end")
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise CannotUnpack("it is damaged") from None
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            if not data:
                return

    def finish(self) -> None:
        if self._started and not self._inflate.eof:
            raise CannotUnpack("it ends too early")
