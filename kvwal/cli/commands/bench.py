"""kvwal bench: the rate of durable puts on a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.options import LEAST_DURATION, Json, duration_parser, path_parser
from kvwal.cli.survey import BENCH_PREFIX
from kvwal.cli.tables import print_table
from kvwal.ports.disk import OS_DISK
from kvwal.store.absent import check_folder_there


def bench(
    root: Annotated[
        Path,
        typer.Argument(
            metavar="ROOT",
            help="A folder on the disk to measure; it is left as it was.",
            show_default=False,
            parser=path_parser("root"),
        ),
    ],
    seconds: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            help="How long each measurement takes: 2s, 1m, or seconds.",
            show_default="2s",
            parser=duration_parser("--seconds", least=LEAST_DURATION),
        ),
    ] = 2.0,
    json: Json = False,
) -> None:
    """Measure durable puts on a disk, beside a bare loop of write and fdatasync."""
    check_folder_there(OS_DISK, root)
    scratch = Path(tempfile.mkdtemp(prefix=BENCH_PREFIX, dir=root))
    try:
        bare = bare_rate(scratch / "bare", seconds)
        with kvwal.open(scratch, archive=None) as store:
            one = put_rate(store.map("one"), seconds)
            batched = 1_000 * batch_rate(store.map("batched"), seconds)
    finally:
        shutil.rmtree(scratch)
    rates = {"bare write and fdatasync": bare, "put": one, "put_many of 1,000": batched}
    if json:
        show.json_line({"unit": "entries/s", "entries_per_second": rates})
    else:
        print_table(
            ["100-byte values, durable", "entries/s", "× bare"],
            [(name, round(rate), f"{rate / bare:.2f}") for name, rate in rates.items()],
        )


def bare_rate(path: Path, seconds: float) -> float:
    """Rate, per second, of writes of 140 bytes to a growing file, each followed by fdatasync."""
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
    """Rate, per second, of durable puts, one after the other."""
    value, count, started = b"x" * 100, 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        puts.put(count % 10_000, value)
        count += 1
    return count / spent


def batch_rate(puts: kvwal.Map, seconds: float) -> float:
    """Rate, per second, of durable transactions of 1,000 entries, one after the other."""
    batch = dict.fromkeys(range(1_000), b"x" * 100)
    count, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        puts.put_many(batch)
        count += 1
    return count / spent
