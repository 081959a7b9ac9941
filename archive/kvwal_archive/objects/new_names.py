"""A second name for a file that replaces no other file: by a hard link, or by a rename where there are no hard links."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What `link` answers on file systems without hard links: vfat and exfat, some of FUSE and SMB."""
_NO_RENAMES = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def link_new(old: Path, new: Path) -> None:
    """Give the file `old` the name `new`, in one step. It may lose its old name.

    Raises FileExistsError if the name is taken, and an OSError with EOPNOTSUPP if the file system has no way to do it.
    """
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        return
    try:
        _rename_new(old, new)
    except OSError as error:
        if error.errno not in _NO_RENAMES:
            raise
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(new)) from error


def _rename_new(old: Path, new: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(new))
    if rename(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(new))
