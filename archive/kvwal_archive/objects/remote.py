"""Objects behind an fsspec filesystem: a bucket, or any other backend that fsspec reaches."""

from __future__ import annotations

import hashlib
import io
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from kvwal_archive.errors import ArchiveError, ConfigError
from kvwal_archive.faults import (
    KeyTaken,
    ObjectMissing,
    archive_error,
    backend_errors,
    has_no_reason,
    is_refusal,
    local_errors,
    may_pass,
)
from kvwal_archive.objects.port import (
    PART_BYTES,
    Body,
    Decoded,
    Listed,
    Listing,
    Objects,
    Pieces,
    Range,
    parts_of,
    size_of,
)
from kvwal_archive.objects.ranges import RangeFile
from kvwal_archive.objects.s3_answers import checked_session
from kvwal_archive.objects.s3_closing import close_in_own_loop

T = TypeVar("T")

UNKNOWN_AGE_MS = 1 << 47
"""The far future: `modified_ms` of an object whose backend tells no time."""
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
SLOWEST_BYTES_PER_S = 128 << 10
ATTEMPTS = 3
LOOK_BYTES = 64 << 20
MOST_PARTS = 9_000
SINGLE_PUT_BYTES = 64 << 20
"""A larger file is put in parts."""
INSTALL_HINT = "Install the fsspec filesystem that serves it (s3fs for s3://)."


