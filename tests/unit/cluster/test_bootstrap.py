"""Whom a cluster that starts anew waits for, and what a root remembers of the members."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvwal.cluster.bootstrap import Status, excluded_members, missing, unknown_to
from kvwal.cluster.membership import MembershipFile, MembershipRecord
from kvwal.errors import ConfigError, NewerVersion
from kvwal.node.health.memory_limit import Share, share_after_a_loss
from kvwal.ports.disk import OS_DISK

NAMES = {"a": "h:1", "b": "h:2", "c": "h:3"}


def status(
    name: str, *, archived: bool = True, without: tuple[str, ...] = (), expected: tuple[str, ...] = ()
) -> Status:
    known = {other: NAMES[other] for other in expected}
    listed = list(NAMES.values())
    return Status(
        member=name, name=name, address=NAMES[name], archived=archived, without=list(without), expected=known, listed=listed
    )  # fmt: skip


def test_every_listed_address_is_waited_for_without_any_membership_file() -> None:
    assert missing([status("a")], ["a"]) == ["h:2", "h:3"]
    assert missing([status(name) for name in "abc"], list("abc")) == []


def test_a_name_on_record_is_waited_for_and_told_once_with_its_address() -> None:
    assert missing([status("a", expected=("a", "b", "c")), status("b")], ["a", "b"]) == ["c (h:3)"]


def test_a_member_that_has_not_archived_is_waited_for() -> None:
    assert missing([status("a"), status("b"), status("c", archived=False)], list("abc")) == ["c (recovers its logs)"]
    assert missing([status("a"), status("b")], list("abc")) == ["c (recovers its logs)", "h:3"]


@pytest.mark.parametrize("word", ["c", "h:3"])
def test_without_takes_a_name_or_an_address_for_the_same(word: str) -> None:
    told = [status("a", expected=("a", "b", "c")), status("b", without=(word,))]
    assert missing(told, ["a", "b"]) == []
    assert excluded_members(told) == {"c", "h:3"}


def test_without_a_record_an_address_has_to_be_said() -> None:
    assert missing([status("a"), status("b", without=("c",))], ["a", "b"]) == ["h:3"]
    assert missing([status("a"), status("b", without=("h:3",))], ["a", "b"]) == []


def test_a_member_is_known_when_every_other_one_has_it_on_record() -> None:
    told = [status("a", expected=("a", "b")), status("b", expected=("a", "b", "c")), status("c")]
    assert unknown_to("c", told, list("abc")) == ["a"]
    assert unknown_to("b", told, ["a", "b"]) == []
    assert unknown_to("a", [], ["a"]) == []


def test_a_record_comes_back_and_a_crash_leaves_the_old_one(tmp_path: Path) -> None:
    file = MembershipFile(OS_DISK, tmp_path, "spark", "test", "node-1")
    assert file.read() is None
    file.write(MembershipRecord(members={"node-1": "h:1"}))
    (leftover,) = (tmp_path / "spark" / "test" / "_members").iterdir()
    leftover.with_name("node-1.json.partial").write_bytes(b"{half")
    assert file.read() == MembershipRecord(members={"node-1": "h:1"})
    file.write(MembershipRecord(members=NAMES, alone=False))
    assert file.read() == MembershipRecord(members=NAMES, alone=False)
    assert [path.name for path in leftover.parent.iterdir()] == ["node-1.json"]


def test_a_record_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    file = MembershipFile(OS_DISK, tmp_path, "spark", "test", "node-1")
    file.write(MembershipRecord())
    (path,) = (tmp_path / "spark" / "test" / "_members").iterdir()
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"node-1\.json"):
        file.read()
    path.write_bytes(b'{"format": 2}')
    with pytest.raises(NewerVersion):
        file.read()


@pytest.mark.parametrize(
    ("owned", "backups", "share"),
    [
        ((300,), 1, Share(0.3, 700)),  # a member alone starts again by itself
        ((300, 300), 1, Share(0.6, 200)),  # one holds everything, without a copy
        ((200, 200, 200), 1, Share(0.6, 133)),  # two hold everything and a copy of it
        ((200, 200, 200), 0, Share(0.3, 466)),
        ((200, 200, 200, 200), 1, Share(800 / 1500, 175)),
        ((600, 600), 1, Share(1.2, 0)),
        ((), 1, Share(0.0, 0)),
    ],
)
def test_the_share_of_a_member_after_a_loss(owned: tuple[int, ...], backups: int, share: Share) -> None:
    """Each has a room of 1,000."""
    statuses = [msgspec.structs.replace(status("a"), data_bytes=data, room_bytes=1000) for data in owned]
    assert share_after_a_loss(statuses, backups) == share


def test_the_smallest_room_counts() -> None:
    small, large = (
        msgspec.structs.replace(status(name), data_bytes=100, room_bytes=room)
        for name, room in (("a", 500), ("b", 9000))
    )
    assert share_after_a_loss([small, large], 1) == Share(0.4, 150)
