"""A program that a test kills: numbers go into a queue in their order, and from there into another one, with a count of them.

    python -m tests.support.programs.worklist ROOT SEED [DELIVERIES]

A line on standard output says what is acknowledged: how many numbers were put, and how many were moved. With DELIVERIES, numbers
that were given back so often are dead letters: they are moved no more.
"""

from __future__ import annotations

import random
import sys
import threading

import kvwal
from kvwal.structures.facade import Structures

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, checkpoint_seconds=0.05)
FIELD = "x" * 200
"""Makes a number large enough to fill segments."""


class Worklist:
    """The two threads of the program: one puts, one moves. Each says what is acknowledged before it begins anew."""

    def __init__(self, work: Structures, seed: int) -> None:
        self._work = work
        self._chance = random.Random(seed)
        self._telling = threading.Lock()
        self.put = sum(len(work.queue(name)) for name in ("todo", "done", "dead"))
        self.moved = len(work.queue("done"))

    def puts(self) -> None:
        todo = self._work.queue("todo")
        while True:
            many = self._chance.randrange(1, 20)
            todo.put_many([[number, FIELD] for number in range(self.put, self.put + many)])
            self.put += many
            self._tell()

    def moves(self) -> None:
        todo = self._work.queue("todo")
        while True:
            most = self._chance.randrange(1, 12)
            with self._work.transaction() as t:
                taken = [t.queue("todo").take(), *t.queue("todo").take_many(most)]
                t.queue("done").put_many(taken)
                t.map("state")["moved"] = self.moved + len(taken)
            self.moved += len(taken)
            if self._chance.random() < 0.3:
                for _ in range(self._chance.randrange(1, 3)):
                    self._fails(todo)
            self._tell()

    def _fails(self, todo: kvwal.Queue) -> None:
        try:
            with todo.transaction() as t:
                t.take_many(5)
                raise LookupError
        except LookupError:
            pass

    def _tell(self) -> None:
        with self._telling:
            print(self.put, self.moved, flush=True)


if __name__ == "__main__":
    with kvwal.open(sys.argv[1], settings=SETTINGS) as store:
        if deliveries := [int(typed) for typed in sys.argv[3:]]:
            todo = store.business("work").queue("todo")
            todo.set_options(capacity=2_000, max_deliveries=deliveries[0], dead_letters="dead")
        worklist = Worklist(store.business("work"), int(sys.argv[2]))
        threading.Thread(target=worklist.puts, daemon=True).start()
        worklist.moves()