class RemoteObjects(Objects):
    """Objects behind an fsspec filesystem. fsspec is imported here and in `check_url`, only when a URL needs it.

    Every call has finite time-outs. A call is tried again only after a fault that may pass.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any], decoded: Decoded | None = None) -> None:
        self.url = without_credentials(url)
        self.decoded = decoded
        self._address = url
        protocol = url.partition("://")[0]
        self._is_s3 = protocol in ("s3", "s3a")
        options = _s3_options(storage_options) if self._is_s3 else dict(storage_options)
        self._options = options
        self._fs, self._root = self._connected()
        self._seen: dict[Range, bytes] | None = None
        """What one look has read; None outside of one."""

    def _connected(self) -> tuple[Any, str]:
        """A filesystem, which asks for credentials at its first request, and the path of the archive in it."""
        filesystem, root = _filesystem(self._address, self.url, self._options)
        if self._is_s3:
            if filesystem.session is None:  # s3fs says which of the options are those of a session
                session = checked_session(**filesystem.kwargs)
                filesystem, root = _filesystem(self._address, self.url, {**self._options, "session": session})
            # `_call` retries already: with nested retries a silent endpoint would hold a caller for many minutes.
            filesystem.retries = 1
            close_in_own_loop(filesystem)
        return filesystem, root

    @property
    def address(self) -> str:
        """See Objects.address."""
        return self._address

    def list(self, prefix: str) -> Listing:
        """See Objects.list."""
        folder, _, start = prefix.rpartition("/")
        narrowed = {"prefix": start} if self._is_s3 and start else {}
        path = f"{self._root}/{folder}".rstrip("/")
        try:
            infos = self._call("list", prefix, lambda: self._fs.find(path, detail=True, **narrowed, **self._loudly()))
        except ObjectMissing:
            raise self._no_bucket() from None
        listed = (_listed(name.removeprefix(self._root).lstrip("/"), info) for name, info in infos.items())
        return sorted(item for item in listed if item.key.startswith(prefix))

    def _loudly(self) -> dict[str, Any]:
        """Options of a listing that fsspec walks folder by folder: by default it leaves out a folder that it cannot list, and an
        archive that does not answer would look empty.
        """
        from fsspec import AbstractFileSystem
        from fsspec.asyn import AsyncFileSystem

        kind = type(self._fs)
        walks = kind.find is AbstractFileSystem.find or getattr(kind, "_find", None) is AsyncFileSystem._find
        return {"on_error": _raise_unless_missing} if walks else {}

    def put_if_absent(self, key: str, data: Body) -> bool:
        """See Objects.put_if_absent."""
        options = {"mode": "create", **self._limit(size_of(data))}
        try:
            if isinstance(data, Path):
                if size_of(data) > SINGLE_PUT_BYTES:
                    return self._put_file(key, data, options)
                data = data.read_bytes()
            self._call("put", key, lambda: self._fs.pipe_file(self._path(key), data, **options))
        except KeyTaken:
            return False
        except ObjectMissing:
            raise self._no_bucket() from None
        return True

    def _put_file(self, key: str, path: Path, options: dict[str, Any]) -> bool:
        """Put a large file in parts, a few of them in memory at a time. Not all stores refuse a taken key at the end of such a
        put, so the key is looked up before.
        """
        if self._is_s3:
            options |= {"chunksize": part_bytes(size_of(path)), "max_concurrency": 2}
        if self._has(key):
            return False
        self._call("put", key, lambda: self._put_parts(key, path, options))
        return True

    def _put_parts(self, key: str, path: Path, options: dict[str, Any]) -> None:
        with local_errors(path, self.url, "put", key):
            self._fs.put_file(str(path), self._path(key), **options)

    def _has(self, key: str) -> bool:
        try:
            self._info(key)
        except ObjectMissing:
            return False
        return True

    def _limit(self, size: int) -> dict[str, float]:
        """The time limit of a whole put, as an option of fsspec.

        The time-out for reading begins when all bytes were sent, so it does not catch a server that accepts the request and
        never answers "100 Continue".
        """
        if not self._fs.async_impl:
            return {}
        given = self._fs.config_kwargs if self._is_s3 else {}
        idle = given.get("connect_timeout", CONNECT_TIMEOUT_S) + given.get("read_timeout", READ_TIMEOUT_S)
        return {"timeout": idle + size / SLOWEST_BYTES_PER_S}

    def read(self, key: str) -> bytes:
        """See Objects.read."""
        return bytes(self._call("read", key, lambda: self._fs.cat_file(self._path(key))))

    def open(self, key: str) -> BinaryIO:
        """See Objects.open. Each read is one request for a range."""
        size = self._info(key)["size"]
        return io.BufferedReader(RangeFile(lambda a, b: self.read_range(key, a, b), size), buffer_size=1 << 16)

    def read_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end` of an object, by one request. Raises ObjectMissing."""
        data = self._call("read", key, lambda: self._fs.cat_file(self._path(key), start=start, end=end))
        return _of_range(bytes(data), start, end)

    def read_ranges(self, ranges: Sequence[Range]) -> Pieces:
        """See Objects.read_ranges. A range that fails is read once more by itself, with the attempts of a single read."""
        seen = {} if self._seen is None else self._seen
        wanted = [one for one in ranges if one not in seen]
        paths = [self._path(key) for key, _, _ in wanted]
        answers = self._fs.cat_ranges(paths, [one[1] for one in wanted], [one[2] for one in wanted], on_error="return")
        read = {
            one: self.read_range(*one) if isinstance(data, BaseException) else _of_range(bytes(data), one[1], one[2])
            for one, data in zip(wanted, answers, strict=True)
        }
        found = [read[one] if one in read else seen[one] for one in ranges]
        if sum(map(len, seen.values())) < LOOK_BYTES:
            seen |= read
        return found

    def for_one_look(self) -> Objects:
        """See Objects.for_one_look. About 64 MiB are kept."""
        if self._seen is not None:
            return self
        look = copy(self)
        look._seen = {}
        return look

    def fetch(self, key: str, folder: Path) -> Path:
        """See Objects.fetch. The path is a copy with a unique name."""
        path = folder / uuid.uuid4().hex
        self._call("read", key, lambda: self._get(key, path))
        return path

    def _get(self, key: str, path: Path) -> None:
        with local_errors(path, self.url, "read", key):
            self._fs.get_file(self._path(key), str(path))

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        try:
            self._call("delete", key, lambda: self._fs.rm_file(self._path(key)))
        except ObjectMissing:
            return

    def confirm(self, key: str, data: Body) -> None:
        """See Objects.confirm.

        The ETag of an encrypted object, or of one that some stores took in parts, is no MD5 of its bytes: then the object is read
        back and compared.
        """
        info = self._info(key)
        if info["size"] != size_of(data):
            raise self._differs(key, f"it has {info['size']} bytes, {size_of(data)} were put")
        if _etag(info) not in etags_of(data) and not self._has_bytes(key, data):
            raise self._differs(key, "its bytes differ")

    def _has_bytes(self, key: str, data: Body) -> bool:
        """Whether an object of the right size has these bytes. A part is read at a time."""
        if not isinstance(data, Path):
            return self.read(key) == data
        position = 0
        for part in parts_of(data):
            if self.read_range(key, position, position + len(part)) != part:
                return False
            position += len(part)
        return True

    def _no_bucket(self) -> ArchiveError:
        return ArchiveError(f"{self.url}: there is no such bucket or container.", hint="Make it, or correct the URL.")

    def _info(self, key: str) -> dict[str, Any]:
        info: dict[str, Any] = self._call("look up", key, lambda: self._fs.info(self._path(key)))
        return info

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception(may_pass),
            reraise=True,
        )
        try:
            try:
                return retrying(action)
            except tuple(backend_errors()) as error:
                if not (self._is_s3 and is_refusal(error)):
                    raise
            # Keys and tokens are renewed while a store is open: ask for them again, and try once.
            self._fs, self._root = self._connected()
            return action()
        except tuple(backend_errors()) as error:
            raise archive_error(self._with_reason(error), self.url, verb, key) from error

    def _with_reason(self, error: BaseException) -> BaseException:
        """`error`, or that of a request with an answer that says why the credentials are refused."""
        if self._is_s3 and has_no_reason(error):
            try:
                self._fs.call_s3("list_objects_v2", Bucket=self._root.partition("/")[0], MaxKeys=1)
            except tuple(backend_errors()) as told:
                return told
        return error


