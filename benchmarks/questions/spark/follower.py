"""The follower of event logs in object storage: its first pass over many logs, and a round in which nothing is new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.harness import ROOT, Question, Row, Run, absolute_row, in_child

QUESTION = Question(
    "follower",
    "How fast does the follower read the event logs of a bucket, and what does a round cost in which nothing is new?",
    "for the rate, msgspec decoding and dropping every line of the same logs, from memory; for the requests, the number of logs.",
    "starting the interpreter, and the object storage's own time: the rate is a second of this process's processor."
    " The logs are copies of one that Spark wrote, compressed with zstd, in a SeaweedFS on this machine. The larger ones are"
    " copies of one that Spark wrote for this run, of ten jobs with 200 tasks each.",
)
MODULE = "benchmarks.questions.spark.follower"
LOGS, FEW = 2_600, 5
LARGE_LOGS, LARGE_JOBS, LARGE_TASKS = 100, 10, 200
MB = 1e6
_GOLDEN = ROOT / "tests" / "golden" / "event-log"


def golden() -> tuple[bytes, bytes]:
    """The lines of the log that Spark wrote, and the id of its application."""
    path = next(_GOLDEN.iterdir())
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    return text, path.name.removesuffix(".zstd").encode()


def source(log: str | None) -> tuple[bytes, bytes]:
    """The lines of a log without compression, and the id of its application; of the one in the repository without a path."""
    return golden() if log is None else (Path(log).read_bytes(), Path(log).name.encode())


def decode_lines(logs: int, log: str | None = None) -> dict[str, float]:
    """The baseline: decode every line of all logs from JSON, and drop it."""
    import msgspec

    decode, (text, _) = msgspec.json.Decoder().decode, source(log)
    lines = text.splitlines()
    started = time.process_time()
    for _ in range(logs):
        for line in lines:
            decode(line)
    return {"seconds": time.process_time() - started}


def follow(root: str, logs: int, log: str | None = None) -> dict[str, float]:
    """Put the logs into a bucket, and follow it from an empty root: a first round, and a second one. Counts requests."""
    import os

    import kvwal
    from kvwal.ports.clock import SYSTEM
    from kvwal.spark.eventlog.folders import open_folder
    from kvwal.spark.follower.follower import Follower
    from kvwal.spark.follower.status import FollowerStatus
    from kvwal_archive.objects.remote import RemoteObjects
    from tests.support.archive import s3

    server = s3.server()
    os.environ.update(server.environment())
    url, text, app = f"{s3.bucket(server)}/spark-events", *source(log)
    files, compressor = s3.filesystem(server), zstandard.ZstdCompressor()
    for number in range(logs):
        name = f"local-{number:0{len(app) - 6}d}"
        files.pipe_file(f"{url}/{name}.zstd", compressor.compress(text.replace(app, name.encode())))
    counted = {"listings": 0, "reads": 0}
    listing, reading = RemoteObjects.list, RemoteObjects.read_range

    def listed(self: RemoteObjects, prefix: str) -> Any:
        counted["listings"] += 1
        return listing(self, prefix)

    def read(self: RemoteObjects, key: str, start: int, end: int) -> bytes:
        counted["reads"] += 1
        return reading(self, key, start, end)

    RemoteObjects.list, RemoteObjects.read_range = listed, read  # type: ignore[method-assign]
    status = FollowerStatus(SYSTEM)
    answer: dict[str, float] = {}
    with kvwal.open(root, archive=None) as store:
        follower = Follower(store.map("spark"), [open_folder(url)], status, SYSTEM, lambda: False)
        for name in ("first", "second"):
            before, started, wall = dict(counted), time.process_time(), time.perf_counter()
            follower.round()
            answer |= {
                f"{name} processor": time.process_time() - started,
                f"{name} seconds": time.perf_counter() - wall,
            }
            answer |= {f"{name} {what}": counted[what] - before[what] for what in counted}
        follower.close()
    last = status.last
    if last is None or last.complete != logs:
        raise RuntimeError(f"the follower did not read all {logs} logs")
    return answer | {"bytes": status.bytes}


def large_logs(run: Run) -> Row:
    """The rate of the first round over larger logs."""
    logs = run.size(LARGE_LOGS, 2)
    jobs, tasks = run.size(LARGE_JOBS, 1), run.size(LARGE_TASKS, 5)
    log = in_child("benchmarks.questions.spark.event_logs:write_log", folder=str(run.root()), jobs=jobs, tasks=tasks)
    size = Path(log).stat().st_size / MB

    def ours() -> float:
        answer = in_child(f"{MODULE}:follow", root=str(run.root()), logs=logs, log=log)
        return float(answer["bytes"] / MB / answer["first processor"])

    def baseline() -> float:
        return float(logs * size / in_child(f"{MODULE}:decode_lines", logs=logs, log=log)["seconds"])

    baselines, rates = run.interleave(3, baseline, ours)
    notes = {"logs": float(logs), "size of a log, MB": size}
    return absolute_row(
        "Larger event logs in a bucket, first round", "MB/s of a core", baselines, rates, "at least", 40, notes
    )


def measure(run: Run) -> list[Row]:
    """Four rows: the rate of the first round, the requests and the time of the second, and the rate over larger logs."""
    logs, size = run.size(LOGS, FEW), len(golden()[0])
    answers: list[dict[str, float]] = []

    def ours() -> float:
        answers.append(in_child(f"{MODULE}:follow", root=str(run.root()), logs=logs))
        return answers[-1]["bytes"] / MB / answers[-1]["first processor"]

    def baseline() -> float:
        return float(logs * size / MB / in_child(f"{MODULE}:decode_lines", logs=logs)["seconds"])

    baselines, rates = run.interleave(1, baseline, ours)
    notes = {"logs": float(logs), "first round, seconds": answers[0]["first seconds"]}
    return [
        absolute_row("Event logs in a bucket, first round", "MB/s of a core", baselines, rates, "at least", 40, notes),
        absolute_row(
            "Objects read when nothing is new", "requests", [float(logs)] * len(answers),
            [answer["second reads"] for answer in answers], "at most", 0, {"listings": answers[0]["second listings"]},
        ),
        absolute_row(
            "A round over these logs when nothing is new", "s", [answer["first seconds"] for answer in answers],
            [answer["second seconds"] for answer in answers], "at most", 5,
        ),
        large_logs(run),
    ]  # fmt: skip
