"""The demonstration of `make run`: record Spark jobs, kill a driver while it writes, recover, archive and restore.

All files lie under data/demo (or the folder given). Each run deletes those of the run before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from terminal import console, empty_folder, shell, step

import kvwal

HERE = Path(__file__).resolve().parent
JOBS_BEFORE_KILL = 40
TIMEOUT_SECONDS = 120


def main() -> int:
    """Run all steps. 0 if the restored records equal the original ones."""
    home = empty_folder("data/demo")
    root, archive, second, work = (home / name for name in ("root", "archive", "restored", "flights"))
    began = time.monotonic()
    record_flights(root, archive, work)
    kill_while_writing(root, archive, work)
    bring_to_archive(root, archive)
    same = restore_elsewhere(root, archive, second)
    show_disk(home, root)
    console.print(
        f"\n[bold green]Done[/] in {time.monotonic() - began:.0f} seconds."
        if same
        else "\n[bold red]The restored records differ.[/]"
    )
    console.print(f"Look at it in a browser: [bold]kvwal console {root}[/] → http://127.0.0.1:18080")
    return 0 if same else 1


def application(root: Path, archive: Path, work: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the flights application, in a process group of its own so that a signal reaches its JVM too."""
    command = [
        sys.executable,
        str(HERE / "flights" / "app.py"),
        str(root),
        "--work",
        str(work),
        "--archive",
        str(archive),
        *more,
    ]
    # Spark's workers take the first python3 on the PATH unless PYSPARK_PYTHON names another.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=(work / "stderr.txt").open("ab"))


def record_flights(root: Path, archive: Path, work: Path) -> None:
    """Run one application to its end."""
    step(
        1,
        "A Spark application, recorded",
        "336,776 flights: joins, aggregations, a window, a stream, and one job that fails on purpose.",
    )
    work.mkdir(parents=True)
    with console.status("Spark is starting, then working"):
        driver = application(root, archive, work)
        if driver.wait(timeout=600):
            sys.exit(f"the application ended with code {driver.returncode}: see {work / 'stderr.txt'}")
    shell("jobs", root)
    shell("jobs", root, "--failed")
    shell("lineage", root, work / "flights")


def kill_while_writing(root: Path, archive: Path, work: Path) -> None:
    """Run a second application, and kill it while it writes."""
    step(
        2,
        "kill -9, in the middle of writing",
        "A second application runs small jobs in a loop. Its whole process group is killed.",
    )
    with console.status("waiting for its first records"):
        driver = application(root, archive, work, "--endless")
        before = wait_for_jobs(root, driver)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    console.print(f"Killed. {len(before):,} records of the application had been read from the store while it ran.")
    console.print(
        "Recovery replays its log. Then the events are read that Spark had written and the recorder had not read:\n"
    )
    shell("record", root)
    after = records(root)
    lost = [key for key in before if key not in after]
    drivers = {key.partition("/")[0] for key in before}
    grown = sum(key.partition("/")[0] in drivers for key in after)
    console.print(
        f"\nOf the {len(before):,} records seen before the kill, [bold]{len(lost)} are lost[/]; there are {grown:,} now."
    )
    states = ", ".join(
        value["status"] for key, value in after.items() if key.partition("/")[0] in drivers and key.endswith("/app")
    )
    console.print(f"The application is marked {states}.")
    if lost:
        sys.exit(f"lost: {lost[:5]}")


def wait_for_jobs(root: Path, driver: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The records of the running application, after it has run `JOBS_BEFORE_KILL` jobs. Reading needs no lock."""
    known = {key.partition("/")[0] for key in records(root)}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline and driver.poll() is None:
        added = {key: value for key, value in records(root).items() if key.partition("/")[0] not in known}
        if sum("/job/" in key for key in added) >= JOBS_BEFORE_KILL:
            return added
        time.sleep(0.2)
    os.killpg(driver.pid, signal.SIGKILL)
    sys.exit("the second application recorded nothing: see stderr.txt")


def records(root: Path) -> dict[str, Any]:
    """All records under a root, merged over its nodes."""
    with kvwal.open(root, read_only=True) as store:
        return dict(store.map("spark").items())


def bring_to_archive(root: Path, archive: Path) -> None:
    """Archive the log of every node."""
    step(
        3,
        "The archive",
        "A driver is a node with a log of its own, until it has ended. The archive holds all logs as sorted, compressed Parquet.",
    )
    for node in sorted(path.name for path in (root / "default" / "local" / "spark").iterdir()):
        with kvwal.open(root, node=node, archive=archive) as store:
            store.map("spark")
            store.archive()
    shell("archive", "list", archive)


def restore_elsewhere(root: Path, archive: Path, second: Path) -> bool:
    """Restore a second root from the archive alone. True if it holds the same records."""
    step(
        4,
        "Restored from the archive alone",
        "A new root is made from the archive. Nothing else is read, as after the loss of the machine.",
    )
    shell("restore", archive, second)
    original, restored = records(root), records(second)
    differ = [key for key in original.keys() | restored.keys() if original.get(key) != restored.get(key)]
    console.print(
        f"\n{len(original):,} records in the first root, {len(restored):,} in the second, [bold]{len(differ)} differ[/].\n"
    )
    shell("jobs", second, "--runs", "flights of UA")
    return not differ


def show_disk(home: Path, root: Path) -> None:
    """Print the folders with their sizes."""
    step(5, "The folders", "All of them can be deleted. Nothing else was written.")
    meaning = {"root": "the store: a log for each driver", "archive": "the archive: Parquet", "restored": "the second root",
               "flights": "input and output of the application"}  # fmt: skip
    for name, text in meaning.items():
        files = [path for path in (home / name).rglob("*") if path.is_file()]
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        size = sum(path.stat().st_size for path in files) / 1e6
        console.print(f"{home / name!s:<16} {count:>10} {size:>8.1f} MB   {text}")
    console.print("\n[dim]More questions:[/]")
    for question in ("flights", '--runs "delays by carrier"', "--failed --since 1h", "--json"):
        console.print(f"[dim]$ kvwal jobs {root} {question}[/]")
    sql = "SELECT value->>'name' AS stage, value->'skew' AS skew FROM spark WHERE value->>'kind' = 'stage' ORDER BY 2 DESC"
    console.print(f'[dim]$ kvwal query {root} "{sql}"[/]')


if __name__ == "__main__":
    sys.exit(main())
