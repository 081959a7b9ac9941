"""The errors of archive backends: one table that translates each into an ArchiveError with a sentence and a next step.

The sentence names the class of the backend's error and never its text, which may hold a key or a secret.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from archive.errors import ArchiveError


class ObjectMissing(ArchiveError):
    """No object has this key, or none has it any more: compaction may have superseded the object, so list again."""


class KeyTaken(ArchiveError):
    """The backend refused a put because an object with this key exists."""


class Fault(NamedTuple):
    """The meaning of a backend's error: a sentence, a hint what to do next, and whether the same call may succeed later."""

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

# Looked up by the code in an S3 answer, then by the names of the error's class and its bases, then by errno: first match wins.
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
def archive_errors(url: str, verb: str, key: str) -> Iterator[None]:
    """Raise an OSError of the block as an ArchiveError. `verb` and `key` name the operation in its sentence."""
    try:
        yield
    except OSError as error:
        raise archive_error(error, url, verb, key) from error


def _fault(error: BaseException) -> Fault:
    response = getattr(error.__cause__ or error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    names: list[Any] = [code, *(base.__name__ for base in type(error).__mro__), getattr(error, "errno", None)]
    return next((_FAULTS[name] for name in names if name in _FAULTS), _UNKNOWN)


def may_pass(error: BaseException) -> bool:
    """Whether the call that raised `error` may succeed a moment later."""
    return isinstance(error, tuple(backend_errors())) and _fault(error).may_pass


def archive_error(error: BaseException, url: str, verb: str, key: str) -> ArchiveError:
    """The ArchiveError for a backend's error. It names the error's class and errno, never its text, which may hold a secret."""
    fault = _fault(error)
    number = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
    what = f"{url} {fault.says} (to {verb} {key or 'everything'}; {f'{type(error).__name__} {number}'.strip()})."
    return fault.error(what, hint=fault.hint)


def backend_errors() -> Iterator[type[Exception]]:
    """The base classes of the errors that filesystems raise; those of botocore and aiohttp only once they were imported."""
    botocore = "botocore.exceptions"
    yield from (OSError, ValueError)
    for module, name in ((botocore, "BotoCoreError"), (botocore, "ClientError"), ("aiohttp", "ClientError")):
        if module in sys.modules:
            yield getattr(sys.modules[module], name)
