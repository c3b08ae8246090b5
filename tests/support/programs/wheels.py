"""Callsheet as users install it: a wheel, in a fresh environment with only its base dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([UV, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def built_wheel(directory: Path) -> Path:
    """The wheel that `make package` builds."""
    built = run("make", "package", f"DIST={directory}", f"VENV={sys.prefix}", cwd=ROOT)
    assert built.returncode == 0, built.stderr
    [wheel] = directory.glob("*.whl")
    return wheel


def fresh_environment(venv: Path, *wheels: Path) -> Path:
    """The `bin` directory of an environment with the wheels and their dependencies, in the locked versions."""
    made = uv("venv", "--python", sys.executable, venv)
    assert made.returncode == 0, made.stderr
    install = ("pip", "install", "--python", venv / "bin" / "python", "--constraint", "locks/server.txt", *wheels)
    # Uses uv's cache if the tests were installed from it, otherwise the index.
    installed = uv(*install, "--offline")
    if installed.returncode != 0:
        installed = uv(*install)
    assert installed.returncode == 0, installed.stderr
    return venv / "bin"
