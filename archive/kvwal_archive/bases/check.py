"""The check of bases, as part of the verification of an archive: every byte of every part, and every commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvwal_archive.bases.record import Base
from kvwal_archive.bases.select import BaseFiles, base_files, read_base
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import BaseName, base_folder, base_key
from kvwal_archive.objects import Listed, Objects
from kvwal_archive.parquet.rows import NewerFormat, ObjectInfo
from kvwal_archive.verify import ArchiveFault, Checked, Notes, Progress, Report, check_all


def verify_bases(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    progress: Progress | None = None,
    notes: Notes | None = None,
) -> Report:
    """Check the bases of a business: each part to its last byte, each commit, and that a commit has its parts.

    Parts without a commit are no fault: a base is being made, or its maker was killed. Arguments are those of `verify`.
    """
    listed = objects.list(base_folder(namespace, cluster, business))
    what = f"verifying the bases of {namespace}/{cluster}/{business}"
    checked = check_all(objects, listed, what, progress, notes)
    return report_on_bases(objects, listed, checked)


def report_on_bases(objects: Objects, listed: Sequence[Listed], checked: Sequence[Checked]) -> Report:
    """The report on the listed files of bases, each of which was checked; and on what the commits say of the parts."""
    infos = {info.key: info for info, _ in checked if info}
    findings = [fault for _, fault in checked if fault]
    found = base_files(listed)
    for name, files in found.items():
        findings += _faults(objects, name, files, infos)
    parts = sum(len(files.parts) for files in found.values())
    rows = sum(info.footer.rows for info in infos.values())
    return Report(parts, rows, sorted(findings, key=lambda fault: fault.key))


def _faults(objects: Objects, name: BaseName, files: BaseFiles, infos: dict[str, ObjectInfo]) -> Iterator[ArchiveFault]:
    if files.commit is None:
        return
    key = base_key(name)
    try:
        base = read_base(objects, name, files)
    except ArchiveDamaged as error:
        yield ArchiveFault("damaged", key, str(error))
        return
    except NewerFormat as error:
        yield ArchiveFault("newer", key, str(error))
        return
    if base is not None:
        yield from _differing(base, infos)
    elif objects.list(key):
        yield ArchiveFault(
            "base", key, "Parts of the base are missing or cut, and nothing reads it: make it again, and gc removes it."
        )


def _differing(base: Base, infos: dict[str, ObjectInfo]) -> Iterator[ArchiveFault]:
    """Parts that are sound, and not the ones that the commit names."""
    for part in base.parts:
        info = infos.get(base.part_key(part))
        if info is not None and info.footer != part.footer:
            yield ArchiveFault("base", info.key, "It is not the part that the commit of its base names.")
