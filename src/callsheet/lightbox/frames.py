"""Images as they flow between nodes: a batch is a pipeline that is evaluated while it is saved.

ComfyUI holds a batch in memory as one tensor: ten minutes of 1080p are 112 GB of it as bytes. Here a batch knows how
to make its images one after the other, so that only the one in work is held.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# What every camera makes, and three frames of 8K; 360 MB as bytes, of which a node may need several.
MOST_PIXELS = 120_000_000
# Rows, columns and three channels of an image; rows and columns alone of a mask.
Picture = NDArray[np.uint8]
Transform = Callable[[Picture], Picture]


def check_size(width: int, height: int) -> None:
    """Before the memory is taken: the system would end the engine, not the graph that asked for too much."""
    if width * height > MOST_PIXELS:
        raise ValueError(f"an image of {width}x{height} is too large; use at most {MOST_PIXELS:,} pixels")


@dataclass(frozen=True)
class Frames:
    width: int
    height: int
    # How many there will be: exact for images, what the container promises for video (0 if it does not say).
    expected: int
    source: Callable[[], Iterator[Picture]]
    # A tuple and a loop, not nested generators: a chain of 600 nodes would reach the recursion limit.
    transforms: tuple[Transform, ...] = ()
    # Images that cost nothing to get again: what is done to them is done at once, so that a fault is reported at
    # the node that made it.
    held: bool = False

    def __post_init__(self) -> None:
        check_size(self.width, self.height)

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.expected, self.height, self.width)

    def __iter__(self) -> Iterator[Picture]:
        for picture in self.source():
            for transform in self.transforms:
                picture = transform(picture)
            yield picture

    def first(self) -> Picture:
        for picture in self:
            return picture
        raise ValueError("the batch has no images")

    def map(self, transform: Transform, width: int | None = None, height: int | None = None) -> Frames:
        """The same images, changed; `width` and `height` where the change is one of size."""
        changed = replace(
            self, width=width or self.width, height=height or self.height, transforms=(*self.transforms, transform)
        )
        return repeated(changed.first(), self.expected) if self.held else changed

    def beside(self, other: Frames) -> Iterator[tuple[Picture, Picture]]:
        """Pairs; the last image of a shorter `other` stays."""
        theirs = iter(other)
        last = next(theirs, None)
        if last is None:
            raise ValueError("the second batch has no images")
        for mine in self:
            yield mine, last
            last = next(theirs, last)

    def __repr__(self) -> str:
        return f"frames({self.expected} of {self.width}x{self.height})"


def repeated(picture: Picture, count: int = 1) -> Frames:
    """A batch of one image `count` times; the image is held once."""
    height, width = picture.shape[:2]
    return Frames(width, height, count, lambda: itertools.repeat(picture, count), held=True)
