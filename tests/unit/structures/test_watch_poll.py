"""`Watch.poll` with a limit: the position is behind the last change that was given, wherever that is in a page."""

from __future__ import annotations

from pathlib import Path

import kvwal


def test_a_limited_poll_gives_each_change_once_and_stands_behind_it(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        jobs.put_many({"a": 1, "b": 2, "c": 3})
        jobs["d"] = 4
        watch = jobs.watch(after=jobs.history("a")[0].timestamp - 1)
        seen, positions = [], []
        while found := watch.poll(1):
            seen += [entry.key for entry in found]
            positions.append(watch.position)
        assert seen == [b"a", b"b", b"c", b"d"]
        for number, position in enumerate(positions, 1):
            rest = jobs.watch(after=position).poll()
            assert [entry.key for entry in rest] == seen[number:]
        assert watch.poll(10) == []
