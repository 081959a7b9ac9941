"""Objects as files of a local folder."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO

from kvwal_archive.faults import archive_errors
from kvwal_archive.objects.new_names import link_new
from kvwal_archive.objects.owner import give_file, make_folders
from kvwal_archive.objects.port import Body, Decoded, Listed, Listing, Names, Objects, Pieces, Range, parts_of, size_of

_LOST_FOUND = "lost+found"


class LocalObjects(Objects):
    """Objects as files of a local folder. Names that begin with a dot are unfinished puts and are never listed."""

    copies_on_fetch = False

    def __init__(self, root: str, decoded: Decoded | None = None) -> None:
        self._root = Path(root).absolute()
        self.decoded = decoded
        self.url = str(self._root)

    def list(self, prefix: str) -> Listing:
        """See Objects.list."""
        folder = self._root / prefix.rpartition("/")[0]
        listed = [self._listed(path) for path in self._files(folder)]
        return sorted(item for item in listed if item is not None and item.key.startswith(prefix))

    def put_if_absent(self, key: str, data: Body) -> bool:
        """See Objects.put_if_absent."""
        path = self._root / key
        with self._translated("put", key):
            self._make_folder(path.parent)
            fresh = self._link_new(path, data)
            self._sync_folders(path)
        return fresh

    def _make_folder(self, folder: Path) -> None:
        try:
            make_folders(folder, 0o777)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error

    def _link_new(self, path: Path, data: Body) -> bool:
        if path.exists():
            return False
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.open("xb") as file:
                give_file(file.fileno(), partial.parent, 0o666)
                file.writelines(parts_of(data))
                file.flush()
                os.fsync(file.fileno())
            link_new(partial, path)
        except FileExistsError:
            return False
        finally:
            partial.unlink(missing_ok=True)
        return True

    def _sync_folders(self, path: Path) -> None:
        """Make the name durable: fsync every folder above it, up to the root of the disk.

        An existing folder counts too: a process that was killed before its own fsync may have created it. A folder above the
        archive that this process may not open was not created by such a process, so the fsyncs end there.
        """
        for folder in path.parents:
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except PermissionError:
                if folder in self._root.parents:
                    return
                raise
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, key: str) -> bytes:
        """See Objects.read."""
        with self._translated("read", key):
            return (self._root / key).read_bytes()

    def open(self, key: str) -> BinaryIO:
        """See Objects.open."""
        with self._translated("open", key):
            return (self._root / key).open("rb")

    def read_ranges(self, ranges: Sequence[Range]) -> Pieces:
        """See Objects.read_ranges."""
        return [self._read_range(*one) for one in ranges]

    def _read_range(self, key: str, start: int, end: int) -> bytes:
        with self._translated("read", key), (self._root / key).open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def fetch(self, key: str, folder: Path) -> Path:
        """See Objects.fetch. The path is the object itself."""
        with self._translated("read", key):
            (self._root / key).stat()
        return self._root / key

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        with self._translated("delete", key):
            (self._root / key).unlink(missing_ok=True)

    def confirm(self, key: str, data: Body) -> None:
        """See Objects.confirm."""
        with self._translated("read", key), self.open(key) as file:
            if all(file.read(len(part)) == part for part in parts_of(data)) and not file.read(1):
                return
            size = file.seek(0, os.SEEK_END)
        raise self._differs(key, f"{size} bytes were read back, {size_of(data)} were put")

    def remove_unfinished(self, prefix: str, before_ms: int) -> Names:
        """See Objects.remove_unfinished."""
        removed = []
        for path in self._files(self._root / prefix, unfinished=True):
            # A put that finishes meanwhile removes its own file.
            with self._translated("delete", path.name), suppress(FileNotFoundError):
                if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                    path.unlink()
                    removed.append(path.relative_to(self._root).as_posix())
        return removed

    def prune(self, prefix: str) -> None:
        """See Objects.prune. A concurrent put fails, because its folder is gone, and its caller tries again."""
        folder = self._root / prefix
        with self._translated("delete", prefix):
            while folder != self._root and _removed(folder):
                folder = folder.parent

    def _files(self, folder: Path, unfinished: bool = False) -> Iterator[Path]:
        with self._translated("list", folder.name):
            if folder.exists() and not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            for parent, _, names in os.walk(folder, onerror=self._raise_unless_gone):
                yield from (Path(parent, name) for name in names if name.startswith(".") == unfinished)

    def _raise_unless_gone(self, error: OSError) -> None:
        # Only root can read lost+found; each ext4 file system has one at its root.
        is_lost_found = error.filename == str(self._root / _LOST_FOUND)
        if not isinstance(error, FileNotFoundError) and not is_lost_found:
            raise error

    def _listed(self, path: Path) -> Listed | None:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return None
        return Listed(path.relative_to(self._root).as_posix(), stat.st_size, None, stat.st_mtime_ns // 1_000_000)

    def _translated(self, verb: str, key: str) -> AbstractContextManager[None]:
        return archive_errors(self.url, verb, key)


def _removed(folder: Path) -> bool:
    """Remove a folder if it is empty, and return whether it is gone."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
