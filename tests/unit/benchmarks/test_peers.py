"""What stands around the peers: who takes part, how calls are counted, and how figures become rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.harness import Question, Result, Run
from benchmarks.page import verdict
from benchmarks.peers import chart, contestants, java, reasons, redis_benchmark, rounds, syncs
from benchmarks.peers.contestants import CONTESTANTS, Contestant
from benchmarks.peers.drive import Values, figures
from benchmarks.peers.engines.base import Opening
from benchmarks.peers.engines.opening import open_engine
from benchmarks.regression import reaches

REPORT = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 74.60    0.011170          11      1001           fdatasync
 20.00    0.001000          10       100         3 fsync
  5.40    0.000807           9        88           sync_file_range
------ ----------- ----------- --------- --------- ----------------
100.00    0.012977          10      1189         3 total
"""


def test_calls_are_read_from_a_report_of_strace(tmp_path: Path) -> None:
    assert syncs.calls(REPORT) == {"fdatasync": 1001, "fsync": 100, "sync_file_range": 88}
    (tmp_path / "report").write_text(REPORT)
    assert syncs.total(tmp_path / "report") == 1101, "sync_file_range makes nothing durable"
    assert syncs.calls("") == {}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_strace_counts_the_syncs_of_threads_and_children(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, threading\n"
        "def sync(): file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.fsync(file); os.fdatasync(file)\n"
        "thread = threading.Thread(target=sync); thread.start(); thread.join()\n"
        "if len(sys.argv) == 2: subprocess.run([sys.executable, __file__, sys.argv[1], 'child'], check=True)\n"
    )
    (tmp_path / "program.py").write_text(program)
    report = tmp_path / "report"
    command = [*syncs.wrapper(report), sys.executable, str(tmp_path / "program.py"), str(tmp_path / "file")]
    subprocess.run(command, check=True)
    assert syncs.total(report) == 4


def test_who_is_not_installed_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [
        Contestant("one", "One", "python", modules=("no_such_module_at_all",)),
        Contestant("two", "Two", "server", commands=("no-such-command-at-all",), package="two-server"),
        Contestant("three", "Three", "java"),
        Contestant("four", "Four", "python", modules=("json",)),
    ]
    monkeypatch.setattr(contestants, "CONTESTANTS", {each.name: each for each in missing})
    monkeypatch.setattr(java, "unavailable", lambda: "Maven and a JDK build it, and one of them is missing.")
    here, sentences = contestants.present(["one", "two", "three", "four"])
    assert here == ["four"]
    assert sentences == [
        "One is skipped: the module no_such_module_at_all is not installed. pip install 'kvwal[peers]' brings it.",
        "Two is skipped: no-such-command-at-all is not on the PATH. apt-get install two-server brings it.",
        "Three is skipped: Maven and a JDK build it, and one of them is missing.",
    ]


def test_without_maven_the_java_peers_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = java.unavailable.__wrapped__()
    assert reason is not None
    assert "apt-get install maven" in reason


def test_kvwal_can_do_all_that_is_asked_of_anyone() -> None:
    everything = {ability for contestant in CONTESTANTS.values() for ability in contestant.abilities}
    assert everything <= CONTESTANTS["kvwal"].abilities
    assert set(contestants.able("ttl")) == {"kvwal", "redis", "diskcache"}


def test_an_answer_is_found_below_what_a_peer_prints() -> None:
    assert java.answer('Attempting to stop.\n{"count": 3, "seconds": 0.5}\nbye\n') == {"count": 3, "seconds": 0.5}


def test_the_csv_of_redis_benchmark_is_read() -> None:
    output = '"test","rps","avg_latency_ms"\n"SET","55000.12","0.4"\n"MSET (10 keys)","9000.5","3.1"\n'
    assert redis_benchmark.parse(output) == {"SET": 55000.12, "MSET (10 keys)": 9000.5}


def rate(*rates: float) -> list[rounds.Figures]:
    return [{"rate": each} for each in rates]


def test_contestants_take_turns(tmp_path: Path) -> None:
    asked: list[str] = []

    def measure(name: str) -> rounds.Figures:
        asked.append(name)
        return {"rate": float(len(asked))}

    found = rounds.contest(Run(tmp_path, quick=False), ["bare", "kvwal", "sqlite"], 2, measure)
    assert asked == ["bare", "kvwal", "sqlite"] * 2
    assert rounds.rates(found["kvwal"]) == [2, 5]


