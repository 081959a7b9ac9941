"""The archive's port to files: a store of immutable objects, in a local folder or behind an fsspec filesystem.

An object is put only if its key is absent, and is never changed afterwards. A local put is a temporary file, fsync,
`link()` and fsync of the folders; a put into a bucket is a request with `If-None-Match: *`. Every error of a backend
becomes an `ArchiveError` with a sentence (`kvwal_archive.faults`). No sentence and no repr holds a key or a secret.
"""

from kvwal_archive.objects.local import LocalObjects
from kvwal_archive.objects.locations import check_url, open_objects
from kvwal_archive.objects.look import Known, OneLook
from kvwal_archive.objects.port import Decoded, Listed, Listing, Names, Objects, Range, open_copy, scratch
from kvwal_archive.objects.remote import RemoteObjects, without_credentials
from kvwal_archive.objects.typed import address_of, typed_path

__all__ = [
    "Decoded",
    "Known",
    "Listed",
    "Listing",
    "LocalObjects",
    "Names",
    "Objects",
    "OneLook",
    "Range",
    "RemoteObjects",
    "address_of",
    "check_url",
    "open_copy",
    "open_objects",
    "scratch",
    "typed_path",
    "without_credentials",
]
