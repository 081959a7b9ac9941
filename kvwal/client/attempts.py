"""The attempts of one call: what Hazelcast's client sends again, and what the call may end with.

A later attempt cannot say that an earlier one came to nothing. So once an attempt may have been done, the call ends with success,
or with Hazelcast's own error for an unknown outcome. How the last attempt ended does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hazelcast.errors import IndeterminateOperationStateError
from hazelcast.protocol.codec import map_delete_codec, map_set_codec

from kvwal.client.failures import UNKNOWN, first_line, may_be_done

_BLIND = frozenset({map_set_codec._REQUEST_MESSAGE_TYPE, map_delete_codec._REQUEST_MESSAGE_TYPE})
"""Requests that set a state and do not depend on the state before: two of them have the effect of one."""
_TYPE_OFFSET = 6
_OPEN = "kvwal_open"
"""On the future of a call: the error of its first attempt that may have been done."""

Retry = Callable[[Any, Exception], bool]
End = Callable[[Any, Exception], None]


def install(service: Any) -> None:
    """Set kvwal's rules into the invocation service of Hazelcast's client, before its first invocation."""
    service._should_retry = _retry_of(service._should_retry)
    service._complete_with_error = _end_of(service._complete_with_error)


def _retry_of(original: Retry) -> Retry:
    """Whether a request is sent again after an error: Hazelcast's own rule, but for those that leave its outcome open.

    After such an error a read, a put and a delete are sent again, and nothing else ever is: a condition that is decided
    twice may answer for a moment that its first decision made.
    """

    def should_retry(invocation: Any, error: Exception) -> bool:
        if not may_be_done(error):
            return original(invocation, error)
        request = invocation.request
        if not request.retryable:
            vars(invocation.future).setdefault(_OPEN, error)
            if _type_of(request) not in _BLIND:
                return False
        if isinstance(error, UNKNOWN):
            found: bool = invocation.connection is None
            return found
        return original(invocation, error)

    return should_retry


def _end_of(original: End) -> End:
    """The error that a call ends with: the last attempt's, unless an earlier one may have been done."""

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
