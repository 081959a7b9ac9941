"""What is wrong with a node's call is one sentence and exit code 2, before Java is started."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

import pytest

import kvwal
from kvwal.cluster.bootstrap import Status, unknown_names
from kvwal.cluster.membership import LocalMembership, MembershipFile, MembershipRecord
from kvwal.errors import EXIT_CODES, ConfigError, Kind, KvwalError, LogFailed, StartFailed, StorageFull
from kvwal.node.config import heap_bytes
from kvwal.node.preflight import Owner, check_root, check_writable
from kvwal.ports.disk import OS_DISK, OsDisk
from kvwal.ports.tasks import ThreadWorkers
from tests.support.cli import kvwal as command
from tests.support.ports import free_port

LATER = EXIT_CODES[Kind.RETRY]
OWN = Owner("default", "test", "node-1")


def refused(root: Path, *typed: object, code: int = EXIT_CODES[Kind.CALLER]) -> str:
    """What `kvwal node` says, in one line, without having touched the root."""
    before = sorted(root.rglob("*")) if root.exists() else []
    ran = command("node", root, "--node", "node-1", "--cluster", "test", *typed)
    assert ran.code == code
    assert ran.err.startswith("kvwal: ")
    assert ran.err.count("\n") == 1
    assert before == (sorted(root.rglob("*")) if root.exists() else [])
    return ran.err


@pytest.mark.parametrize("names", [{"node": "node-2"}, {"cluster": "other"}, {"namespace": "elsewhere"}])
def test_a_root_of_another_node_is_refused(tmp_path: Path, names: dict[str, str]) -> None:
    with kvwal.open(tmp_path, **({"cluster": "test", "node": "node-1"} | names)) as store:
        store.map("jobs")["job-1"] = 1
    said = refused(tmp_path, "--address", "127.0.0.1:5701")
    assert all(value in said for value in names.values())


def test_a_root_that_holds_a_log_of_the_node_too_is_its_own(tmp_path: Path) -> None:
    """Several embedded stores may share a root."""
    for node in ("node-1", "node-2"):
        with kvwal.open(tmp_path, cluster="test", node=node) as store:
            store.map("jobs")["job-1"] = 1
    check_root(OS_DISK, tmp_path, OWN)


def test_a_member_that_never_wrote_left_its_name_on_the_root(tmp_path: Path) -> None:
    MembershipFile(OS_DISK, tmp_path, *OWN).write(MembershipRecord(members={"node-1": "h:1"}))
    check_root(OS_DISK, tmp_path, OWN)
    with pytest.raises(ConfigError, match="--node node-1"):
        check_root(OS_DISK, tmp_path, OWN._replace(node="node-2"))


def test_a_root_with_nothing_but_an_archive_is_anybodys(tmp_path: Path) -> None:
    (tmp_path / "_archive" / "default" / "test" / "jobs" / "node-2").mkdir(parents=True)
    check_root(OS_DISK, tmp_path, OWN)
    check_root(OS_DISK, tmp_path / "absent", OWN)


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "another process listens there" in refused(tmp_path / "root", "--address", busy, code=LATER)
        said = refused(tmp_path / "root", "--address", f"127.0.0.1:{free_port()}", "--http", busy, code=LATER)
        assert f"--http {busy}: another process" in said


def test_one_port_cannot_be_for_members_and_for_http(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert "is the address of --address too" in refused(tmp_path / "root", "--address", address, "--http", address)


@pytest.mark.parametrize("root", ["/proc/kvwal/root", "/dev/null/root", "/dev/null"])
def test_a_root_that_cannot_be_written_is_refused(root: str) -> None:
    assert f"{root} cannot be written" in refused(Path(root), "--address", f"127.0.0.1:{free_port()}")


class LostServer(OsDisk):
    """A disk on a file server that does not answer now."""

    def make_folder(self, folder: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle", str(folder))


def test_a_root_on_a_file_server_that_does_not_answer_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="Stale file handle"):
        check_writable(LostServer(), tmp_path / "root")


class FullDisk(OsDisk):
    """A disk on which no folder can be made."""

    def make_folder(self, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))


@pytest.mark.parametrize(("disk", "kind"), [(FullDisk(), StorageFull), (OsDisk(), LogFailed)])
def test_a_record_of_members_that_cannot_be_written_says_so(
    tmp_path: Path, disk: OsDisk, kind: type[KvwalError]
) -> None:
    (tmp_path / "default").write_text("a file where a folder belongs")
    with pytest.raises(kind, match="default"):
        MembershipFile(disk, tmp_path if kind is LogFailed else tmp_path / "full", *OWN).write(MembershipRecord())


def test_a_root_on_a_full_disk_is_left_to_the_recovery(tmp_path: Path) -> None:
    check_writable(FullDisk(), tmp_path)


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path / "root", "--address", "192.0.2.1:5701", code=LATER)
    assert "does not have the address" in said


def test_the_address_of_everywhere_is_none_to_be_reached_at(tmp_path: Path) -> None:
    assert "docs/security.md" in refused(tmp_path / "root", "--address", "0.0.0.0:5701")


@pytest.mark.parametrize("text", ["1q", "", "g", "-1g", "1.5g", "0", "1 g", "1gb", "٣g", "31m", "5"])
def test_a_heap_that_is_no_size_is_refused_as_that(tmp_path: Path, text: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'heap = "{text}"\n')
    said = refused(tmp_path / "root", "--address", "127.0.0.1:5701", "--config", file)
    assert str(file) in said
    assert f"heap = '{text}'" in said
    assert "JAVA_HOME" not in said


def test_a_heap_is_as_java_takes_it() -> None:
    assert [heap_bytes(text) for text in ("64m", "64M", "2g", "70000k", "1T", "33554432")] == [
        64 << 20, 64 << 20, 2 << 30, 70000 << 10, 1 << 40, 32 << 20
    ]  # fmt: skip


def told(name: str, **more: dict[str, str]) -> Status:
    return Status(member=name, name=name, address=f"h:{name}", listed=["h:a", "h:b"], **more)


def test_only_who_was_a_member_can_be_left_out() -> None:
    statuses = [told("a", expected={"c": "h:3"}), told("b", left={"d": "h:4"})]
    assert unknown_names(["zzz", "c", "h:3", "d", "h:4", "h:b"], statuses) == ["zzz"]
    assert unknown_names(["e", "zzz"], statuses, ["e"]) == ["zzz"]


def test_a_member_that_was_left_out_stays_on_record_as_left(tmp_path: Path) -> None:
    """So the same command line can be used again."""

    async def run() -> None:
        workers = ThreadWorkers("test", 1)
        file = MembershipFile(OS_DISK, tmp_path, *OWN)
        record = LocalMembership(file, workers, "a", "h:a", alone=False)
        record.expect({"a": "h:a", "b": "h:b", "c": "h:c"})
        await record.keep([told("a"), told("b", left={"d": "h:d"})])
        assert record.left == {"d": "h:d"}
        excluded_members = Status(member="a", name="a", address="h:a", without=["c"])
        await record.keep([excluded_members, told("b")])
        again = LocalMembership(file, workers, "a", "h:a", alone=False)
        assert (again.members, again.left) == ({"a": "h:a", "b": "h:b"}, {"c": "h:c", "d": "h:d"})
        await again.keep([told("a"), told("b"), told("d")])
        assert again.left == {"c": "h:c"}
        workers.close()

    asyncio.run(run())
