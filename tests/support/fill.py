"""A store with eight threads that does what it is told, a line of JSON on standard input each, and answers with one.

    python -m tests.support.fill ROOT ARCHIVE

ARCHIVE may be `default` or `none`. Told `fill`, every thread writes until it is refused because the disk is full, and the answer
is the last acknowledged value of every key; told `once`, each writes once; told `spin`, they write until the process is
killed, and say on a line of its own what begins and what is done; told `open N`, it opens so many businesses more. `read`,
`stats`, `checkpoint` and `archive` are what they are. An error is an answer too.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kvwal

THREADS = 8
KEYS = 2
SIZE = 2_000
FOREVER = 1 << 62
SETTINGS = kvwal.Settings(archive_seconds=1e9, checkpoint_seconds=1e9)


def say(what: object) -> None:
    """One line, in one write, so that a kill leaves whole lines."""
    os.write(1, (json.dumps(what) + "\n").encode())


class Filler:
    """Eight threads and their own keys, whose values count up. `known` is the last acknowledged value of each key."""

    def __init__(self, store: kvwal.Store) -> None:
        self.store = store
        self.known: dict[str, int] = {}
        self._jobs = store.map("jobs")
        self._count = 0
        self._pool = ThreadPoolExecutor(THREADS)
        self._noise = random.Random(1).randbytes(SIZE)

    def all_threads(self, most: int, tell: Callable[[object], None] = lambda what: None) -> int:
        """Every thread writes `most` times, or until the disk is full. Returns how many were refused."""
        return sum(self._pool.map(lambda name: self._write(name, most, tell), range(THREADS)))

    def _write(self, name: int, most: int, tell: Callable[[object], None]) -> bool:
        begin = self._next(name)
        for count in range(begin, begin + most):
            key = f"{name}-{count % KEYS}"
            changes = {key: count} if count % 5 else {f"{name}-all-{part}": count for part in range(3)}
            tell(["begin", changes])
            try:
                self._jobs.put_many({each: [value, self._value(value)] for each, value in changes.items()})
            except kvwal.StorageFull:
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

    def read(self) -> dict[str, int]:
        """Every value that is there, as its count, if it is whole."""
        return {key: count for key, (count, value) in self._jobs.items() if value == self._value(count)}


def obey(filler: Filler, word: str) -> Any:
    """What a command answers."""
    if word == "fill":
        return {"refused": filler.all_threads(FOREVER), "known": filler.known}
    if word == "once":
        return {"refused": filler.all_threads(1), "known": filler.known}
    if word == "spin":
        return filler.all_threads(FOREVER, say)
    if word.startswith("open "):
        for number in range(int(word.split()[1])):
            filler.store.map(f"more-{number}")["key"] = number
        return None
    if word == "read":
        return filler.read()
    if word == "stats":
        return filler.store.stats()
    return getattr(filler.store, word)()


def main() -> None:
    """Open, obey until the input ends, close."""
    root, archive = sys.argv[1:]
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
