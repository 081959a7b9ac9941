"""An archive in a folder of a file system, or of a user, that does not allow everything."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwal_archive.errors import ArchiveError
from kvwal_archive.objects import open_objects

NOBODY = 65534
UNPRIVILEGED = """
import os, sys
from kvwal_archive.errors import ArchiveError
from kvwal_archive.objects import open_objects
objects = open_objects(sys.argv[1])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print([item.key for item in objects.list("")])
    objects.put_if_absent("b", b"2")
except ArchiveError as error:
    print(error)
"""


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on vfat and exfat."""

    def link(old: Path, new: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(old))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.usefixtures("no_links")
def test_without_hard_links_an_object_is_put_once_and_nothing_is_left(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    assert objects.put_if_absent("a/b", b"first")
    assert not objects.put_if_absent("a/b", b"second")
    assert objects.read("a/b") == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


@pytest.mark.usefixtures("no_links")
def test_without_hard_links_one_of_many_who_put_one_key_wins(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    for round_number in range(10):
        barrier = threading.Barrier(4)
        won: list[int] = []

        def put(
            number: int, key: str = f"a/{round_number}", all_ready: threading.Barrier = barrier, won: list[int] = won
        ) -> None:
            all_ready.wait()
            if objects.put_if_absent(key, b"%d" % number):
                won.append(number)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [objects.read(f"a/{round_number}")] == [b"%d" % number for number in won]


@pytest.mark.usefixtures("no_links")
def test_a_file_system_that_can_put_no_new_name_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(old: Path, new: Path) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(new))

    monkeypatch.setattr("kvwal_archive.objects.new_names._rename_new", rename)
    with pytest.raises(ArchiveError, match=r"file system without hard links .* another file system") as caught:
        open_objects(str(tmp_path)).put_if_absent("a/b", b"1")
    assert "AWS" not in str(caught.value)
    assert not list((tmp_path / "a").iterdir())


@pytest.fixture
def folder() -> Iterator[Path]:
    """An archive that other users can read."""
    with tempfile.TemporaryDirectory(prefix="kvwal-archive-") as made:
        os.chmod(made, 0o755)
        open_objects(made).put_if_absent("a", b"1")
        yield Path(made)


def listed_by_another_user(folder: Path) -> str:
    ran = subprocess.run([sys.executable, "-c", UNPRIVILEGED, folder], capture_output=True, text=True, check=True)
    return ran.stdout


def test_the_lost_and_found_of_a_disk_is_no_part_of_an_archive(folder: Path) -> None:
    (folder / "lost+found").mkdir(mode=0o700)
    assert listed_by_another_user(folder).startswith("['a']\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root has files of another user")
def test_a_folder_that_another_user_owns_says_so_and_speaks_of_no_bucket(folder: Path) -> None:
    said = listed_by_another_user(folder)
    assert f"{folder}: this user may not put b (Permission denied: {folder}/" in said
    assert "Mend the owner and the mode" in said
    assert "AWS" not in said
    (folder / "private").mkdir(mode=0o700)
    assert "this user may not list" in listed_by_another_user(folder)
