"""Each change of the past is told once, however many logs have it."""

from __future__ import annotations

import kvwal.history.reads.timeline
from kvwal.entry import Entry


def test_a_copy_is_left_out_however_many_changes_stand_between() -> None:
    entries = [Entry(b"%d" % number, "str", b"v", "str", False, 7 << 16) for number in range(10)]
    assert kvwal.history.reads.timeline.each_once([*entries, entries[0]]) == [entry.public() for entry in entries]
