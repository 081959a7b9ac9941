"""The archive's one door to files: immutable objects in a local folder, or in anything that fsspec reaches.

An object is put only if its key is absent and is never changed afterwards. Locally that is a temporary file, fsync,
`link()` and fsync of the folders; in a bucket it is `If-None-Match: *`. Whatever a store throws becomes an
ArchiveError with a sentence (`archive.faults`), and neither the sentence nor a repr ever holds a key or a
secret. fsspec is imported when a URL needs it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from archive.errors import ArchiveDamaged, ArchiveError, ConfigError
from archive.faults import KeyTaken, ObjectMissing, as_ours, foreign_errors, may_pass, our_error

T = TypeVar("T")

NEVER_OLD_MS = 1 << 47
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
SLOWEST_BYTES_PER_S = 128 << 10
ATTEMPTS = 3
_SCHEME = re.compile(r"[a-z][a-z0-9+]+")
_INSTALL = "Install the fsspec filesystem that serves it (s3fs for s3://)."


class Listed(NamedTuple):
    """One object of a listing. `modified_ms` is unix milliseconds by the store's own clock; `etag` is None where
    there is none.
    """

    key: str
    size: int
    etag: str | None
    modified_ms: int


Listing = list[Listed]
Names = list[str]


class Objects(ABC):
    """A store of immutable objects under one URL. Keys are the relative names that `archive.layout` builds."""

    url: str

    def __repr__(self) -> str:
        return f"<archive {self.url}>"

    @abstractmethod
    def list(self, prefix: str) -> Listing:
        """Every object whose key begins with `prefix`, sorted by key; none is an empty list. Raises ArchiveError."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Stores `data` durably, or returns False because there is an object already, which stays as it is."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """All bytes of an object. Raises ObjectMissing."""

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """A seekable file over an object, to read parts of it. Raises ObjectMissing."""

    @abstractmethod
    def fetch(self, key: str, folder: Path) -> Path:
        """A local file with the bytes of an object: the object itself, or a copy made in `folder`. Raises
        ObjectMissing.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes an object; one that is gone already is no error."""

    @abstractmethod
    def confirm(self, key: str, data: bytes) -> None:
        """Returns if what is stored has the size and the checksum of `data`; otherwise raises ArchiveDamaged or
        ObjectMissing.
        """

    def sweep(self, prefix: str, before_ms: int) -> Names:
        """Removes what a killed `put_if_absent` left behind before `before_ms`, and returns the names."""
        return []

    def prune(self, prefix: str) -> None:
        """Removes the folder of that name, and those above it, that are empty: where there are folders."""
        return

    def _differs(self, key: str, what: str) -> ArchiveDamaged:
        return ArchiveDamaged(
            f"{self.url}: {key} is not what was put there: {what}.",
            hint="Nothing relies on it yet; `kvwal archive verify` lists what is damaged.",
        )


def open_objects(url: str, storage_options: Mapping[str, Any] | None = None) -> Objects:
    """The store at `url`: a path, `file://…`, or a URL of any fsspec filesystem. Nothing is read or made yet.

    `storage_options` go to the filesystem; for s3:// the usual AWS_* variables of the environment serve as well. Raises
    ConfigError for a URL that no installed filesystem serves.
    """
    check_url(url)
    if url.startswith("file://"):
        return LocalObjects(url.removeprefix("file://"))
    return RemoteObjects(url, storage_options or {}) if "://" in url else LocalObjects(url)


def check_url(url: str) -> None:
    """ConfigError if `url` is a mistyped one that would become a local folder, or has a scheme that fsspec does not know."""
    scheme, found, rest = url.partition(":/")
    if _SCHEME.fullmatch(scheme) and found and not rest.startswith("/"):
        raise ConfigError(
            f"the archive {scheme}:/… begins like a URL, with one slash, and would become a folder here.",
            hint=f"Write {scheme}://…, or ./{scheme}:/… if a folder is meant.",
        )
    if "://" not in url or url.startswith("file://"):
        return
    from fsspec.registry import known_implementations, registry

    unknown = [part for part in scheme.split("::") if part not in registry and part not in known_implementations]
    if unknown:
        raise ConfigError(
            f"{_shown(url)}: no filesystem for {unknown[0]}:// is known.", hint=f"Correct the URL. {_INSTALL}"
        )


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for copies and spilled rows, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="kvwal-archive-") as folder:
        yield Path(folder)


