"""The errors of archive backends: one table that translates each into an ArchiveError with a sentence and a next step.

The sentence names the class of the backend's error and never its text, which may hold a key or a secret.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kvwal_archive.errors import ArchiveDamaged, ArchiveError, Kind


class ObjectMissing(ArchiveError):
    """No object has this key, or none has it any more: compaction may have superseded the object, so list again."""


class KeyTaken(ArchiveError):
    """The backend refused a put because an object with this key exists."""


class NotTaken(ArchiveError):
    """The archive takes no new object, because it has no space left or is read-only. What it holds can be read."""


class AccessRefused(ArchiveError):
    """The backend refused the credentials. Others may be accepted."""

    kind = Kind.CALLER


class NoValidCredentials(AccessRefused):
    """No credentials were found, or those that were found have expired. Their source may give others by itself, later."""

    kind = Kind.RETRY


class Fault(NamedTuple):
    """The meaning of a backend's error: a sentence, a hint what to do next, and whether the same call may succeed later."""

    says: str
    hint: str
    may_pass: bool
    error: type[ArchiveError] = ArchiveError


_KEYS = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the storage options), and what they may do there."
_SILENT = Fault("does not answer", "Check the address and the network; nothing is dropped until it is archived.", True)
_REFUSED = Fault("refused access: a wrong key or secret, or no permission", _KEYS, False, AccessRefused)
_WRONG_KEY = Fault("refused access: a wrong key or secret", _KEYS, False, AccessRefused)
_FORBIDDEN = Fault("refused access: a wrong key or secret, or no permission for this", _KEYS, False, AccessRefused)
_EXPIRED = Fault(
    "refused access: the session token has expired, or is not of this key",
    "Renew the credentials: they are asked for again at the next try.",
    False,
    NoValidCredentials,
)
_CLOCK = Fault(
    "refused access: the clock of this machine is wrong by minutes, or the endpoint's is",
    "Set the clock, by NTP for example; the keys are not the cause.",
    False,
)
_MOVED = Fault(
    "answered with the address of another endpoint, which is not followed",
    "Correct the endpoint (https:// in place of http://, for example) and the region: AWS_ENDPOINT_URL and AWS_DEFAULT_REGION,"
    " or the storage options.",
    False,
)
_NOT_SUPPORTED = Fault(
    "does not support this request; an archive needs puts that replace no object (If-None-Match: *)",
    "Use a store that has them, as S3 has, or an archive in a folder.",
    False,
)
_BUSY = Fault(
    "answered that it cannot serve this now", "Try again later; nothing is dropped until it is archived.", True
)
_NOT_OF_A_BUCKET = Fault(
    "gave an answer that is none of a bucket",
    "Look at the address, and at what stands between: a proxy or a sign-in page may answer there. Nothing is dropped until it is"
    " archived.",
    True,
)
_OTHER_BYTES = Fault(
    "gave bytes that do not match their checksum",
    "Try again; if it stays so, the object is damaged, and `kvwal archive verify` lists what is.",
    True,
    ArchiveDamaged,
)
_TAKEN = Fault("holds an object under this key already", "", False, KeyTaken)
_REJECTED = Fault("is no address that the store accepts", "Correct the archive's URL or the storage options.", False)
_UNKNOWN = Fault("failed", "Check the archive's address and its server's log.", False)

# Looked up by the code in an S3 answer, then by the names of the error's class and its bases, then by errno: first match wins.
_FAULTS: dict[str | int, Fault] = {
    "PreconditionFailed": _TAKEN,
    "412": _TAKEN,
    "ConditionalRequestConflict": _BUSY,
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "InvalidAccessKeyId": _WRONG_KEY,
    "SignatureDoesNotMatch": _WRONG_KEY,
    "AccessDenied": _FORBIDDEN,
    "PermanentRedirect": _MOVED,
    "TemporaryRedirect": _MOVED,
    "MovedPermanently": _MOVED,
    "AuthorizationHeaderMalformed": _MOVED,
    **dict.fromkeys(("301", "302", "307", "308"), _MOVED),
    "RecursionError": _MOVED,  # botocore asks the region of a redirected request by a request that is redirected
    "NotOfABucket": _NOT_OF_A_BUCKET,
    "FlexibleChecksumError": _OTHER_BYTES,  # S3 keeps the checksum that came with a put, and its client compares
    "NotImplemented": _NOT_SUPPORTED,
    "501": _NOT_SUPPORTED,
    "FileExistsError": _TAKEN,
    "FileNotFoundError": Fault("has no such object", "", False, ObjectMissing),
    "NoCredentialsError": Fault("needs a key and a secret, and none were found", _KEYS, False, NoValidCredentials),
    "PartialCredentialsError": Fault("needs a key and a secret, and only one was found", _KEYS, False, AccessRefused),
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
    errno.ENOSPC: Fault("has no space left", "Free space; nothing is dropped until it is archived.", False, NotTaken),
    errno.EDQUOT: Fault(
        "has no space left (quota)", "Free space; nothing is dropped until it is archived.", False, NotTaken
    ),
    errno.EROFS: Fault("is read-only", "Choose another folder, or remount it.", False, NotTaken),
    errno.EOPNOTSUPP: Fault(
        "is on a file system without hard links and without renames that replace nothing, and an archive needs one of them",
        "Choose a folder of another file system, ext4 or XFS for example.",
        False,
    ),
    errno.EBUSY: _BUSY,
    errno.EREMOTEIO: _BUSY,
}


