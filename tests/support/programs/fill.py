"""A store with eight threads that does what it is told, a line of JSON on standard input each, and answers with one.

    python -m tests.support.programs.fill ROOT ARCHIVE

ARCHIVE may be `default` or `none`. Told `fill`, every thread writes until it is refused, and the answer says why, and what the
last acknowledged value of every key is; told `once`, each writes once; told `spin`, they write until the process is killed, and
say on a line of its own what begins and what is done. Told `open N`, it opens so many businesses more; told `crowd`, it takes
every file descriptor there is, until told `leave`. `read`, `stats`, `checkpoint` and `archive` are what they are. An error is
an answer too.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import kvwal

THREADS = 8
KEYS = 2
SIZE = 2_000
FOREVER = 1 << 62
ANSWERS = os.dup(1)
"""Standard output, apart from what kvwal logs there."""
SETTINGS = kvwal.Settings(archive_seconds=1e9, checkpoint_seconds=1e9)


def say(what: object) -> None:
    """One line, in one write, so that a kill leaves whole lines."""
    os.write(ANSWERS, (json.dumps(what) + "\n").encode())


class Filler:
    """Eight threads and their own keys, whose values count up.

    `known` is the last acknowledged value of each key, `unknown` the one that may stand there instead; `errors` says why the
    last writes were refused.
    """

    def __init__(self, store: kvwal.Store) -> None:
        self.store = store
        self.known: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.errors: set[tuple[str, str]] = set()
        self._jobs = store.map("jobs")
        self._taken: list[int] = []
        self._pool = ThreadPoolExecutor(THREADS)
        self._noise = random.Random(1).randbytes(SIZE)

    def all_threads(self, most: int, tell: Callable[[object], None] = lambda what: None) -> int:
        """Every thread writes `most` times, or until it is refused. Returns how many were."""
        self.errors.clear()
        return sum(self._pool.map(lambda name: self._write(name, most, tell), range(THREADS)))

    def _write(self, name: int, most: int, tell: Callable[[object], None]) -> bool:
        begin = self._next(name)
        for count in range(begin, begin + most):
            key = f"{name}-{count % KEYS}"
            changes = {key: count} if count % 5 else {f"{name}-all-{part}": count for part in range(3)}
            tell(["begin", changes])
            try:
                self._jobs.put_many({each: [value, self._value(value)] for each, value in changes.items()})
            except kvwal.KvwalError as error:
                self.errors.add((type(error).__name__, str(error)))
                if isinstance(error, kvwal.CommitUnknown):
                    self.unknown |= changes
                return True
            self.known |= changes
            tell(["done", changes])
        return False

    def _next(self, name: int) -> int:
        mine = (count for key, count in self.known.items() if key.startswith(f"{name}-"))
        return max(mine, default=0) + 1

    def _value(self, count: int) -> str:
        """Bytes that do not compress, so that the archive grows too."""
        at = count % SIZE
        return (self._noise[at:] + self._noise[:at]).hex()

    def told(self, refused: int) -> dict[str, Any]:
        """What the threads know after a command."""
        return {"refused": refused, "known": self.known, "unknown": self.unknown, "errors": sorted(self.errors)}

    def crowd(self) -> None:
        """Take every file descriptor that this process may have."""
        with suppress(OSError):
            while True:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))

    def leave(self) -> None:
        """Give them back."""
        while self._taken:
            os.close(self._taken.pop())

    def read(self) -> dict[str, int]:
        """Every value that is there, as its count, if it is whole."""
        return {key: count for key, (count, value) in self._jobs.items() if value == self._value(count)}


def obey(filler: Filler, word: str) -> Any:
    """What a command answers."""
    if word == "fill":
        return filler.told(filler.all_threads(FOREVER))
    if word == "once":
        return filler.told(filler.all_threads(1))
    if word == "spin":
        return filler.all_threads(FOREVER, say)
    if word.startswith("open "):
        for number in range(int(word.split()[1])):
            filler.store.map(f"more-{number}")["key"] = number
        return None
    if word in ("read", "crowd", "leave"):
        return getattr(filler, word)()
    if word == "stats":
        return filler.store.stats()
    return getattr(filler.store, word)()


def main() -> None:
    """Open, obey until the input ends, close."""
    root, archive = sys.argv[1:]
    os.dup2(2, 1)
    given: dict[str, Any] = {} if archive == "default" else {"archive": None if archive == "none" else archive}
    with kvwal.open(root, settings=SETTINGS, **given) as store:
        filler = Filler(store)
        filler.known = filler.read()
        say(filler.known)
        for line in sys.stdin:
            try:
                say(obey(filler, line.strip()))
            except kvwal.KvwalError as error:
                say({"error": type(error).__name__, "text": str(error)})


if __name__ == "__main__":
    main()
