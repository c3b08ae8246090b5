"""The last output of `callsheet demo`: the result, how to log in, and commands that work as printed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.cli.shared.console import err
from callsheet.cli.shared.display import Stage
from callsheet.cli.shared.login import Login
from callsheet.cli.shared.profile_store import DEMO, is_logged_in
from callsheet.wire.jobs import Job
from callsheet.wire.plurals import counted
from callsheet_demo.account import DEMO_EMAIL
from callsheet_demo.pipeline import PIPELINE


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The demo's own job and its result."""

    job: Job
    file: Path
    stages: Mapping[Stage, float]
    verified: dict[str, Any]
    balance: int


def introduce(
    login: Login, link: str, password: str | None, effects: Sequence[str], seconds: float, shown: DemoResult
) -> None:
    """Prints the introduction. `link` signs in once. `password` is None if a person has set another one, which the
    demo does not know.
    """
    verified, sample = shown.verified, shown.file.with_name("sample.mp4")
    if verified["problems"]:
        err.print(f"\n[bold red]The result is wrong:[/] {'; '.join(verified['problems'])}.\n", markup=True)
    else:
        err.print(
            f"\nChecked the result: {counted(verified['frames'], 'frame')}, {verified['seconds']:.1f} s, sound kept, "
            f"colors inverted (largest error {verified['pixel_error']} of 255)."
        )
    err.print(f"It cost {counted(shown.job.cost, 'token')}; the wallet has {shown.balance} left.")
    err.print(f"\n[bold green]Callsheet is running[/] after {seconds} s.\n", markup=True)
    err.print(f"  Open      {link}")
    err.print(f"  API       {login.url}/docs")
    err.print(f"  Login     {DEMO_EMAIL}  /  {password or 'the password that you set'}")
    err.print(f"  API key   {login.api_key}")
    err.print(f"  Before    {_typed(sample)}")
    err.print(f"  After     {_typed(shown.file)}")
    err.print(f"  Effects   {', '.join(effects)}")
    err.print(f"  Pipeline  {login.url}/pipelines/{PIPELINE.slug}\n")
    err.print("  Try it in another terminal, in this directory:", style="dim")
    err.print(f"    curl -H 'Authorization: Bearer {login.api_key}' {login.url}/api/wallet")
    err.print(f"    {demo_command()} submit caption {_typed(sample)} --set prompt='Hello there' --watch")
    err.print(f"    {imagine_command(sample.parent)}\n")
    err.print("  Next: docs/how-to/try-it-with-curl.md, docs/how-to/connect-comfyui.md\n", style="dim")
    err.print("Ctrl-C stops it. The data stays for the next start.", style="dim")


def _typed(path: Path) -> str:
    """The shortest form of the command that works in this directory."""
    relative = os.path.relpath(path)
    return shlex.quote(str(path) if relative.startswith("..") else relative)


def imagine_command(folder: Path) -> str:
    """The result goes to the folder of the demo, and not into the clone."""
    return f"{demo_command()} submit imagine --set prompt='mountains at dawn' --watch --output {_typed(folder)}"


def demo_command() -> str:
    """`make demo` installs into .venv, which need not be on the PATH."""
    local = Path(".venv/bin/callsheet")
    command = str(local) if local.exists() else "callsheet"
    # Without this, a user who is logged in elsewhere would send the job there.
    return f"{command} --profile {DEMO}" if is_logged_in() else command
