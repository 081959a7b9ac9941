"""A program that ends in one of the ways in which programs end, and says on its standard output what was acknowledged before.

    python -m tests.support.programs.endings HOW ROOT [ARCHIVE]

A line is `open`, `KEY` once its write was acknowledged, or what a way of ending says.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import kvwal
from kvwal.structures.map.map import Map

THREADS = 4
WRITES = 20
INTERRUPTS = 300


def say(what: object) -> None:
    """One line in one write."""
    os.write(1, f"{what}\n".encode())


def opened() -> kvwal.Store:
    """The store, with segments so small that maintenance always has something to do."""
    settings = kvwal.Settings(segment_bytes=64 << 10, archive_seconds=0.2, checkpoint_seconds=0.2)
    archive = sys.argv[3] if len(sys.argv) > 3 else None
    return kvwal.open(sys.argv[2], archive=archive, settings=settings)


def write(jobs: Map, name: object, most: int | None = None) -> None:
    """Write `most` times, or for ever."""
    number = 0
    while most is None or number < most:
        key = f"{name}-{number}"
        jobs.put_many({key: "x" * 200, f"{key}-too": number})
        say(key)
        number += 1


def begin(jobs: Map, *, daemon: bool) -> list[threading.Thread]:
    """Threads that write for ever, or, if the interpreter has to wait for them, a while."""
    most = None if daemon else 10 * WRITES

    def until_closed(name: int) -> None:
        with suppress(kvwal.StoreClosed):
            write(jobs, name, most)

    threads = [threading.Thread(target=until_closed, args=(name,), daemon=daemon) for name in range(THREADS)]
    for thread in threads:
        thread.start()
    return threads


def script_end() -> None:
    """The script ends, and the store is a global variable that nobody closed."""
    global store
    store = opened()
    write(store.map("jobs"), "main", WRITES)


def script_end_with_daemons() -> None:
    """Daemon threads write while the interpreter goes down."""
    jobs = opened().map("jobs")
    begin(jobs, daemon=True)
    write(jobs, "main", WRITES)


def script_end_before_threads() -> None:
    """The main thread ends first; the others write on, to a business that is opened then too, and the last one closes."""
    store = opened()
    jobs = store.map("jobs")
    threads = begin(jobs, daemon=False)
    main = threading.current_thread()

    def last() -> None:
        main.join()
        write(store.map("late"), "late", WRITES)
        for thread in threads:
            thread.join()
        store.checkpoint()
        store.close()
        say("closed")

    threading.Thread(target=last).start()


def exit_in_a_thread() -> None:
    """`sys.exit` in a thread ends that thread only."""
    jobs = opened().map("jobs")

    def leave() -> NoReturn:
        write(jobs, "leaving", WRITES)
        sys.exit(9)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    write(jobs, "main", WRITES)


def exit_at_once() -> None:
    """`os._exit` while threads write."""
    jobs = opened().map("jobs")
    begin(jobs, daemon=True)
    write(jobs, "main", WRITES)
    os._exit(9)


def exception() -> None:
    """An exception that nobody catches, out of a `with` block, while threads write."""
    with opened() as store:
        jobs = store.map("jobs")
        begin(jobs, daemon=True)
        write(jobs, "main", WRITES)
        raise ZeroDivisionError


def closed_at_exit() -> None:
    """The store is closed by a function that `atexit` calls, while daemon threads write."""
    store = opened()
    atexit.register(lambda: (store.close(), say("closed")))
    jobs = store.map("jobs")
    begin(jobs, daemon=True)
    write(jobs, "main", WRITES)


def endless() -> None:
    """Writes until a signal ends it; nothing handles one."""
    with opened() as store:
        jobs = store.map("jobs")
        write(jobs, "first", 1)
        store.checkpoint()  # starts the archiver's process
        say("open")
        begin(jobs, daemon=True)
        write(jobs, "main")


def served() -> None:
    """Writes until SIGTERM, whose handler raises `SystemExit`: the `with` block closes the store."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        endless()
    finally:
        say("closed")


def hammered() -> None:
    """Ctrl-C again and again, at any moment of a put and only then; then the store is used on and closed."""
    putting = False

    def interrupt_a_put(*_: object) -> None:
        nonlocal putting
        if putting:
            putting = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt_a_put)
    with opened() as store:
        jobs = store.map("jobs")
        ended = threading.Event()

        def interrupt() -> None:
            for number in range(INTERRUPTS):
                jobs.put("interrupting", number)
                os.kill(os.getpid(), signal.SIGINT)
            ended.set()

        thread = threading.Thread(target=interrupt)
        thread.start()
        number = interrupted = 0
        while not ended.is_set():
            number += 1
            try:
                putting = True
                jobs.put_many({f"{number}": "x", f"{number}-too": 1})
                say(number)
                putting = False
            except KeyboardInterrupt:
                interrupted += 1
        thread.join()
        write(jobs, "main", WRITES)
        say("interrupted" if interrupted else "never interrupted")


async def _tasks(jobs: kvwal.aio.Map) -> None:
    async def one(name: int) -> None:
        number = 0
        while True:
            key = f"{name}-{number}"
            await jobs.put_many({key: "x" * 200, f"{key}-too": number})
            say(key)
            number += 1

    await asyncio.gather(*(one(name) for name in range(THREADS)))


def loop() -> None:
    """`asyncio.run`, which a Ctrl-C cancels."""

    async def main() -> None:
        async with kvwal.aio.open(sys.argv[2], archive=None) as store:
            jobs = store.map("jobs")
            await jobs.count()
            say("open")
            try:
                await _tasks(jobs)
            finally:
                say("closing")
        say("closed")

    asyncio.run(main())


def loop_ends_first() -> None:
    """`asyncio.run` returns while other tasks have the store open."""

    async def other() -> None:
        async with kvwal.aio.open(sys.argv[2], archive=None) as store:
            jobs = store.map("jobs")
            await jobs.put("0-first", 1)
            say("0-first")
            written.set()
            await _tasks(jobs)

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(other())
        await written.wait()

    written = asyncio.Event()
    task: asyncio.Task[None] | None = None
    asyncio.run(main())
    with kvwal.open(sys.argv[2], archive=None) as again:
        say("closed" if "0-first" in again.map("jobs") else "lost")


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        script_end, script_end_with_daemons, script_end_before_threads, exit_in_a_thread, exit_at_once, exception,
        closed_at_exit, endless, served, hammered, loop, loop_ends_first,
    )
}  # fmt: skip

if __name__ == "__main__":
    # What a shell starts in the background ignores these: so does a test run there, and all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    WAYS[sys.argv[1]]()
