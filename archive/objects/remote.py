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

from archive.errors import ArchiveError, ConfigError
from archive.faults import KeyTaken, ObjectMissing, archive_error, backend_errors, may_pass
from archive.objects.port import Listed, Listing, Objects, Pieces, Range
from archive.objects.ranges import RangeFile

T = TypeVar("T")

UNKNOWN_AGE_MS = 1 << 47
"""The far future: `modified_ms` of an object whose backend tells no time."""
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
SLOWEST_BYTES_PER_S = 128 << 10
ATTEMPTS = 3
LOOK_BYTES = 64 << 20
INSTALL_HINT = "Install the fsspec filesystem that serves it (s3fs for s3://)."


class RemoteObjects(Objects):
    """Objects behind an fsspec filesystem. fsspec is imported here and in `check_url`, only when a URL needs it.

    Every call has finite time-outs. A call is tried again only after a fault that may pass.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any]) -> None:
        self.url = without_credentials(url)
        self._address = url
        protocol = url.partition("://")[0]
        self._is_s3 = protocol in ("s3", "s3a")
        options = _s3_options(storage_options) if self._is_s3 else dict(storage_options)
        self._fs, self._root = _filesystem(url, self.url, options)
        self._seen: dict[Range, bytes] | None = None
        """What one look has read; None outside of one."""
        if self._is_s3:
            # `_call` retries already: with nested retries a silent endpoint would hold a caller for many minutes.
            self._fs.retries = 1

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
            infos = self._call("list", prefix, lambda: self._fs.find(path, detail=True, **narrowed))
        except ObjectMissing:
            raise self._no_bucket() from None
        listed = (_listed(name.removeprefix(self._root).lstrip("/"), info) for name, info in infos.items())
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
        """The time limit of a whole put, as an option of fsspec.

        The time-out for reading begins when all bytes were sent, so it does not catch a server that accepts the request and
        never answers "100 Continue".
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
        return io.BufferedReader(RangeFile(lambda a, b: self.read_range(key, a, b), size), buffer_size=1 << 16)

    def read_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end` of an object, by one request. Raises ObjectMissing."""
        return bytes(self._call("read", key, lambda: self._fs.cat_file(self._path(key), start=start, end=end)))

    def read_ranges(self, ranges: Sequence[Range]) -> Pieces:
        """See Objects.read_ranges. A range that fails is read once more by itself, with the attempts of a single read."""
        seen = {} if self._seen is None else self._seen
        wanted = [one for one in ranges if one not in seen]
        paths = [self._path(key) for key, _, _ in wanted]
        answers = self._fs.cat_ranges(paths, [one[1] for one in wanted], [one[2] for one in wanted], on_error="return")
        read = {
            one: self.read_range(*one) if isinstance(data, BaseException) else bytes(data)
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
        self._call("read", key, lambda: self._fs.get_file(self._path(key), str(path)))
        return path

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        try:
            self._call("delete", key, lambda: self._fs.rm_file(self._path(key)))
        except ObjectMissing:
            return

    def confirm(self, key: str, data: bytes) -> None:
        """See Objects.confirm.

        The ETag of a multipart or an encrypted object is not the MD5 of its bytes: then the object is read back and compared.
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
            return retrying(action)
        except tuple(backend_errors()) as error:
            raise archive_error(error, self.url, verb, key) from error


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
    except (ImportError, ValueError) as error:
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
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return UNKNOWN_AGE_MS
