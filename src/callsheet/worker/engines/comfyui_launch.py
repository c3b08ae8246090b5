"""Starts several ComfyUI processes from one directory without conflicts.

The processes share models, custom nodes and `input`. Each has its own `output`, because ComfyUI numbers files by those
it finds there. Each has its own `temp`, which ComfyUI empties at its start, and its own user directory and database,
which only one process at a time may open.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import make_closed
from callsheet.worker.engines.engine_process import Launch
from callsheet.worker.engines.ports import HOST

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
OWN_ENVIRONMENTS = (".venv/bin/python", "venv/bin/python")
# Arguments that the agent sets itself. If one is given twice, the first is silently ignored.
OWN_ARGUMENTS = frozenset(
    {
        "--listen",
        "--port",
        "--base-directory",
        "--input-directory",
        "--output-directory",
        "--temp-directory",
        "--user-directory",
        "--database-url",
    }
)


@dataclass(frozen=True, slots=True)
class ComfyUIDirectory:
    """A ComfyUI installation on this machine, with its Python and arguments."""

    path: Path
    python: Path
    arguments: tuple[str, ...]

    @classmethod
    def at(cls, path: Path, python: Path | None, arguments: str) -> ComfyUIDirectory:
        """Raises OperatorError if ComfyUI cannot be started from `path`."""
        path = path.absolute()
        if not (path / "main.py").is_file():
            raise OperatorError(
                f"{path} has no main.py in it. Set --comfyui or CALLSHEET_ENGINE__COMFYUI to ComfyUI's own directory."
            )
        found = next((path / each for each in OWN_ENVIRONMENTS if (path / each).is_file()), Path(sys.executable))
        if python is not None and not python.is_file():
            raise OperatorError(
                f"There is no Python at {python}. Set CALLSHEET_ENGINE__PYTHON to the Python of ComfyUI."
            )
        return cls(path, (python or found).absolute(), _split(arguments))

    def launch(self, folder: Path, port: int, gpu: str | None, environment: Mapping[str, str]) -> Launch:
        """Creates the engine's own folders in `folder`."""
        folder = folder.absolute()
        try:
            (self.path / "input").mkdir(exist_ok=True)
            # The worker's own directory may not exist yet. All are private: users' results pass through these folders.
            for made in (folder.parent.parent, folder.parent, folder, folder / "output", folder / "user"):
                make_closed(made)
            _link(folder / "input", self.path / "input")
        except OSError as error:
            raise OperatorError(f"The folders of an engine cannot be created: {error}.") from None
        own = {
            "--listen": HOST,
            "--port": str(port),
            "--input-directory": str(folder / "input"),
            "--output-directory": str(folder / "output"),
            # ComfyUI appends `temp` itself.
            "--temp-directory": str(folder),
            "--user-directory": str(folder / "user"),
            "--database-url": f"sqlite:///{folder / 'user' / 'comfyui.db'}",
        }
        pinned = {} if gpu is None else dict.fromkeys(GPU_VARIABLES, gpu)
        command = (str(self.python), str(self.path / "main.py"), *(part for pair in own.items() for part in pair))
        return Launch(
            command=(*command, "--disable-auto-launch", *self.arguments),
            # Without this, the last output of a crashed process is lost in its buffer.
            environment={**environment, **pinned, "PYTHONUNBUFFERED": "1"},
            directory=self.path,
            folder=folder,
            port=port,
        )


def gpus_of(given: Sequence[str], visible: str | None) -> tuple[str, ...]:
    """GPUs to distribute the engines over. If empty, engines use the GPUs they find."""
    if given:
        return tuple(given)
    if visible is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip())
    found = sorted(NVIDIA_GPUS.iterdir()) if NVIDIA_GPUS.is_dir() else []
    return tuple(str(number) for number in range(len(found)))


def gpu_of(number: int, gpus: Sequence[str]) -> str | None:
    """The GPU of the engine with this number (from 0), assigned round-robin."""
    return gpus[number % len(gpus)] if gpus else None


def _split(arguments: str) -> tuple[str, ...]:
    try:
        found = tuple(shlex.split(arguments))
    except ValueError as error:
        raise OperatorError(f"engine.arguments cannot be read: {error}.") from None
    taken = sorted(OWN_ARGUMENTS.intersection(each.partition("=")[0] for each in found))
    if taken:
        raise OperatorError(f"engine.arguments has {', '.join(taken)}, which the worker sets itself. Leave it out.")
    return found


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    if link.is_symlink():
        link.unlink()
    link.symlink_to(target, target_is_directory=True)
