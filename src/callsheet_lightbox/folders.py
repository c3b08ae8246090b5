"""The three directories of an engine, and the names that may point into them."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from callsheet.toolbox.private_files import make_closed

TYPES = ("input", "output", "temp")
# This is in a `temp` that is emptied at the next start.
MADE_HERE = ".lightbox"
_SUFFIXES = tuple((f"[{kind}]", kind) for kind in TYPES)


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Writes a file completely or not at all. The unfinished file is hidden, and is removed after an error."""
    # The temporary name is not derived from the name, which may have the maximum length.
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True)
class SavePlace:
    """The folder, name and number of the next file of a prefix."""

    folder: Path
    name: str
    counter: int
    subfolder: str

    def file_name(self, ending: str, position: int = 0) -> str:
        name = self.name.replace("%batch_num%", str(position))
        return f"{name}_{self.counter + position:05}_.{ending}"


@dataclass(frozen=True)
class Folders:
    input: Path
    output: Path
    temp: Path

    @property
    def models(self) -> Path:
        """The model files that `ProbeModel` lists."""
        return self.input.parent / "models"

    @classmethod
    def under(cls, root: Path) -> Folders:
        root = root.absolute()
        return cls(root / "input", root / "output", root / "temp")

    def prepare(self) -> None:
        """Creates the directories. Files of an earlier process in `temp` are deleted, as in ComfyUI."""
        # This is done only for a directory of Lightbox: a user may have named a directory with another `temp`.
        if (self.temp / MADE_HERE).exists():
            shutil.rmtree(self.temp, ignore_errors=True)
        # Files of users pass through them.
        for folder in (self.input.parent, self.input, self.output, self.temp):
            make_closed(folder)
        (self.temp / MADE_HERE).touch()

    def by_type(self, kind: str) -> Path | None:
        return {"input": self.input, "output": self.output, "temp": self.temp}.get(kind)

    def split_annotation(self, name: str) -> tuple[str, Path | None]:
        """The name and its folder: `cat.png [output]` contains its folder."""
        for suffix, kind in _SUFFIXES:
            if name.endswith(suffix):
                return name[: -len(suffix)].rstrip(), self.by_type(kind)
        return name, None

    def named_in_graph(self, name: str) -> Path:
        """A file that a graph names, inside one of the folders. ComfyUI opens files anywhere (comfyui-api.md §4), so
        that a graph could read secrets of the engine's machine. Here it raises ValueError.
        """
        plain, folder = self.split_annotation(name)
        path = Path(os.path.abspath((folder or self.input) / plain))
        if "\0" in plain or not any(path.is_relative_to(each) for each in (self.input, self.output, self.temp)):
            raise ValueError(f"{name!r} is outside of the engine's folders.")
        return path

    def has_named(self, name: object) -> bool:
        """Whether a file exists that a graph may name like this."""
        try:
            return isinstance(name, str) and self.named_in_graph(name).exists()
        except ValueError:
            return False

    def listed(self, endings: tuple[str, ...]) -> list[str]:
        """Names of the input files with these extensions, for `/object_info`."""
        with os.scandir(self.input) as entries:
            return sorted(entry.name for entry in entries if entry.is_file() and entry.name.lower().endswith(endings))

    def place_for(self, prefix: str, kind: str, width: int = 0, height: int = 0) -> SavePlace:
        root = self.by_type(kind)
        assert root is not None
        prefix = _fill(prefix, width, height)
        subfolder, name = os.path.dirname(os.path.normpath(prefix)), os.path.basename(os.path.normpath(prefix))
        folder = Path(os.path.abspath(root / subfolder))
        if not folder.is_relative_to(root):
            # ComfyUI's own text, which clients compare.
            raise ValueError(
                "**** ERROR: Saving image outside the output folder is not allowed."
                f"\n full_output_folder: {folder}\n         output_dir: {root}"
                f"\n         commonpath: {os.path.commonpath((root, folder))}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return SavePlace(folder, name, _next_counter(folder, name), subfolder)


def _fill(prefix: str, width: int, height: int) -> str:
    now = time.localtime()
    values = {
        "width": str(width),
        "height": str(height),
        "year": str(now.tm_year),
        "month": f"{now.tm_mon:02}",
        "day": f"{now.tm_mday:02}",
        "hour": f"{now.tm_hour:02}",
        "minute": f"{now.tm_min:02}",
        "second": f"{now.tm_sec:02}",
    }
    for key, value in values.items():
        prefix = prefix.replace(f"%{key}%", value)
    return prefix


def _next_counter(folder: Path, name: str) -> int:
    """One more than the highest number in use: numbers are used again after files are deleted, as in ComfyUI."""
    highest = 0
    start = f"{name}_"
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(start):
                digits = entry.name[len(start) :].split("_")[0]
                highest = max(highest, int(digits) if digits.isdecimal() else 0)
    return highest + 1
