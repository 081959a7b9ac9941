"""Calls of a client to the member that decides on the queues of a business."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hazelcast.future import Future as HazelcastFuture

from kvwal.client.link import Link
from kvwal.client.member_tasks import ask_queues
from kvwal.cluster.map_names import has_log
from kvwal.cluster.queues.requests import Item, QueueRequest, Renew, decode_answer, decode_items
from kvwal.codecs import Codecs
from kvwal.errors import ClusterUnreachable, ConfigError, InvalidName, KvwalError, NotRecovered, Overloaded
from kvwal.ports.retries import retry_on

_PAUSE_SECONDS, _LONGEST_PAUSE = 0.05, 0.5
_NOT_DONE = (ClusterUnreachable, NotRecovered, Overloaded)
"""Errors after which nothing was done, and the request is sent again."""


class QueueCalls:
    """The calls for the queues of one business. Any number of threads may use it."""

    def __init__(self, link: Link, name: str, codecs: Codecs) -> None:
        """Raises `InvalidName` for a map without a log."""
        if not has_log(name):
            raise InvalidName(f"{name!r} has no log, and so no queues.", hint="Choose a name that does not begin so.")
        self.map = name
        self.codecs = codecs
        self.label = f"{name} ({link.address})"
        self._link = link

    def ask(self, request: QueueRequest, *, writes: bool, again: bool = True) -> Any:
        """The answer to a request. `writes` says that it may not be done twice: after a lost answer it raises `CommitUnknown`.

        A request that was not done is sent `again`, as long as a call may last.
        """
        return decode_answer(self._sent(request, writes, again))

    def items(self, request: QueueRequest, *, writes: bool) -> list[Item]:
        """As `ask`, of a request whose answer is items."""
        return decode_items(self._sent(request, writes, again=True))

    def begin_renewal(self, block: str) -> HazelcastFuture[Any]:
        """Begin to say that a block goes on. The answer is that of `Renew`, as bytes."""
        return ask_queues(self._link.client, Renew(self.map, block), self.map)

    def check_open(self) -> None:
        """Raise `StoreClosed` if the connection is closed."""
        self._link.check_open()

    def _sent(self, request: QueueRequest, writes: bool, again: bool) -> bytes:
        begin = partial(ask_queues, self._link.client, request, self.map)
        return answer_of(self._link, begin, self.label, "a queue", writes=writes, again=again)


def answer_of(
    link: Link, begin: Callable[[], HazelcastFuture[Any]], label: str, what: str, *, writes: bool, again: bool = True
) -> bytes:
    """The answer to a request for `what`, which `begin` sends. `writes` and `again`: see `QueueCalls.ask`."""
    ask = partial(link.result, begin, label, writes=writes)
    within = link.address.timeout if again else 0
    try:
        return bytes(retry_on(ask, _NOT_DONE, pause=_PAUSE_SECONDS, longest=_LONGEST_PAUSE, within=within))
    except KvwalError as error:
        if type(error) is not KvwalError:
            raise
        raise ConfigError(
            f"{label}: a member refused a request for {what}: it is of an earlier version, or its log names a bug.",
            hint="Update all members to the version of this client.",
        ) from error
