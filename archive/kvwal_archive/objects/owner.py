"""Ownership of new files: a file that root creates in another user's folder is given to that user (chown).

Root may run one command on the store of another user (`sudo kvwal put`). A file owned by root would lock the store's user out.
So each file and folder that root makes below a folder of another user gets the owner, the group and the permissions of
the folder above it. For any other user, and in folders of root, nothing is done: the umask decides.

Owner and permissions are set through a descriptor of the new file. A user who puts a link in its place gains nothing by that.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

ROOT = 0
_CHOWN_UNSUPPORTED = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of `chown` on a file system without owners (vfat, SMB), and of a root that may not give files away (containers)."""


def give_file(descriptor: int, folder: Path, mode_mask: int) -> None:
    """Give a new file to the owner of its folder, if this process is root and the owner is another user.

    Its mode becomes the folder's mode masked with `mode_mask`; the owner can always read and write.
    """
    if os.geteuid() == ROOT:
        _chown_like(descriptor, os.stat(folder), mode_mask & 0o666, 0o600)


def make_folder(folder: Path, most: int, *, keep_group: bool = False) -> None:
    """Create a folder with the mode `most`, less the umask, and give it to the owner of the folder above: see `give_file`.

    `keep_group` sets the setgid bit: files that other programs create there inherit the group. FileExistsError if it exists.
    """
    os.mkdir(folder, most)
    if os.geteuid() != ROOT:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _chown_like(descriptor, os.stat(folder.parent), most | 0o2000, 0o2700 if keep_group else 0o700)
    finally:
        os.close(descriptor)


def make_folders(folder: Path, most: int, *, keep_group: bool = False) -> None:
    """`make_folder` for the folder and for those above it that are missing. Existing folders are no error.

    `FileNotFoundError` if another program removes one of them meanwhile.
    """
    if folder == folder.parent or folder.is_dir():
        return
    make_folders(folder.parent, most, keep_group=keep_group)
    try:
        make_folder(folder, most, keep_group=keep_group)
    except FileExistsError as error:
        if folder.is_dir():
            return
        if os.path.lexists(folder):
            raise
        raise FileNotFoundError(errno.ENOENT, "another program has removed it meanwhile", str(folder)) from error


def _chown_like(descriptor: int, above: os.stat_result, mode_mask: int, mode_min: int) -> None:
    made = os.fstat(descriptor)
    has_another_name = stat.S_ISREG(made.st_mode) and made.st_nlink > 1
    if above.st_uid == ROOT or made.st_uid != ROOT or has_another_name:
        return
    try:
        os.fchown(descriptor, above.st_uid, above.st_gid)
        os.fchmod(descriptor, above.st_mode & mode_mask | mode_min)
    except OSError as error:
        if error.errno not in _CHOWN_UNSUPPORTED:
            raise
