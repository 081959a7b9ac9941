"""The commands on a store: what they print, how they end, and that reading never needs the lock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kvwal as library
from kvwal.cli import show
from kvwal.cli.options import complete_business
from tests.support.cli import Ran, kvwal

HEAVY = {"typer", "rich", "asyncio", "pyarrow", "duckdb", "fsspec", "structlog", "sortedcontainers", "janus"}
READING = [
    ("get", "jobs", "job-1"),
    ("history", "jobs", "job-1"),
    ("scan", "jobs"),
    ("query", "SELECT key FROM jobs"),
    ("log dump", "jobs"),
    ("log verify",),
    ("stats",),
    ("doctor",),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store with two businesses, a delete, and keys and values of every class."""
    root = tmp_path / "data"
    with library.open(root) as store:
        jobs = store.map("jobs")
        jobs["job-1"] = {"state": "RUNNING"}
        jobs["job-2"] = {"state": "FAILED"}
        jobs["job-1"] = {"state": "SUCCEEDED"}
        del jobs["job-2"]
        kinds = store.map("kinds")
        kinds.put_many(
            {"text": "a b", "int": 7, "float": 1.5, "bool": True, "none": None, "bytes": b"\x00\xff", 7: "seven"}
        )
    return root


def run(root: Path, command: str, *arguments: object) -> Ran:
    """`kvwal COMMAND ROOT ARGUMENTS…`."""
    return kvwal(*command.split(), root, *arguments)


def lines(ran: Ran) -> list[dict[str, object]]:
    """What a command printed as JSON lines."""
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_a_plain_get_loads_nothing_but_the_reader(root: Path) -> None:
    program = "import sys; from kvwal.cli.main import main; main(); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", program, "get", root, "jobs", "job-1"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == '{"state":"SUCCEEDED"}\n'
    assert not HEAVY & {name.split(".")[0] for name in ran.stderr.split()}


@pytest.mark.parametrize(
    ("key", "text"),
    [("text", "a b"), ("int", "7"), ("float", "1.5"), ("bool", "true"), ("none", "null"), ("7", None)],
)
def test_a_plain_get_and_one_with_options_answer_alike(root: Path, key: str, text: str | None) -> None:
    plain, full = run(root, "get", "kinds", key), run(root, "get", "kinds", key, "--cluster", "local")
    assert plain == full
    assert plain.out == ("" if text is None else f"{text}\n")
    assert plain.code == (1 if text is None else 0)


def test_a_key_of_another_class_is_found_by_its_class(root: Path) -> None:
    assert run(root, "get", "kinds", "7", "--key-class", "int").out == "seven\n"
    assert run(root, "get", "kinds", "7").err == "kvwal: kinds has no '7'.\n"