def open_copy(path: Path) -> BinaryIO:
    """A seekable file over what `Objects.fetch` returned. Raises ObjectMissing if it was removed since."""
    with as_ours(str(path.parent), "open", path.name):
        return path.open("rb")


class LocalObjects(Objects):
    """Objects as files of a local folder. Names that begin with a dot are unfinished puts and are never listed."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).absolute()
        self.url = str(self._root)

    def list(self, prefix: str) -> Listing:
        """See Objects.list."""
        folder = self._root / prefix.rpartition("/")[0]
        found = [self._listed(path) for path in self._files(folder)]
        return sorted(item for item in found if item is not None and item.key.startswith(prefix))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See Objects.put_if_absent."""
        path = self._root / key
        with self._faults("put", key):
            self._make_folder(path.parent)
            fresh = self._link_new(path, data)
            self._sync_folders(path)
        return fresh

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error

    def _link_new(self, path: Path, data: bytes) -> bool:
        if path.exists():
            return False
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(partial, path)
        except FileExistsError:
            return False
        finally:
            partial.unlink(missing_ok=True)
        return True

    def _sync_folders(self, path: Path) -> None:
        """Makes the name durable. Always the whole way up: a folder that is there may have been made by a process
        that was killed before its own fsync. A folder above the archive that may not be opened was not made by one.
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
        with self._faults("read", key):
            return (self._root / key).read_bytes()

    def open(self, key: str) -> BinaryIO:
        """See Objects.open."""
        with self._faults("open", key):
            return (self._root / key).open("rb")

    def fetch(self, key: str, folder: Path) -> Path:
        """See Objects.fetch: the object itself."""
        with self._faults("read", key):
            (self._root / key).stat()
        return self._root / key

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        with self._faults("delete", key):
            (self._root / key).unlink(missing_ok=True)

    def confirm(self, key: str, data: bytes) -> None:
        """See Objects.confirm."""
        stored = self.read(key)
        if stored != data:
            raise self._differs(key, f"{len(stored)} bytes were read back, {len(data)} were put")

    def sweep(self, prefix: str, before_ms: int) -> Names:
        """See Objects.sweep."""
        swept = []
        for path in self._files(self._root / prefix, unfinished=True):
            with self._faults("delete", path.name):
                if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                    path.unlink(missing_ok=True)
                    swept.append(path.relative_to(self._root).as_posix())
        return swept

    def prune(self, prefix: str) -> None:
        """See Objects.prune. A put at that moment fails, because its folder went, and its caller tries again."""
        folder = self._root / prefix
        with self._faults("delete", prefix):
            while folder != self._root and _removed(folder):
                folder = folder.parent

    def _files(self, folder: Path, unfinished: bool = False) -> Iterator[Path]:
        with self._faults("list", folder.name):
            if folder.exists() and not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            for parent, _, names in os.walk(folder, onerror=_raise_unless_gone):
                yield from (Path(parent, name) for name in names if name.startswith(".") == unfinished)

    def _listed(self, path: Path) -> Listed | None:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return None
        return Listed(path.relative_to(self._root).as_posix(), stat.st_size, None, stat.st_mtime_ns // 1_000_000)

    def _faults(self, verb: str, key: str) -> AbstractContextManager[None]:
        return as_ours(self.url, verb, key)


def _removed(folder: Path) -> bool:
    """Whether a folder is gone now: one that is not empty stays."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


