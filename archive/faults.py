"""What a store's own errors mean: one table from them to an ArchiveError with a sentence and what to do next.

The sentence names the class of the error and never its text, which may hold what the caller sent.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from archive.errors import ArchiveError


class ObjectMissing(ArchiveError):
    """There is no object under this key (any more): a rewrite may have superseded it, so list again."""


class KeyTaken(ArchiveError):
    """The store refused a put because the key is taken."""


class Fault(NamedTuple):
    """What an error of a store means: its sentence, what to do next, and whether the same call may succeed later."""

    says: str
    hint: str
    may_pass: bool
    error: type[ArchiveError] = ArchiveError


_KEYS = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the storage options), and what they may do there."
_SILENT = Fault("does not answer", "Check the address and the network; nothing is dropped until it is archived.", True)
_REFUSED = Fault("refused access: a wrong key or secret, or no permission", _KEYS, False)
_BUSY = Fault(
    "answered that it cannot serve this now", "Try again later; nothing is dropped until it is archived.", True
)
_TAKEN = Fault("holds an object under this key already", "", False, KeyTaken)
_REJECTED = Fault("is no address that the store accepts", "Correct the archive's URL or the storage options.", False)
_UNKNOWN = Fault("failed", "Check the archive's address and its server's log.", False)

# By the name of the error's class or one of its bases, or by errno, or by the code in an S3 answer: the first that fits.
_FAULTS: dict[str | int, Fault] = {
    "PreconditionFailed": _TAKEN,
    "412": _TAKEN,
    "ConditionalRequestConflict": _BUSY,
    "FileExistsError": _TAKEN,
    "FileNotFoundError": Fault("has no such object", "", False, ObjectMissing),
    "NoCredentialsError": Fault("needs a key and a secret, and none were found", _KEYS, False),
    "PartialCredentialsError": Fault("needs a key and a secret, and only one was found", _KEYS, False),
    "PermissionError": _REFUSED,
    "TimeoutError": _SILENT,
    "ConnectionError": _SILENT,
    "HTTPClientError": _SILENT,
    "ClientConnectionError": _SILENT,
    "ClientPayloadError": _SILENT,
    "ParamValidationError": _REJECTED,
    "ValueError": _REJECTED,
    "NotADirectoryError": Fault(
        "is not a folder, or holds a file where a folder must be", "Choose another folder.", False
    ),
    "IsADirectoryError": Fault("holds a folder where an object must be", "Move the folder away.", False),
    errno.ENOSPC: Fault("has no space left", "Free space; nothing is dropped until it is archived.", False),
    errno.EDQUOT: Fault("has no space left (quota)", "Free space; nothing is dropped until it is archived.", False),
    errno.EROFS: Fault("is read-only", "Choose another folder, or remount it.", False),
    errno.EBUSY: _BUSY,
    errno.EREMOTEIO: _BUSY,
}


@contextmanager
def as_ours(url: str, verb: str, key: str) -> Iterator[None]:
    """Turns an error of the operating system into ours; `verb` and `key` say what was being done."""
    try:
        yield
    except OSError as error:
        raise our_error(error, url, verb, key) from error


def _fault(error: BaseException) -> Fault:
    response = getattr(error.__cause__ or error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    names: list[Any] = [code, *(base.__name__ for base in type(error).__mro__), getattr(error, "errno", None)]
    return next((_FAULTS[name] for name in names if name in _FAULTS), _UNKNOWN)


def may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    return isinstance(error, tuple(foreign_errors())) and _fault(error).may_pass


def our_error(error: BaseException, url: str, verb: str, key: str) -> ArchiveError:
    """The sentence for a store's own error. It names class and errno, never the text, which may hold what the caller sent."""
    fault = _fault(error)
    number = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
    what = f"{url} {fault.says} (to {verb} {key or 'everything'}; {f'{type(error).__name__} {number}'.strip()})."
    return fault.error(what, hint=fault.hint)


def foreign_errors() -> Iterator[type[Exception]]:
    """The roots of what filesystems throw: of botocore and aiohttp only where they are installed and in use."""
    botocore = "botocore.exceptions"
    yield from (OSError, ValueError)
    for module, name in ((botocore, "BotoCoreError"), (botocore, "ClientError"), ("aiohttp", "ClientError")):
        if module in sys.modules:
            yield getattr(sys.modules[module], name)
