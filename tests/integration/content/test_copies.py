"""Contents where logs are copied: backups, merges of nodes, repairs, and readers of several nodes."""

from __future__ import annotations

from pathlib import Path

import kvwal
from kvwal.history.restore.restore import RestorePorts
from kvwal.log.files.names import log_folder
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.repair import look, repair
from kvwal_archive.layout import Place
from tests.support.cli import kvwal as run

LARGE = bytes(range(256)) * (20 << 10)
PLACE = Place("default", "local", "files", "local")


def test_a_backup_has_the_bytes_of_its_names(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        contents = store.content("files")
        contents.put("large", LARGE)
        contents.put("small", b"in a file that is still open")
        store.backup(tmp_path / "copy")
        contents.put("later", b"not in the copy")
    with kvwal.open(tmp_path / "copy", archive=None) as copy:
        contents = copy.content("files")
        assert {name: contents.get(name) for name in contents} == {
            "large": LARGE, "small": b"in a file that is still open",
        }  # fmt: skip
        contents.put("own", b"goes into a file of the copy's own")
    with kvwal.open(tmp_path / "root", archive=None) as store:
        assert sorted(store.content("files")) == ["large", "later", "small"]


def test_a_backup_that_is_tried_again_keeps_the_folders_of_large_transactions(tmp_path: Path) -> None:
    from kvwal.history.restore.backup import _Copy

    with kvwal.open(tmp_path / "root", archive=None, settings=kvwal.Settings(overflow_bytes=1 << 16)) as store:
        store.map("files").put_many(dict.fromkeys(range(200), "x" * 1000))
        store.content("files").put("small", b"bytes")
    source, target = log_folder(tmp_path / "root", PLACE), tmp_path / "target"
    for _ in range(2):
        _Copy(OS_DISK, 0).log(source, target)
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == ["content", "overflow"]


def test_a_merge_of_nodes_takes_the_bytes_along(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for node in ("one", "two"):
        with kvwal.open(root, node=node, archive=None) as store:
            store.content("files").put(f"of {node}", LARGE + node.encode())
    with kvwal.open(root, read_only=True) as both:
        assert both.content("files").get("of one") == LARGE + b"one"
        assert both.content("files").get("of two") == LARGE + b"two"
    from kvwal.store.root_nodes.merge import MergePorts, merge_nodes

    merge_nodes(MergePorts(OS_DISK, SYSTEM), root, PLACE._replace(node="one"), ["two"], lambda *_: None)
    assert not log_folder(root, PLACE._replace(node="two")).exists()
    with kvwal.open(root, node="one", archive=None) as store:
        contents = store.content("files")
        assert (contents.get("of one"), contents.get("of two")) == (LARGE + b"one", LARGE + b"two")


def test_a_repair_takes_the_bytes_along(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.content("files").put("large", LARGE)
        store.content("files").put("small", b"bytes")
    ports = RestorePorts(OS_DISK, SYSTEM)
    log = look(ports, tmp_path / "root", PLACE, None, entry_decoder())
    repair(ports, tmp_path / "repaired", [log], None, take_over=False)
    with kvwal.open(tmp_path / "repaired", archive=None) as store:
        assert store.content("files").get("large") == LARGE
        assert store.content("files").get("small") == b"bytes"


def test_verify_and_doctor_know_the_claim_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root) as store:
        store.content("files").put("large", LARGE)
        store.content("files").put("small", b"bytes")
        store.archive()
    assert run("log", "verify", str(root)).code == 0
    assert "no file of kvwal" not in run("doctor", str(root)).out
    (path,) = (path for path in (root / "/".join(PLACE) / "content").glob("*/*") if path.stat().st_size > 1 << 20)
    path.write_bytes(LARGE[:-1] + b"?")
    told = run("log", "verify", str(root))
    assert (told.code, "the content 'large': 5,242,880 bytes from byte 0 on" in told.out) == (4, True)
    path.write_bytes(LARGE[:-1])
    told = run("doctor", str(root))
    assert (told.code, "the content 'large': the file ends 1 byte too early" in told.out) == (1, True)
    path.unlink()
    assert "'large'" not in run("doctor", str(root)).out, "the archive has it"
    assert "the content 'large': the file is missing" in run("doctor", str(root), "--archive", "none").out
    assert run("log", "verify", str(root)).code == 0, "the archive has it"
    told = run("log", "verify", str(root), "--archive", "none")
    assert (told.code, "the content 'large': the file is missing" in told.out) == (4, True)
