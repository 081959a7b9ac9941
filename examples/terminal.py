"""What the demonstrations print: headings, and commands of kvwal as typed in a shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

KVWAL = (sys.executable, "-c", "from kvwal.cli.main import main; main()")

_MARK = "made-by-a-demonstration"

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


def empty_folder(default: str) -> Path:
    """The folder of a demonstration: the first argument or `default`, without what a demonstration left there before.

    Nothing else is deleted: a folder with other files is refused, with exit code 2.
    """
    home = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    mark = home / _MARK
    if home.exists() and not mark.exists() and (not home.is_dir() or any(home.iterdir())):
        console.print(f"{home} is not empty, and no demonstration made it. Name a new folder.", style="bold red")
        sys.exit(2)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    mark.write_text("A demonstration of kvwal made this folder, and its next run deletes it.\n")
    return home
