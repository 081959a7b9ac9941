"""The bytes that each leaves on the disk after its own compaction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import java, rounds
from benchmarks.peers.contestants import CONTESTANTS, able
from benchmarks.peers.servers import server

QUESTION = Question(
    "peers_size",
    "How many bytes stay on the disk beside the peers?",
    "the peer that the row names, after its own compaction: VACUUM, compact_range, BGREWRITEAOF, a copy with compaction, "
    "defragmentation, a checkpoint; SeaTunnel has none. Every key was written several times, with a JSON of about 100 bytes as a "
    "Spark driver might store it; the Java peers got 100 random bytes, which none of them compresses.",
    "nothing: every block of every file counts; of kvwal both the archive, without history, and the snapshot that a node keeps.",
)
VERSIONS = 3


def on_disk(folder: Path) -> int:
    """The bytes of all files under a folder, in whole blocks."""
    return sum(
        path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file() and path.name != "server.log"
    )


def kvwal_command(*words: str) -> None:
    """A command of kvwal's own, in its own process."""
    subprocess.run([str(Path(sys.executable).parent / "kvwal"), *words], check=True, capture_output=True)


def once(run: Run, name: str, keys: int) -> rounds.Figures:
    """The bytes for each key that one contestant leaves."""
    folder, kind = run.root(), CONTESTANTS[name].kind
    sizes = {"folder": str(folder), "keys": keys, "versions": VERSIONS}
    if kind == "java":
        batch = 64 if name == "seatunnel" else 1_000
        java.run(name, "fill", folder=folder, keys=keys, count=keys * VERSIONS, batch=batch, value=100, compact=1)
    elif kind == "server":
        with server(name, folder) as opening:
            in_child(f"{rounds.DRIVE}:overwrite", name=name, port=opening.port, **sizes)
    else:
        in_child(f"{rounds.DRIVE}:overwrite", name=name, port=0, **sizes)
    notes = {}
    if name == "kvwal":
        root, archive = str(folder / "root"), str(folder / "archive")
        kvwal_command("archive", "rewrite", root, "--archive", archive, "--history", "0", "--force")
        kvwal_command("archive", "gc", root, "--archive", archive, "--grace", "0")
        notes = {"archive": on_disk(folder / "archive") / keys}
    return {"rate": on_disk(folder) / keys, **notes}


def measure(run: Run) -> list[Row]:
    """A row for each peer. SeaTunnel writes one by one, so it has a tenth of the keys."""
    keys = run.size(100_000, 2_000)
    figures = rounds.contest(
        run, able("size"), 1, lambda name: once(run, name, keys // 10 if name == "seatunnel" else keys)
    )
    rows = rounds.rows(f"{VERSIONS} versions a key", "bytes/key", figures, dict.fromkeys(figures, 1.0), must="at most")
    archived = {"bytes a key in kvwal's archive alone": figures["kvwal"][0]["archive"]}
    return [rounds.with_notes(row, archived) for row in rows]
