"""The figures of operations: of a folder whose store is open, and of its archive; as an answer, as a page, and examined again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kvwal
from tests.support.console.client import API, get, send
from tests.support.lineage.console import console


def the_log(url: str, **query: str) -> dict[str, Any]:
    told = get(url, "/operations", query)
    assert told.status == 200, told
    (log,) = told.json["logs"]
    assert isinstance(log, dict)
    return log


def test_a_folder_tells_checkpoint_archive_and_holder_while_it_is_written(tmp_path: Path) -> None:
    root = tmp_path / "data"
    by_hand = kvwal.Settings(archive_seconds=3600, checkpoint_seconds=3600)
    with kvwal.open(root, node="writer", settings=by_hand) as store:
        jobs = store.map("jobs")
        jobs.put_many({f"job-{number}": number for number in range(10)})
        with console(root, log=tmp_path / "log") as running:
            log = the_log(running.url)
            assert (log["last_sequence"], log["snapshot_sequence"], log["checkpoint_age_seconds"]) == (10, 0, None)
            assert (log["archived_sequence"], log["archive_lag_seconds"]) == (None, None)
            assert f"pid {os.getpid()} " in log["holder"]
            store.checkpoint()
            store.archive()
            for number in range(5):
                jobs[f"new-{number}"] = number
            log = the_log(running.url, now="true")
            assert (log["last_sequence"], log["snapshot_sequence"], log["archived_sequence"]) == (15, 10, 10)
            assert (log["archive_lag_entries"], log["trouble"]) == (5, [])
            assert log["archive_lag_seconds"] is not None
            assert log["archive_lag_seconds"] <= log["checkpoint_age_seconds"]
            (row,) = send(running.url, "GET", "/operations?format=json&table=logs").json
            assert (row["lag"], row["archived"], row["unchecked"]) == (5, 10, 5)
            store.archive()
            examined = send(running.url, "GET", "/operations?examine=now&table=logs")
            assert (examined.status, examined.headers["location"]) == (303, "?table=logs")
            assert b"Examine now" in send(running.url, "GET", "/operations").body
    with console(root, log=tmp_path / "log of an end") as running:
        log = the_log(running.url)
        assert (log["archive_lag_entries"], log["archive_lag_seconds"], log["holder"]) == (0, 0, "")
    with console(root / "_archive", log=tmp_path / "log of the archive") as running:
        told = get(running.url, "/operations").json
        (archived,) = told["archived"]
        assert (told["kind"], told["status"], archived["last_sequence"]) == ("archive", None, 15)
        assert archived["newest_object_age_seconds"] is not None
        (row,) = send(running.url, "GET", "/operations?format=json&table=archived").json
        assert (row["business"], row["node"], row["last"]) == ("jobs", "writer", 15)


def test_a_page_of_another_site_starts_no_examination(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with kvwal.open(root, archive=None) as store:
        store.map("jobs")["job-1"] = 1
    with console(root, "--archive", "none", log=tmp_path / "log") as running:
        before = get(running.url, "/health").json["examined_seconds_ago"]
        for path, mode, status in (
            ("/operations?examine=now", "navigate", 303), (f"{API}/operations?now=true", "no-cors", 403),
            (f"{API}/operations?now=true", "navigate", 200),
        ):  # fmt: skip
            reply = send(running.url, "GET", path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)
            assert reply.status == status
        told = get(running.url, "/operations").json
        assert told["examined_seconds_ago"] >= before
        assert told["note"] == "It has no archive: checkpoints end its history."


def test_many_logs_that_lag_are_one_row_of_the_page_and_all_rows_of_its_json(tmp_path: Path) -> None:
    root = tmp_path / "data"
    store = kvwal.open(root, settings=kvwal.Settings(archive_seconds=3600, checkpoint_seconds=3600))
    for number in range(12):
        store.map(f"jobs-{number:02}").put_many({f"job-{key}": key for key in range(number + 2)})
    store.close(archive=False)
    with console(root, log=tmp_path / "log") as running:
        rows = send(running.url, "GET", "/operations?format=json&table=findings").json
        lagging = [row["about"] for row in rows if " behind" in row["found"]]
        assert sorted(lagging) == [f"default/local/jobs-{number:02}/local" for number in range(12)], rows
        page = send(running.url, "GET", "/operations").body.decode()
        findings = page.partition("What to look at")[2].partition("</section>")[0]
        assert findings.count("<tr") == 1 + len(rows) - 11, findings
        assert "and 11 others like it: " in findings
        assert "CSV and JSON have all" in findings
        assert f"<dt>Notes</dt><dd>{len(rows)}</dd>" in page, "the figure counts all of them"
