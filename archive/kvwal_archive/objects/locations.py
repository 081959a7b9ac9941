"""The URL of an archive: how it is checked, and which object store it opens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvwal_archive.errors import ConfigError
from kvwal_archive.objects.local import LocalObjects
from kvwal_archive.objects.port import Decoded, Objects
from kvwal_archive.objects.remote import INSTALL_HINT, RemoteObjects, without_credentials
from kvwal_archive.objects.typed import typed_path

_WITH_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "az")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+]+")


def open_objects(url: str, storage_options: Mapping[str, Any] | None = None, decoded: Decoded | None = None) -> Objects:
    """The object store at `url`: a path (`~` is the home), `file://…`, or a URL of any fsspec filesystem. Nothing is read or
    created yet.

    `storage_options` go to the filesystem; for s3:// the usual AWS_* environment variables serve as well. `decoded` keeps what
    a reader that stays open reads again and again. Raises ConfigError for a URL that no installed filesystem serves.
    """
    check_url(url)
    if url.startswith("file://"):
        return LocalObjects(url.removeprefix("file://"), decoded)
    if "://" in url:
        return RemoteObjects(url, storage_options or {}, decoded)
    return LocalObjects(str(typed_path("archive", url)), decoded)


def check_url(url: str) -> None:
    """Check the form of an archive's URL.

    Raises ConfigError for a mistyped URL that would become a local folder, for a URL without a bucket or an absolute path, and
    for a scheme that fsspec does not know.
    """
    scheme, separator, rest = url.partition(":/")
    if _SCHEME.fullmatch(scheme) and separator and not rest.startswith("/"):
        raise ConfigError(
            f"the archive {scheme}:/… begins like a URL, with one slash, and would become a folder here.",
            hint=f"Write {scheme}://…, or ./{scheme}:/… if a folder is meant.",
        )
    if "://" not in url:
        return
    _check_name(scheme, rest.removeprefix("/"))
    if scheme == "file":
        return
    from fsspec.registry import known_implementations, registry

    if scheme.lower() == "kvwal":
        raise ConfigError(
            f"{url} is the address of a cluster, and an archive is a folder or a bucket.",
            hint="Name the archive that the nodes of the cluster were started with.",
        )
    unknown = [part for part in scheme.split("::") if part not in registry and part not in known_implementations]
    if unknown:
        raise ConfigError(
            f"{without_credentials(url)}: no filesystem for {unknown[0]}:// is known.",
            hint=f"Write {unknown[0].lower()}://, in small letters."
            if unknown[0].lower() in known_implementations
            else f"Correct the URL. {INSTALL_HINT}",
        )


def _check_name(scheme: str, name: str) -> None:
    """Check what stands after `scheme://`: it would be the current folder, or no bucket."""
    if scheme == "file" and not name.startswith("/"):
        raise ConfigError(
            f"the archive file://{name} names no absolute path.", hint="Write file:///…, or the folder alone."
        )
    if not name or (scheme in _WITH_BUCKETS and name.startswith("/")):
        raise ConfigError(f"the archive {scheme}://{name} names no bucket.", hint=f"Write {scheme}://BUCKET/PREFIX.")
