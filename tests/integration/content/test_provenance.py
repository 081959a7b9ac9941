"""The scene of NiFi's documents: F1 with the content C1 is compressed to F1.1 with C2, and an old event is replayed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import kvwal
from kvwal.content.claim import claim_of

C1 = b"a line of a log that is compressed\n" * 150_000
C2 = zlib.compress(C1)


def test_a_compressed_content_is_followed_replayed_and_in_the_end_gone(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        business = store.business("work")
        provenance = store.provenance("work")
        with business.transaction(component="GetFile") as t:
            t.content().put("access.log", C1, {"mime.type": "text/plain"})
            t.queue("in").put({"id": "F1", "content": "access.log"})
        with business.transaction(component="CompressContent") as t:
            item = t.queue("in").take(timeout=0)
            t.content().put(
                "access.log", zlib.compress(t.content().get(item["content"])), {"mime.type": "application/zlib"}
            )
            t.queue("out").put({**item, "id": "F1.1"})

        (changed,) = provenance.events("access.log", of="content", type="modify content")
        assert changed.component == "CompressContent"
        before, after = changed.before, changed.after
        assert before is not None
        assert after is not None
        was, now = claim_of(before.entry), claim_of(after.entry)
        assert (was.length, now.length) == (len(C1), len(C2)), "the event points to both contents"
        assert (before.attributes["mime.type"], after.attributes["mime.type"]) == ("text/plain", "application/zlib")
        both = provenance.events(type="modify content", component="CompressContent")
        (moved,) = (event for event in both if event.structure == "queue/out")
        assert (moved.parents[0].value["id"], moved.children[0].value["id"]) == ("F1", "F1.1")

        contents = business.content()
        assert contents.get("access.log") == C2
        provenance.replay(changed)
        assert contents.get("access.log") == C1
        assert contents.stat("access.log").attributes == {"mime.type": "text/plain"}
        provenance.replay(moved)
        assert business.queue("in").peek() == {"id": "F1", "content": "access.log"}
        assert next(iter(provenance.events("access.log", of="content"))).type == "replay"

        contents.put("access.log", C2)
        store.checkpoint()
        contents.put("other", b"something to checkpoint")
        store.checkpoint()
        with pytest.raises(kvwal.ContentGone, match=r"the content 'access.log', 5,250,000 bytes.* is gone"):
            provenance.replay(changed)
        assert contents.get("access.log") == C2


def test_with_an_archive_an_old_content_comes_back_as_long_as_history_reaches(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        contents = store.content("files")
        provenance = store.provenance("files")
        contents.put("report", C1)
        contents.put("report", C2)
        for _ in range(2):
            store.archive()
            store.checkpoint()
        (changed,) = provenance.events("report", of="content", type="modify content")
        provenance.replay(changed)
        assert contents.get("report") == C1


def test_events_of_contents_tell_what_was_changed(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root") as store:
        contents = store.content("files")
        provenance = store.provenance("files")
        contents.put("a", b"bytes")
        contents.put("a", b"bytes", {"owner": "ada"})
        contents.copy("a", "b")
        contents.put("a", b"others", {"owner": "ada"})
        contents.delete("a")
        contents.delete("a")
        told = [(event.type, event.key) for event in provenance.events()]
        assert told == [
            ("drop", "a"), ("modify content", "a"), ("create", "b"), ("modify attributes", "a"), ("create", "a"),
        ]  # fmt: skip


def test_a_key_is_found_in_every_structure_that_may_have_it(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        provenance = store.provenance("work")
        business = store.business("work")
        business.content().put("same", b"bytes")
        business.map()["same"] = 1
        business.map("state")["same"] = 2
        with business.transaction() as t:
            t.map()["same"] = 3
            t.map("state")["same"] = 4
        told = [(event.structure, event.type) for event in provenance.events("same")]
        assert sorted(told[:2]) == [("", "modify content"), ("map/state", "modify content")]
        assert told[2:] == [("map/state", "create"), ("", "create"), ("content", "create")]
        assert [event.structure for event in provenance.events("same", of="")] == ["", ""]
        business.content().put("alone", b"bytes")
        assert [event.type for event in provenance.lineage("alone")] == ["create"]
        assert provenance.events("nowhere") == provenance.lineage("nowhere") == []


def test_bytes_that_the_background_writes_again_are_no_event(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root") as store:
        contents = store.content("files")
        provenance = store.provenance("files")
        for number in range(20):
            contents.put(f"dead/{number}", bytes(100_000))
        contents.put("alive", b"small")
        entry = contents.entry("alive")
        for number in range(20):
            contents.delete(f"dead/{number}")
        store.archive()
        store.checkpoint()
        moved = contents.entry("alive")
        assert entry is not None
        assert moved is not None
        assert claim_of(moved).file != claim_of(entry).file
        assert [event.type for event in provenance.events("alive", of="content")] == ["create"]