def _raise_unless_missing(error: OSError) -> None:
    """A folder that is not there has no objects: nothing was archived there yet."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _of_range(data: bytes, start: int, end: int) -> bytes:
    """The bytes of a range: `data`, or a part of it, if a proxy ignored the range and gave the whole object."""
    return data[start:end] if len(data) > end - start else data


def part_bytes(size: int) -> int:
    """The parts in which an object of this size is put: S3 takes 10,000 of them."""
    return max(PART_BYTES, -(-size // MOST_PARTS))


def etags_of(data: Body) -> set[str]:
    """The ETags that S3 gives these bytes: put at once, and put in parts."""
    if not isinstance(data, Path):
        return {hashlib.md5(data, usedforsecurity=False).hexdigest()}
    whole, parts = hashlib.md5(usedforsecurity=False), []
    with data.open("rb") as file:
        while part := file.read(part_bytes(size_of(data))):
            whole.update(part)
            parts.append(hashlib.md5(part, usedforsecurity=False).digest())
    return {whole.hexdigest(), f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"}


def without_credentials(url: str) -> str:
    """A URL without the user name and the secret that may stand before an @.

    A secret of S3 may hold a slash, and no bucket has a colon in its name. In a URL of Azure the container stands there.
    """
    if url.startswith(("s3://", "s3a://")):
        url = re.sub(r"//[^/@:]*:.*@", "//", url)
    if url.startswith(("abfs://", "abfss://", "az://")) and not re.match(r"\w+://[^/@]*:", url):
        return url.rstrip("/")
    return re.sub(r"//[^/@]*@", "//", url).rstrip("/")


def _s3_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of s3fs: finite time-outs and no retries of its own, unless the caller chose others.

    Listings are not cached, because other processes write to the bucket too.
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
    except (ImportError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise archive_error(error, shown, "open", "") from error
        name = shown.partition("://")[0]
        raise ConfigError(
            f"{shown}: no filesystem for {name}:// can be opened ({type(error).__name__}).",
            hint=f"{INSTALL_HINT} Or correct the URL.",
        ) from error
    return filesystem, str(root).rstrip("/")


def _listed(key: str, info: Mapping[str, Any]) -> Listed:
    return Listed(key, int(info["size"]), _etag(info), _modified_ms(info))


def _etag(info: Mapping[str, Any]) -> str | None:
    etag = info.get("ETag") or info.get("etag")
    return str(etag).strip('"') if etag else None


def _modified_ms(info: Mapping[str, Any]) -> int:
    """The time at which the object was last written, in unix milliseconds.

    It is `UNKNOWN_AGE_MS` where the backend does not say, so that the object never counts as old.
    """
    for name in ("LastModified", "mtime", "last_modified", "created", "updated"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000
        if isinstance(value, int | float):
            return int(value * 1000)
    return UNKNOWN_AGE_MS
