"""A process that writes until it is killed, and says on its standard output what was acknowledged.

    python -m tests.support.programs.load ROOT ARCHIVE SEED

Threads put, delete and commit transactions. Before each write a line `> n`, after it `< n` with what it did: a reader of the
lines knows what must be there, and what may.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading

import kvwal

THREADS = 4
KEYS = 40
TOGETHER = 5


def say(*what: object) -> None:
    """One line, in one write, so that a kill leaves whole lines."""
    os.write(1, (json.dumps(what) + "\n").encode())


def write(store: kvwal.Store, name: int, seed: int) -> None:
    """One thread: its own keys, values that count up."""
    chance = random.Random(f"{seed}-{name}")
    jobs = store.map("jobs")
    count = 0
    while True:
        count += 1
        key = f"{name}-{chance.randrange(KEYS)}"
        kind = chance.choices(["put", "delete", "all"], [6, 2, 2])[0]
        say("begin", name, count, kind, key)
        if kind == "put":
            timestamp = jobs.put(key, count)
        elif kind == "delete":
            timestamp = jobs.delete(key)
        else:
            timestamp = jobs.put_many({f"{name}-all-{part}": count for part in range(TOGETHER)})
        say("done", name, count, kind, key, timestamp)


def main() -> None:
    """Open, then write for ever; the archive and checkpoints run as often as they can."""
    root, archive, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    settings = kvwal.Settings(segment_bytes=64 << 10, archive_seconds=0.3, checkpoint_seconds=0.5)
    with kvwal.open(root, archive=archive if archive != "none" else None, settings=settings) as store:
        threads = [threading.Thread(target=write, args=(store, name, seed), daemon=True) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