class RemoteObjects(Objects):
    """Objects behind an fsspec filesystem. Every call has finite time-outs; only faults that may pass are tried
    again.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any]) -> None:
        self.url = _shown(url)
        protocol = url.partition("://")[0]
        self._is_s3 = protocol in ("s3", "s3a")
        options = _s3_options(storage_options) if self._is_s3 else dict(storage_options)
        self._fs, self._root = _filesystem(url, self.url, options)
        if self._is_s3:
            # `_call` tries again; twice nested, a silent endpoint would hold a caller for many minutes.
            self._fs.retries = 1

    def list(self, prefix: str) -> Listing:
        """See Objects.list."""
        folder, _, start = prefix.rpartition("/")
        narrowed = {"prefix": start} if self._is_s3 and start else {}
        path = f"{self._root}/{folder}".rstrip("/")
        try:
            found = self._call("list", prefix, lambda: self._fs.find(path, detail=True, **narrowed))
        except ObjectMissing:
            raise self._no_bucket() from None
        listed = (_listed(name.removeprefix(self._root).lstrip("/"), info) for name, info in found.items())
        return sorted(item for item in listed if item.key.startswith(prefix))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See Objects.put_if_absent."""
        try:
            options = {"mode": "create", **self._limit(data)}
            self._call("put", key, lambda: self._fs.pipe_file(self._path(key), data, **options))
        except KeyTaken:
            return False
        except ObjectMissing:
            raise self._no_bucket() from None
        return True

    def _limit(self, data: bytes) -> dict[str, float]:
        """How long a put may take in all. A server that accepts it and never says "100 Continue" is not caught by the
        time-out for reading, which begins when everything was sent.
        """
        if not self._fs.async_impl:
            return {}
        given = self._fs.config_kwargs if self._is_s3 else {}
        idle = given.get("connect_timeout", CONNECT_TIMEOUT_S) + given.get("read_timeout", READ_TIMEOUT_S)
        return {"timeout": idle + len(data) / SLOWEST_BYTES_PER_S}

    def read(self, key: str) -> bytes:
        """See Objects.read."""
        return bytes(self._call("read", key, lambda: self._fs.cat_file(self._path(key))))

    def open(self, key: str) -> BinaryIO:
        """See Objects.open. Each read is one request for a range."""
        size = self._info(key)["size"]
        return io.BufferedReader(_Ranges(lambda a, b: self._range(key, a, b), size), buffer_size=1 << 16)

    def _range(self, key: str, start: int, end: int) -> bytes:
        return bytes(self._call("read", key, lambda: self._fs.cat_file(self._path(key), start=start, end=end)))

    def fetch(self, key: str, folder: Path) -> Path:
        """See Objects.fetch: a copy under a name of its own."""
        copy = folder / uuid.uuid4().hex
        self._call("read", key, lambda: self._fs.get_file(self._path(key), str(copy)))
        return copy

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        try:
            self._call("delete", key, lambda: self._fs.rm_file(self._path(key)))
        except ObjectMissing:
            return

    def confirm(self, key: str, data: bytes) -> None:
        """See Objects.confirm. An ETag that is not the MD5 (a multipart or an encrypted object) is settled by reading
        back.
        """
        info = self._info(key)
        if info["size"] != len(data):
            raise self._differs(key, f"it has {info['size']} bytes, {len(data)} were put")
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if _etag(info) != digest and self.read(key) != data:
            raise self._differs(key, "its bytes differ")

    def _no_bucket(self) -> ArchiveError:
        return ArchiveError(f"{self.url}: there is no such bucket or container.", hint="Make it, or correct the URL.")

    def _info(self, key: str) -> dict[str, Any]:
        info: dict[str, Any] = self._call("look up", key, lambda: self._fs.info(self._path(key)))
        return info

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception(may_pass),
            reraise=True,
        )
        try:
            return retrying(action)
        except tuple(foreign_errors()) as error:
            raise our_error(error, self.url, verb, key) from error


class _Ranges(io.RawIOBase):
    """A seekable, read-only file whose bytes come from `read_range(start, end)`."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        self._read_range = read_range
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        data = self._read_range(self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _shown(url: str) -> str:
    """A URL without what stands before an @ in it, which may be a secret."""
    return re.sub(r"//[^/@]*@", "//", url).rstrip("/")


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _s3_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Finite time-outs and no retries below ours, unless the caller chose others; nothing cached, because others
    write too.
    """
    limits = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": READ_TIMEOUT_S,
        "retries": {"total_max_attempts": 1},
    }
    config = {**limits, **given.get("config_kwargs", {})}
    return {"use_listings_cache": False, "skip_instance_cache": True, **given, "config_kwargs": config}


def _filesystem(url: str, shown: str, options: dict[str, Any]) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        filesystem, root = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        name = shown.partition("://")[0]
        raise ConfigError(
            f"{shown}: no filesystem for {name}:// can be opened ({type(error).__name__}).",
            hint=f"{_INSTALL} Or correct the URL.",
        ) from error
    return filesystem, str(root).rstrip("/")


def _listed(key: str, info: Mapping[str, Any]) -> Listed:
    return Listed(key, int(info["size"]), _etag(info), _modified_ms(info))


def _etag(info: Mapping[str, Any]) -> str | None:
    etag = info.get("ETag") or info.get("etag")
    return str(etag).strip('"') if etag else None


def _modified_ms(info: Mapping[str, Any]) -> int:
    """When the object was made; where the store does not say, the far future, so that it is never taken for an old
    one.
    """
    for name in ("LastModified", "mtime", "last_modified", "created", "updated"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return NEVER_OLD_MS
