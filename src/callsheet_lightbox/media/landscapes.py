"""Draws a landscape from a text and a number; the same two always give the same image."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from callsheet_lightbox.media.frames import Frame

Colour = tuple[int, int, int]
Plane = NDArray[np.float32]


@dataclass(frozen=True)
class Palette:
    zenith: Colour
    horizon: Colour
    sun: Colour
    far: Colour
    near: Colour
    stars: bool = False


# The first known word of the text decides; otherwise the choice is random.
PALETTES: dict[str, Palette] = {
    "sunset": Palette((44, 24, 80), (250, 140, 80), (255, 226, 160), (140, 70, 110), (30, 14, 40)),
    "dawn": Palette((96, 132, 190), (250, 206, 180), (255, 244, 214), (150, 150, 180), (48, 58, 84)),
    "night": Palette((6, 8, 28), (36, 44, 92), (236, 240, 255), (28, 34, 70), (4, 6, 16), stars=True),
    "ocean": Palette((30, 100, 170), (176, 222, 236), (255, 252, 230), (40, 130, 160), (6, 44, 78)),
    "forest": Palette((120, 170, 190), (226, 236, 206), (255, 250, 214), (92, 140, 104), (14, 44, 28)),
    "desert": Palette((90, 150, 200), (250, 222, 170), (255, 246, 214), (214, 160, 104), (120, 66, 36)),
    "winter": Palette((120, 150, 190), (232, 238, 246), (255, 255, 250), (176, 194, 216), (72, 92, 124)),
    "neon": Palette((16, 4, 40), (230, 40, 150), (120, 250, 255), (70, 20, 120), (8, 2, 22), stars=True),
}
SYNONYMS = {
    "evening": "sunset", "dusk": "sunset", "fire": "sunset", "red": "sunset", "morning": "dawn", "sunrise": "dawn",
    "pink": "dawn", "moon": "night", "stars": "night", "space": "night", "dark": "night", "sea": "ocean",
    "water": "ocean", "blue": "ocean", "lake": "ocean", "tree": "forest", "trees": "forest", "green": "forest",
    "jungle": "forest", "sand": "desert", "dune": "desert", "dunes": "desert", "yellow": "desert", "snow": "winter",
    "ice": "winter", "white": "winter", "mountain": "winter", "cyberpunk": "neon", "city": "neon", "purple": "neon",
}  # fmt: skip
LAYERS = 5


@dataclass(frozen=True)
class Landscape:
    palette: Palette
    seed: int

    @classmethod
    def imagined(cls, text: str, seed: int) -> Landscape:
        words = re.findall(r"\w+", text.lower())
        known = [SYNONYMS.get(word, word) for word in words]
        digest = hashlib.sha256(f"{seed}\0{' '.join(words)}".encode()).digest()
        names = list(PALETTES)
        chosen = next((name for name in known if name in PALETTES), names[digest[0] % len(names)])
        return cls(PALETTES[chosen], int.from_bytes(digest[1:9], "big"))

    def paint(self, width: int, height: int) -> Frame:
        chance = np.random.default_rng(self.seed)
        image = self._sky(width, height, chance)
        for layer in range(LAYERS):
            self._ridge(image, layer / (LAYERS - 1), chance)
        return np.clip(image, 0, 255).astype(np.uint8)

    def _sky(self, width: int, height: int, chance: np.random.Generator) -> Plane:
        down = (np.linspace(0, 1, height, dtype=np.float32) ** 0.8)[:, None, None]
        zenith, horizon = (np.array(each, np.float32) for each in (self.palette.zenith, self.palette.horizon))
        image = np.broadcast_to(zenith * (1 - down) + horizon * down, (height, width, 3)).copy()
        if self.palette.stars:
            count = max(8, width * height // 2500)
            rows, columns = chance.integers(0, max(1, height * 2 // 3), count), chance.integers(0, width, count)
            image[rows, columns] += chance.uniform(40, 190, (count, 1)).astype(np.float32)
        self._sun(image, chance)
        return image

    def _sun(self, image: Plane, chance: np.random.Generator) -> None:
        height, width = image.shape[:2]
        x, y = chance.uniform(0.2, 0.8) * width, chance.uniform(0.18, 0.5) * height
        size = chance.uniform(0.05, 0.11) * min(width, height)
        rows, columns = np.ogrid[:height, :width]
        away = np.sqrt((rows - y) ** 2 + (columns - x) ** 2).astype(np.float32)
        disc = np.clip(size - away + 0.5, 0, 1)[..., None]
        glow = (0.55 * np.exp(-((away / (size * 3.5)) ** 2)))[..., None]
        light = np.array(self.palette.sun, np.float32)
        image += (light - image) * np.maximum(disc, glow)

    def _ridge(self, image: Plane, nearness: float, chance: np.random.Generator) -> None:
        height, width = image.shape[:2]
        # In shares of the width, so that the same text gives the same hills at every size.
        across = np.linspace(0, 1, width, dtype=np.float32)
        line = np.zeros(width, np.float32)
        for octave in range(6):
            waves, phase = chance.uniform(1.5, 3.0) * 2**octave, chance.uniform(0, 2 * np.pi)
            line += np.sin(across * waves * 2 * np.pi + phase).astype(np.float32) / 1.9**octave
        top = height * (0.52 + 0.36 * nearness) + line * height * (0.075 - 0.035 * nearness)
        inside = np.clip(np.arange(height, dtype=np.float32)[:, None] - top[None, :], 0, 1)[..., None]
        far, near = (np.array(each, np.float32) for each in (self.palette.far, self.palette.near))
        colour = far * (1 - nearness) + near * nearness
        # There is haze in distant valleys.
        haze = np.array(self.palette.horizon, np.float32) * 0.35 * (1 - nearness) + colour * (0.65 + 0.35 * nearness)
        below = np.clip((np.arange(height, dtype=np.float32)[:, None] - top[None, :]) / (height * 0.25), 0, 1)[
            ..., None
        ]
        image += (colour * (1 - below) + haze * below - image) * inside
