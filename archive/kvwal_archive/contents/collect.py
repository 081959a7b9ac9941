"""Removal of claim files that no entry in the archive names any more.

Nothing is counted by hand: what names a file is read from the objects of all nodes each time. A file goes only if it is older
than the grace period, and older than what every registered node has archived: an entry that is in no object yet names a file
that an entry in an object names, too, or one that is younger than the object. A file that was put before its entry was logged
(`layout.PUT_FIRST`) goes only if all nodes are archived up to a time at which no such entry can be logged any more.
"""

from __future__ import annotations

from kvwal_archive.contents.claims import named_files
from kvwal_archive.layout import content_folder, parse_claim_file_key
from kvwal_archive.objects import Objects


def gc_contents(
    objects: Objects, namespace: str, cluster: str, business: str, *, now_ms: int, grace_ms: int
) -> list[str]:
    """Remove the claim files of a business that nothing names, and return their keys. Raises as `named_files`."""
    where = (namespace, cluster, business)
    folder, before_ms = content_folder(*where), now_ms - grace_ms
    old = [item for item in objects.list(folder) if item.modified_ms <= before_ms]
    removed: list[str] = []
    if old:
        named = named_files(objects, where)
        for item in old:
            parsed = parse_claim_file_key(item.key)
            if parsed is not None and named.may_go(parsed[3], item.modified_ms):
                objects.delete(item.key)
                removed.append(item.key)
    return [*removed, *objects.remove_unfinished(folder.rstrip("/"), before_ms)]
