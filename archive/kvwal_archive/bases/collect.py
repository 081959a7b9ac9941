"""Removal of bases: superseded ones, ones that no longer fit the objects, and half ones. No object of a log is touched.

A commit goes before its parts, so a base that is being removed is never taken for a whole one.
"""

from __future__ import annotations

from kvwal_archive.bases.select import BaseFiles, LogRead, base_files, fits, newest_first, read_base
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import BaseName, base_folder
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import NewerFormat
from kvwal_archive.reader import covered, listed_again, live_objects
from kvwal_archive.registry import registered


def gc_bases(objects: Objects, namespace: str, cluster: str, business: str, *, now_ms: int, grace_ms: int) -> list[str]:
    """Remove the files of bases that no read begins with any more, and return their keys.

    A base goes if a newer one that fits was made at least `grace_ms` ago, by the backend's clock; or if it no longer fits the
    objects, and is as old as that. Parts without a commit go when they are as old. A damaged commit, that of a newer version, and
    the parts of both stay. While a range of a log is missing, no base goes. Raises ArchiveError.
    """
    where = (namespace, cluster, business)
    folder, before_ms = base_folder(*where), now_ms - grace_ms
    listed = objects.list(folder)
    if not listed:
        return []
    removed = _over(objects, where, base_files(listed), before_ms)
    for files in base_files(objects.list(folder)).values():
        if files.commit is None:
            removed += [item.key for item in files.parts.values() if item.modified_ms <= before_ms]
    for key in removed:
        objects.delete(key)
    return [*removed, *objects.remove_unfinished(folder.rstrip("/"), before_ms)]


def remove_bases(objects: Objects, namespace: str, cluster: str, business: str) -> None:
    """Remove every file of the business's bases, commits first."""
    listed = objects.list(base_folder(namespace, cluster, business))
    for item in sorted(listed, key=lambda item: item.key.endswith(".parquet")):
        objects.delete(item.key)
    objects.prune(base_folder(namespace, cluster, business).rstrip("/"))


def _over(objects: Objects, where: tuple[str, str, str], found: dict[BaseName, BaseFiles], before_ms: int) -> list[str]:
    """The keys of the bases that may go, each commit before its parts."""
    logs = listed_again(lambda: _logs(objects, where))
    if any(covered(log.infos).gaps for log in logs.values()):
        return []
    keys: list[str] = []
    is_superseded = False
    for name, files in newest_first(found):
        commit = files.commit
        try:
            base = read_base(objects, name, files)
        except (ArchiveDamaged, NewerFormat):
            continue
        is_old = commit is not None and commit.modified_ms <= before_ms
        does_fit = base is not None and fits(base, logs)
        if commit is not None and (is_superseded or (is_old and not does_fit)):
            keys += [commit.key, *(item.key for item in files.parts.values())]
        is_superseded = is_superseded or (is_old and does_fit)
    return keys


def _logs(objects: Objects, where: tuple[str, str, str]) -> dict[str, LogRead]:
    return {place.node: LogRead(live_objects(objects, place)) for place in registered(objects, *where)}
