"""A shell and a Python in which the blocks of a page are typed, one after the other, and what they print.

What a page shows is compared with what was printed. Times, ids of applications, durations, sizes and percentages may be any, `…`
stands for anything on its line, and a line that is only `…` for any lines. An id that a page types is that of the application
which it stands for: the first one that was printed, the second one, and so on. Where a page shows nothing, nothing is compared.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ANY = (
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z(\+\d+)?", "TIME"),
    (r"\b\d[\d,.]* (ms|min \d+ s|min|s)(?=\s|\)|,|$)", "DURATION"),
    (r"\b\d[\d,.]* ([KMG]i)?B\b", "SIZE"),
    (r"\b\d+ %", "SHARE"),
)
_APPLICATION = re.compile(r"\blocal-\d{13}\b")
_PYTHON = """
import json, sys
names = {"__name__": "page"}
for line in sys.stdin:
    exec(compile(json.loads(line), "the page", "exec"), names)
    print("\\0", flush=True)
"""


class Typed(NamedTuple):
    """A line for the shell, or a block for Python, and what the page shows after it."""

    language: str
    text: str
    shown: str


def typed(page: str) -> Iterator[Typed]:
    """What a page types, in its order. Of Python, the comments after `print` are what the page shows."""
    for language, block in _BLOCK.findall(page):
        if language == "python":
            told = [line.rpartition("# ")[2] for line in block.splitlines() if re.match(r"\s*print\(.*# ", line)]
            yield Typed(language, block, "\n".join(told))
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            text, _, shown = part.partition("\n")
            while text.count('"') % 2:
                more, _, shown = shown.partition("\n")
                text += f"\n{more}"
            yield Typed(language, text, shown.strip("\n"))


class Terminal:
    """A shell in a folder, and a Python that the shell starts when the page first types Python. `close` ends both."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=dict(environment), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._python: subprocess.Popen[str] | None = None
        self._output = folder.with_name(f"{folder.name}-output")
        self._shown: list[str] = []
        self._printed: list[str] = []

    def type(self, one: Typed) -> str:
        """Type it, and compare what it prints with what the page shows. Returns what was printed."""
        printed = self._type_python(one.text) if one.language == "python" else self._type_shell(one.text)
        if one.shown:
            expected, found = plain(one.shown, self._shown), plain(printed, self._printed)
            assert re.fullmatch(pattern(expected), found), f"{one.text}\n{printed}\n--- the page shows\n{one.shown}"
        return printed

    def run(self, line: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a line of the shell."""
        out, err = (self._output.with_suffix(f".{name}") for name in ("out", "err"))
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {line}\n}} </dev/null >{out} 2>{err}\necho $?\n")
        self._shell.stdin.flush()
        return int(self._shell.stdout.readline()), out.read_text(), err.read_text()

    def _type_shell(self, line: str) -> str:
        line = _APPLICATION.sub(lambda found: self._printed[self._shown.index(found[0])], line)
        code, out, err = self.run(line)
        assert code == 0, f"{line}: {code}\n{out[-4_000:]}\n{err[-4_000:]}"
        # Spark and Java write there, too, as their versions and the machine have it.
        notes = [text for text in err.splitlines() if text.startswith("kvwal: ")]
        return "\n".join([*out.splitlines(), *notes])

    def _type_python(self, block: str) -> str:
        if self._python is None:
            _, variables, _ = self.run("env -0")
            environment = dict(variable.split("=", 1) for variable in variables.rstrip("\0").split("\0"))
            self._python = subprocess.Popen(
                [str(self._folder / ".venv" / "bin" / "python"), "-c", _PYTHON], cwd=self._folder, env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps(block) + "\n")
        self._python.stdin.flush()
        lines = []
        for line in self._python.stdout:
            if line == "\0\n":
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"Python ended with {self._python.wait()}, as standard error says:\n{block}")

    def close(self) -> None:
        """End both."""
        for process in (self._python, self._shell):
            if process is not None:
                process.communicate()


def plain(text: str, applications: list[str]) -> str:
    """The text with one space between columns, and a word for what may differ. `applications` are the ids that were seen."""

    def number(found: re.Match[str]) -> str:
        if found[0] not in applications:
            applications.append(found[0])
        return f"APPLICATION-{applications.index(found[0])}"

    text = _APPLICATION.sub(number, text)
    for expression, word in _ANY:
        text = re.sub(expression, word, text)
    lines = [re.sub(r"[ ─]+", " ", line).strip() for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def pattern(expected: str) -> str:
    """A regular expression for what may be printed where a page shows `expected`; both as `plain` gives them."""
    lines = [
        r"(.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + r"\n" for line in expected.splitlines()
    ]
    return "".join(lines)
