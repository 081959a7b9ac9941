"""Commands that look after a store: checkpoint, stats, bench."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.options import AcceptClock, Archive, Cluster, Json, Namespace, Node, Root, Where, check_time

BENCH = ".bench-"
"""How the name of a folder begins in which `bench` measures."""


def checkpoint(
    root: Root,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Write a snapshot of every business, so that opening reads less log."""
    with Where(root, namespace, cluster, node, archive).open_all(accept_clock=accept_clock) as (store, count):
        store.checkpoint()
        found = store.stats()
    if json:
        show.json_line(found)
    else:
        show.say(f"{root}: {'1 business has' if count == 1 else f'{count:,} businesses have'} a snapshot.")


def stats(
    root: Root,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print what each log holds, how far its snapshot has come, and the room on the disk."""
    where = Where(root, namespace, cluster, node, archive)
    where.logs()
    with where.open(read_only=True) as store:
        found = store.stats()
    if json:
        show.json_line(found)
    else:
        show.table(["", ""], flattened(found))


def flattened(found: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Nested figures as lines, each named by its path."""
    lines: list[tuple[str, Any]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines += flattened(value, f"{above}{name}.")
        else:
            lines.append((f"{above}{name}", value))
    return lines


def bench(
    root: Annotated[
        Path,
        typer.Argument(
            metavar="ROOT", help="A folder on the disk that is meant; it is left as it was.", show_default=False
        ),
    ],
    seconds: Annotated[float, typer.Option(help="How long each measurement takes.", callback=check_time)] = 2.0,
    json: Json = False,
) -> None:
    """Measure durable puts on this disk, beside a bare loop of write and fdatasync."""
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=BENCH, dir=root))
    try:
        bare = bare_rate(scratch / "bare", seconds)
        with kvwal.open(scratch, archive=None) as store:
            one = put_rate(store.map("one"), seconds)
            batched = 1_000 * batch_rate(store.map("batched"), seconds)
    finally:
        shutil.rmtree(scratch)
    found = {"bare write and fdatasync": bare, "put": one, "put_many of 1,000": batched}
    if json:
        show.json_line({"unit": "entries/s", "entries_per_second": found})
    else:
        show.table(
            ["100-byte values, durable", "entries/s", "× bare"],
            [(n, round(v), f"{v / bare:.2f}") for n, v in found.items()],
        )


def bare_rate(path: Path, seconds: float) -> float:
    """Writes of 140 bytes a second, each followed by fdatasync, to a growing file."""
    data = os.urandom(140)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        count, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds:
            os.write(file, data)
            os.fdatasync(file)
            count += 1
        return count / spent
    finally:
        os.close(file)


def put_rate(puts: kvwal.Map, seconds: float) -> float:
    """Durable puts a second, one after the other."""
    value, count, started = b"x" * 100, 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        puts.put(count % 10_000, value)
        count += 1
    return count / spent


def batch_rate(puts: kvwal.Map, seconds: float) -> float:
    """Durable transactions of 1,000 entries a second, one after the other."""
    batch = dict.fromkeys(range(1_000), b"x" * 100)
    count, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        puts.put_many(batch)
        count += 1
    return count / spent