def test_a_row_for_each_peer_has_the_ratios_of_its_rounds() -> None:
    found = {"kvwal": rate(10, 20, 30), "sqlite": rate(5, 5, 5), "lmdb": rate(20, 20, 60)}
    with_target, without = rounds.rows("8 producers", "puts/s", found, {"sqlite": 3.0})
    assert with_target.name == "8 producers: SQLite, WAL FULL"
    assert with_target.rounds == [2, 4, 6]
    assert with_target.figure == 4
    assert with_target.met
    assert without.figure == 0.5
    assert without.met, "it has no target to miss"
    assert verdict(without) == "0.5 × the baseline"


def test_latencies_are_of_the_middle_round() -> None:
    ours = [{"rate": each, "p50": each, "p99": each, "p999": each, "max": each} for each in (3.0, 1.0, 2.0)]
    (row,) = rounds.rows("w", "puts/s", {"kvwal": ours, "bare": rate(1, 1, 1)}, {})
    assert row.notes == {f"{share} of kvwal, ms": 2.0 for share in ("p50", "p99", "p99.9", "max")}


def test_figures_have_the_rate_and_the_latency() -> None:
    found = figures(300, 2.0, [0.001] * 99 + [0.5])
    assert found["rate"] == 150
    assert (found["p50"], found["max"]) == (1, 500)
    assert figures(1, 1.0, [])["max"] == 0


def test_values_are_of_their_size_and_keys_are_new() -> None:
    values = Values(100)
    entries = values.entries(1, 0, 5) | values.entries(1, 5, 5) | values.entries(2, 0, 5)
    assert len(entries) == 15
    assert {len(key) for key in entries} == {11}
    assert {len(value) for value in entries.values()} == {100}


def test_a_plot_has_an_axis_for_each_workload() -> None:
    found = {"kvwal": rate(10), "sqlite": rate(5), "lmdb": rate(20)}
    rows = [*rounds.rows("a", "puts/s", found, {}), *rounds.rows("b", "puts/s", found, {})]
    groups = chart.by_workload(Result(Question("q", "t", "b", "n"), rows, {}))
    assert list(groups) == ["a", "b"]
    assert [name for name, _, _ in chart.bars(groups["a"])] == ["kvwal", "SQLite, WAL FULL", "LMDB"]


def test_the_reason_of_a_row_is_the_closest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "REASONS", {"a": "of all", "a: LMDB": "of one"})
    assert reasons.reason("a: SQLite") == "of all"
    assert reasons.reason("a: LMDB") == "of one"
    assert reasons.reason("b: LMDB") == ""


def test_a_ratio_that_recovers_in_its_second_try_is_no_regression() -> None:
    ratios = iter([0.5, 1.5, 9.9])
    assert reaches(lambda: next(ratios), 1.0) == (True, [0.5, 1.5])
    assert reaches(lambda: 0.5, 1.0) == (False, [0.5, 0.5])


@pytest.mark.parametrize("name", ["kvwal", "rocksdb", "sqlite", "lmdb", "diskcache"])
def test_an_engine_does_what_it_says(tmp_path: Path, name: str) -> None:
    if reason := CONTESTANTS[name].missing():
        pytest.skip(reason)
    engine = open_engine(name, Opening(tmp_path), archived=True)
    engine.put({f"{number:04d}": b"%d" % number for number in range(250)})
    engine.put({"0007": b"seven"})
    engine.delete("0008")
    assert engine.get("0007") == b"seven"
    assert engine.get("0008") is None
    assert engine.count() == 249
    if "ranges" in CONTESTANTS[name].abilities:
        assert engine.scan("0100", 10) == 10
    if "ttl" in CONTESTANTS[name].abilities:
        engine.put_for("expiring", b"soon gone", 3_600)
        assert engine.get("expiring") == b"soon gone"
    engine.compact()
    assert engine.get("0249") == b"249"
    engine.close()
    again = open_engine(name, Opening(tmp_path))
    assert again.get("0007") == b"seven"
    again.close()


def test_a_group_stands_for_its_questions() -> None:
    peers = run.chosen(["peers"])
    assert "peers_durability" in peers
    assert all(name.startswith("peers_") for name in peers)
    assert run.chosen(["threads", "peers"]) == ["threads", *peers]
    assert run.chosen([]) == run.names()


@pytest.mark.parametrize(("quick", "most", "done"), [(True, None, 1), (False, None, 3), (False, 2, 2), (False, 9, 3)])
def test_a_run_does_no_more_rounds_than_it_may(tmp_path: Path, quick: bool, most: int | None, done: int) -> None:
    assert Run(tmp_path, quick, most).rounds(3) == done
