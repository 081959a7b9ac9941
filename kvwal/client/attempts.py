"""Retry rules of one call: which requests Hazelcast's client sends again, and which error the call ends with.

The result of a later attempt says nothing of an earlier one. So once an attempt may have been done, the call ends with success,
or with Hazelcast's own error for an unknown outcome. The error of the last attempt does not change this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hazelcast.errors import IndeterminateOperationStateError
from hazelcast.protocol.codec import map_clear_codec, map_delete_codec, map_remove_all_codec, map_set_codec

from kvwal.client.failures import UNKNOWN, first_line, may_be_done, may_be_done_in_part

_BLIND = frozenset({map_set_codec._REQUEST_MESSAGE_TYPE, map_delete_codec._REQUEST_MESSAGE_TYPE})
"""Idempotent requests: they do not depend on the value before, so a request that is done twice has the effect of one."""
_BY_PARTITION = frozenset({map_clear_codec._REQUEST_MESSAGE_TYPE, map_remove_all_codec._REQUEST_MESSAGE_TYPE})
"""Requests that each partition does for itself: where one of them refused, others may have done their part."""
_TYPE_OFFSET = 6
_OPEN = "kvwal_open"
"""Attribute of a call's future: the error of its first attempt that may have been done."""

Retry = Callable[[Any, Exception], bool]
End = Callable[[Any, Exception], None]


def install(service: Any) -> None:
    """Install kvwal's rules in the invocation service of Hazelcast's client. Call it before the first invocation."""
    service._should_retry = _retry_of(service._should_retry)
    service._complete_with_error = _end_of(service._complete_with_error)


def _retry_of(original: Retry) -> Retry:
    """Rule for sending a request again after an error: Hazelcast's own rule, if the request certainly was not done.

    If the request may have been done, only a read, a put or a delete is sent again. A conditional change that is done twice
    would test its condition against its own first result.
    """

    def should_retry(invocation: Any, error: Exception) -> bool:
        request = invocation.request
        if not may_be_done(error):
            if _type_of(request) in _BY_PARTITION and may_be_done_in_part(error):
                vars(invocation.future).setdefault(_OPEN, error)
            return original(invocation, error)
        if not request.retryable:
            vars(invocation.future).setdefault(_OPEN, error)
            if _type_of(request) not in _BLIND:
                return False
        if isinstance(error, UNKNOWN):
            any_member: bool = invocation.connection is None
            return any_member
        return original(invocation, error)

    return should_retry


def _end_of(original: End) -> End:
    """Rule for the error that a call ends with: the last attempt's error, unless an earlier attempt may have been done."""

    def complete_with_error(invocation: Any, error: Exception) -> None:
        first = vars(invocation.future).get(_OPEN)
        if first is not None and not isinstance(error, IndeterminateOperationStateError):
            text = (
                first_line(first) if first is error else f"{first_line(first)}; the last attempt: {first_line(error)}"
            )
            error = IndeterminateOperationStateError(text, error)
        original(invocation, error)

    return complete_with_error


def _type_of(request: Any) -> int:
    return int.from_bytes(request.buf[_TYPE_OFFSET : _TYPE_OFFSET + 4], "little", signed=True)
