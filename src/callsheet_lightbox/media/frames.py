"""Images between nodes: a batch is a pipeline that is evaluated while it is saved.

ComfyUI holds a batch in memory as one tensor: ten minutes of 1080p take 112 GB as bytes. Here a batch makes its images
one after the other, so that only the current one is in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# Enough for every camera, and for three frames of 8K; 360 MB as bytes, of which a node may need several.
MAX_PIXELS = 120_000_000
# Rows, columns and three channels of an image; only rows and columns of a mask.
Frame = NDArray[np.uint8]
Transform = Callable[[Frame], Frame]


def check_size(width: int, height: int) -> None:
    """Checks the size before the memory is allocated: otherwise the system would end the engine, not the graph that
    needs too much.
    """
    if width * height > MAX_PIXELS:
        raise ValueError(f"an image of {width}x{height} is too large; use at most {MAX_PIXELS:,} pixels")


@dataclass(frozen=True)
class Frames:
    width: int
    height: int
    # The expected number: exact for images; for video, the number of the container (0 if it has none).
    expected: int
    source: Callable[[], Iterator[Frame]]
    # This is a tuple and a loop, not nested generators: a chain of 600 nodes would reach the recursion limit.
    transforms: tuple[Transform, ...] = ()
    # Images that are cheap to get again: changes are applied at once, so that an error is reported at the node that
    # caused it.
    held: bool = False

    def __post_init__(self) -> None:
        check_size(self.width, self.height)

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.expected, self.height, self.width)

    def __iter__(self) -> Iterator[Frame]:
        for image in self.source():
            for transform in self.transforms:
                image = transform(image)
            yield image

    def first(self) -> Frame:
        for image in self:
            return image
        raise ValueError("the batch has no images")

    def map(self, transform: Transform, width: int | None = None, height: int | None = None) -> Frames:
        """The same images, changed; `width` and `height` if the change changes the size."""
        changed = replace(
            self, width=width or self.width, height=height or self.height, transforms=(*self.transforms, transform)
        )
        return repeated(changed.first(), self.expected) if self.held else changed

    def beside(self, other: Frames) -> Iterator[tuple[Frame, Frame]]:
        """Pairs of images; the last image of a shorter `other` is repeated."""
        theirs = iter(other)
        last = next(theirs, None)
        if last is None:
            raise ValueError("the second batch has no images")
        for mine in self:
            yield mine, last
            last = next(theirs, last)

    def __repr__(self) -> str:
        return f"frames({self.expected} of {self.width}x{self.height})"


def repeated(image: Frame, count: int = 1) -> Frames:
    """A batch of one image `count` times; the image is in memory once."""
    height, width = image.shape[:2]
    return Frames(width, height, count, lambda: itertools.repeat(image, count), held=True)
