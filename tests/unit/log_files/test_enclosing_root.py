"""The root of the store that a folder is a part of: found by a log below, and never invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwal.log.files.names import enclosing_root
from kvwal.ports.disk import OsDisk


class Folders(OsDisk):
    """A disk with these folders and files, of which one folder may not be looked into."""

    def __init__(self, files: list[str], closed: str = "/none") -> None:
        super().__init__()
        self._files = [Path(file) for file in files]
        self._closed = Path(closed)

    def names(self, folder: Path) -> list[str]:
        return sorted({file.relative_to(folder).parts[0] for file in self._files if file.is_relative_to(folder)})

    def is_folder(self, path: Path) -> bool:
        if path.is_relative_to(self._closed):
            raise PermissionError(13, "Permission denied", str(path))
        return path not in self._files and any(file.is_relative_to(path) for file in self._files)


@pytest.mark.parametrize("folder", ["/", "/a", "/a/b"])
def test_a_stray_segment_near_the_top_is_no_store(folder: str) -> None:
    stray = f"{folder.rstrip('/')}/{1:020}.wal"
    assert enclosing_root(Folders([stray]), Path(folder)) is None
    within = f"/r/n/c/m/node/{1:020}.wal"
    assert enclosing_root(Folders([within]), Path("/r/n/c")) == Path("/r")


def test_a_folder_that_may_not_be_entered_is_passed_over() -> None:
    assert enclosing_root(Folders(["/r/n/c/file"], closed="/r/n/c"), Path("/r/n")) is None
