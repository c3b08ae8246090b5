"""Signed URLs of previews. They stay the same for a day, so that a browser loads the previews of a list once.

One signature covers all previews of a file. A list of a hundred files takes a hundred signatures of 6 µs, and no query.
"""

from __future__ import annotations

import re

from callsheet.media.previews.program import CLIP, LARGE, SMALL
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import SignatureExpired, SignatureInvalid
from callsheet.wire.media import MediaPreviews, Thumbnails

PATH = "/api/previews/"
_PURPOSE = "preview-urls"
# The URLs are valid for at least one day and at most two.
DAY_SECONDS = 86_400
_EXPIRES = re.compile(r"[0-9]{1,12}")


class PreviewUrls:
    def __init__(self, secret: Master, clock: Clock | None = None):
        self._keys = SigningKeys(secret, _PURPOSE)
        self._clock = clock or SystemClock()

    def shown(
        self, folder: str, *, width: int | None, height: int | None, duration_seconds: float | None, has_clip: bool
    ) -> MediaPreviews:
        """The signed URLs of the previews in a folder."""
        expires = (int(self._clock.now().timestamp()) // DAY_SECONDS + 2) * DAY_SECONDS
        query = f"?expires={expires}&signature={self._keys.sign(folder, str(expires))}"
        small, large = f"{PATH}{folder}/{SMALL}{query}", f"{PATH}{folder}/{LARGE}{query}"
        return MediaPreviews(
            preview_status="ready",
            # A file with previews and without a size is sound.
            poster_url=large if has_clip or width is None else None,
            preview_url=f"{PATH}{folder}/{CLIP}{query}" if has_clip else None,
            thumbnails=Thumbnails(small=small, large=large),
            width=width,
            height=height,
            duration_seconds=duration_seconds,
        )

    def require(self, folder: str, expires: str, signature: str) -> None:
        """Checks the signature of a URL. Raises SignatureInvalid or SignatureExpired."""
        if not _EXPIRES.fullmatch(expires) or not self._keys.verify(signature, folder, expires):
            raise SignatureInvalid()
        if self._clock.now().timestamp() >= int(expires):
            raise SignatureExpired()