_REFUSALS = {"400", "401", "403"}
"""The codes of an answer without a body, to a HEAD request, that may refuse the credentials."""


@contextmanager
def archive_errors(url: str, verb: str, key: str) -> Iterator[None]:
    """Raise an OSError of the block, about a local folder, as an ArchiveError. `verb` and `key` name the operation."""
    try:
        yield
    except PermissionError as error:
        raise ArchiveError(
            f"{url}: this user may not {verb} {key or 'everything'} ({error.strerror}: {error.filename or url}).",
            hint="Mend the owner and the mode of the file or folder, or choose another folder.",
        ) from error
    except OSError as error:
        raise archive_error(error, url, verb, key) from error


def _code(error: BaseException) -> str:
    response = getattr(error.__cause__ or error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def has_no_reason(error: BaseException) -> bool:
    """Whether the refusal is one of a HEAD request, which has no body that says the reason."""
    return _code(error) in _REFUSALS


def _is_endless_redirect(error: BaseException) -> bool:
    return isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError)


def is_refusal(error: BaseException) -> bool:
    """Whether the backend refused the credentials, or may have done so: others may be accepted."""
    return _code(error) in _REFUSALS or issubclass(_fault(error).error, AccessRefused)


def _fault(error: BaseException) -> Fault:
    code = "RecursionError" if _is_endless_redirect(error) else _code(error)
    names: list[Any] = [code, *(base.__name__ for base in type(error).__mro__), getattr(error, "errno", None)]
    return next((_FAULTS[name] for name in names if name in _FAULTS), _UNKNOWN)


def may_pass(error: BaseException) -> bool:
    """Whether the call that raised `error` may succeed a moment later."""
    return isinstance(error, tuple(backend_errors())) and _fault(error).may_pass


def archive_error(error: BaseException, url: str, verb: str, key: str) -> ArchiveError:
    """The ArchiveError for a backend's error. It names the error's class and errno, never its text, which may hold a secret."""
    fault = _fault(error)
    number = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
    name = "a redirect" if _is_endless_redirect(error) else f"{type(error).__name__} {number}".strip()
    what = f"{url} {fault.says} (to {verb} {key or 'everything'}; {name})."
    kind = ArchiveError if fault.error is NotTaken and verb != "put" else fault.error
    return kind(what, hint=fault.hint)


_OF_A_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors of a write into a local file, which have no file name. A backend that is read gives none of them."""


@contextmanager
def local_errors(file: Path, url: str, verb: str, key: str) -> Iterator[None]:
    """Raise an OSError of the block about the local `file`, which is a copy of an object or is to become one, as an ArchiveError.

    Other errors are of the backend, and pass.
    """
    try:
        yield
    except OSError as error:
        if error.filename != str(file) and not (verb == "read" and error.errno in _OF_A_WRITE):
            raise
        raise ArchiveError(
            f"{file}: this local file cannot be used to {verb} {key} of {url} ({error.strerror}).",
            hint="The archive is not the cause. Mend the disk of this folder, or free space there; the folder of temporary files"
            " is the one that TMPDIR names.",
        ) from error


def backend_errors() -> Iterator[type[Exception]]:
    """The base classes of the errors that filesystems raise; those of botocore and aiohttp only once they were imported."""
    botocore = "botocore.exceptions"
    yield from (OSError, ValueError, RecursionError)
    for module, name in ((botocore, "BotoCoreError"), (botocore, "ClientError"), ("aiohttp", "ClientError")):
        if module in sys.modules:
            yield getattr(sys.modules[module], name)
