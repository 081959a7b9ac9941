"""What the demonstrations print: headings, and commands of kvwal as typed in a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

KVWAL = (sys.executable, "-c", "from kvwal.cli.main import main; main()")

console = Console(highlight=False, soft_wrap=True)


def step(number: int, title: str, text: str) -> None:
    """Print the heading of a step, and a sentence on it."""
    console.print()
    console.print(Rule(f"[bold]{number}  {title}", align="left"))
    console.print(text + "\n")


def typed(*arguments: str | Path) -> None:
    """Print a command of kvwal as typed in a shell."""
    console.print(f"[dim]$ kvwal {shlex.join(map(str, arguments))}[/]")


def shell(*arguments: str | Path) -> None:
    """Print a command of kvwal as typed in a shell, and run it."""
    typed(*arguments)
    columns = {"COLUMNS": str(console.width)} if console.is_terminal else {}
    subprocess.run([*KVWAL, *map(str, arguments)], check=True, env={**os.environ, **columns})
