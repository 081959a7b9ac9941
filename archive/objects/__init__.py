"""The archive's port to files: a store of immutable objects, in a local folder or behind an fsspec filesystem.

An object is put only if its key is absent, and is never changed afterwards. A local put is a temporary file, fsync,
`link()` and fsync of the folders; a put into a bucket is a request with `If-None-Match: *`. Every error of a backend
becomes an `ArchiveError` with a sentence (`archive.faults`). No sentence and no repr holds a key or a secret.
"""

from archive.objects.local import LocalObjects
from archive.objects.locations import check_url, open_objects
from archive.objects.port import Listed, Listing, Names, Objects, Range, open_copy, scratch
from archive.objects.remote import RemoteObjects, without_credentials

__all__ = [
    "Listed",
    "Listing",
    "LocalObjects",
    "Names",
    "Objects",
    "Range",
    "RemoteObjects",
    "check_url",
    "open_copy",
    "open_objects",
    "scratch",
    "without_credentials",
]