def test_bytes_come_out_as_they_are(root: Path) -> None:
    command = [sys.executable, "-c", "from kvwal.cli.main import main; main()", "get", root, "kinds", "bytes"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\x00\xff\n"


def test_the_latest_of_all_nodes_is_read_unless_one_is_named(root: Path) -> None:
    with library.open(root, node="second") as store:
        store.map("jobs")["job-1"] = {"state": "RETRIED"}
    assert run(root, "get", "jobs", "job-1").out == '{"state":"RETRIED"}\n'
    assert run(root, "get", "jobs", "job-1", "--node", "local").out == '{"state":"SUCCEEDED"}\n'
    refused = run(root, "put", "jobs", "job-1", "x")
    assert refused.code == 2
    assert "local, second" in refused.err


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_reading_works_while_another_process_holds_the_store(root: Path, command: tuple[str, ...]) -> None:
    with library.open(root) as store:
        store.map("jobs")
        assert run(root, *command).code == 0
        locked = run(root, "put", "jobs", "job-1", "x")
    assert locked.code == 3
    assert "is held by" in locked.err


def test_a_put_with_a_ttl_ends(root: Path) -> None:
    assert run(root, "put", "jobs", "short", "x", "--ttl", "0.001").code == 0
    assert run(root, "get", "jobs", "short").code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("put", "../jobs", "k", "v"), "map name"),
        (("put", "_jobs", "k", "v"), "map name"),
        (("get", "nothing", "k"), "has no map 'nothing'"),
        (("get", "jobs", "x", "--key-class", "int"), "'x' is no int"),
        (("scan", "jobs", "--namespace", "other"), "has no namespace 'other'"),
        (("query", "SELECT nothing FROM jobs"), "nothing"),
        (("query", "no sql"), "syntax error"),
        (("log verify", "--cluster", "other"), "has no cluster 'other'"),
        (("doctor", "--cluster", "other"), "has no cluster 'other'"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_code_2(root: Path, arguments: tuple[str, ...], says: str) -> None:
    ran = run(root, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("kvwal: ")
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_an_unknown_option_is_exit_code_2(root: Path) -> None:
    assert run(root, "get", "jobs", "job-1", "--nonsense").code == 2


def test_an_unforeseen_error_is_a_bug_with_its_trace_and_exit_code_70() -> None:
    program = "import kvwal.cli.main as cli; cli.is_plain_get = lambda typed: 1 / 0; cli.main()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 70
    assert "ZeroDivisionError" in ran.stderr
    assert "please report it" in ran.stderr


def test_history_and_dump_show_every_change(root: Path) -> None:
    history = lines(run(root, "history", "jobs", "job-2", "--json"))
    assert [(change["deleted"], change["value"]) for change in history] == [(True, None), (False, {"state": "FAILED"})]
    dumped = lines(run(root, "log dump", "jobs", "--json"))
    assert [(entry["sequence"], entry["key"], entry["deleted"]) for entry in dumped] == [
        (1, "job-1", False), (2, "job-2", False), (3, "job-1", False), (4, "job-2", True),
    ]  # fmt: skip


def test_scan_prints_tables_json_and_csv(root: Path) -> None:
    assert lines(run(root, "scan", "kinds", "--prefix", "b", "--json")) == [
        {"key": "bool", "value": True}, {"key": "bytes", "value_encoding": "base64", "value": "AP8="},
    ]  # fmt: skip
    assert run(root, "scan", "jobs", "--format", "csv").out.splitlines() == [
        "key,value",
        'job-1,"{""state"":""SUCCEEDED""}"',
    ]
    assert run(root, "scan", "kinds").out.splitlines()[1].split() == ["7", "seven"]


def test_a_star_reads_every_namespace(root: Path) -> None:
    with library.open(root, namespace="other") as store:
        store.map("jobs")["job-9"] = {"state": "RUNNING"}
    found = lines(run(root, "scan", "jobs", "--namespace", "*", "--json"))
    assert [(row["namespace"], row["key"]) for row in found] == [("default", "job-1"), ("other", "job-9")]
    sql = "SELECT namespace, count(*) AS n FROM jobs_history GROUP BY ALL ORDER BY ALL"
    assert lines(run(root, "query", sql, "--namespace", "*", "--json")) == [
        {"namespace": "default", "n": 4}, {"namespace": "other", "n": 1},
    ]  # fmt: skip


def test_query_reads_json_joins_and_history(root: Path) -> None:
    sql = "SELECT j.key, j.value->>'state' AS state, k.value AS v FROM jobs j, kinds k WHERE k.key = 'int'"
    assert lines(run(root, "query", sql, "--json")) == [{"key": "job-1", "state": "SUCCEEDED", "v": "7"}]
    sql = "SELECT key, raw, value FROM kinds WHERE value_class = 'bytes'"
    assert lines(run(root, "query", sql, "--json")) == [{"key": "bytes", "raw": "0x00ff", "value": None}]


@pytest.mark.parametrize("archived", [True, False])
def test_the_history_of_a_query_outlives_the_log(root: Path, archived: bool) -> None:
    archive = [] if archived else ["--archive", "none"]
    if archived:
        assert run(root, "archive run").code == 0
    assert run(root, "checkpoint", *archive).code == 0
    assert run(root, "put", "jobs", "job-3", "1", *archive).code == 0
    sql = "SELECT key, value->>'state' AS state, deleted FROM jobs_history WHERE key = 'job-1' ORDER BY timestamp"
    states = [row["state"] for row in lines(run(root, "query", sql, "--json", *archive))]
    assert states[-1] == "SUCCEEDED"
    assert states == ["RUNNING", "SUCCEEDED"] or not archived


def damage(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_damage_in_the_log_is_named_and_exit_code_4(root: Path) -> None:
    run(root, "put", "jobs", "job-3", "x")
    segment = min((root / "default" / "local" / "jobs" / "local").glob("*.wal"))
    damage(segment)
    verified = run(root, "log verify", "jobs", "--json")
    assert verified.code == 4
    assert [found["file"] for found in map(json.loads, verified.out.splitlines()) if found["problem"]] == [segment.name]
    opened = run(root, "put", "jobs", "k", "v")
    assert opened.code == 4
    assert segment.name in opened.err
    doctor = run(root, "doctor", "--json")
    assert doctor.code == 1
    assert [
        found
        for found in map(json.loads, doctor.out.splitlines())
        if found["level"] == "problem" and segment.name in found["found"]
    ]


def test_damage_in_the_archive_is_exit_code_4(root: Path) -> None:
    run(root, "archive run")
    damage(next((root / "_archive").rglob("*.parquet")))
    verified = run(root, "archive verify")
    assert verified.code == 4
    assert "damaged" in verified.out


def test_restore_brings_back_a_moment(root: Path, tmp_path: Path) -> None:
    moment = lines(run(root, "history", "jobs", "job-2", "--json"))[1]["timestamp"]
    run(root, "archive run")
    restored = tmp_path / "restored"
    ran = kvwal("restore", root / "_archive", restored, "--at", moment, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["node"] == "restored"
    assert run(restored, "get", "jobs", "job-2").out == '{"state":"FAILED"}\n'
    assert kvwal("restore", root / "_archive", restored).code == 2


def test_an_archive_that_does_not_answer_is_exit_code_3(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    ran = run(root, "archive run", "--archive", tmp_path / "file" / "archive")
    assert ran.code == 3
    assert ran.out == ""
    assert ran.err.splitlines()[-1].startswith("kvwal: ")


def test_rewrite_and_gc_leave_one_object(root: Path) -> None:
    for number in range(3):
        run(root, "put", "jobs", f"more-{number}", "1")
        run(root, "archive run")
    assert len(lines(run(root, "archive list", "--json"))) > 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvwal.cli.commands.archives.QUICKER_ON_SPARK", 1)
        ran = run(root, "archive rewrite", "--force", "--json")
    assert lines(ran)
    assert ran.err.startswith("0.0 GiB of keys and values are to be compacted, by this process alone. Eight cores")
    assert run(root, "archive rewrite", "--force").err == ""
    assert lines(run(root, "archive gc", "--grace", "0", "--json"))
    found = lines(run(root, "archive list", "--json"))
    assert [(row["business"], row["first"], row["last"]) for row in found] == [("jobs", 1, 7), ("kinds", 1, 7)]
    assert run(root, "archive verify").code == 0


def test_bench_leaves_the_folder_as_it_was(root: Path) -> None:
    before = sorted(root.iterdir())
    found = lines(run(root, "bench", "--seconds", "0.02", "--json"))[0]
    assert set(found["entries_per_second"]) == {"bare write and fdatasync", "put", "put_many of 1,000"}  # type: ignore[call-overload]
    assert sorted(root.iterdir()) == before


class Context:
    """What the shell's completion knows: the arguments typed so far."""

    def __init__(self, root: Path) -> None:
        self.params = {"root": root}


def test_the_shell_completes_businesses(root: Path) -> None:
    assert complete_business(Context(root), "j") == ["jobs"]  # type: ignore[arg-type]


def test_progress_is_drawn_until_it_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with show.progress() as report:
        report(0, 10, "recovering")
        report(10, 10, "recovering")
        drawn = capsys.readouterr()
    assert "recovering" in drawn.err
    assert not drawn.out


def test_a_pipe_gets_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with show.progress() as report:
        report(1, 10, "recovering")
    assert capsys.readouterr() == ("", "")
