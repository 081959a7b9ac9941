"""Transaction requests: the changes of several keys, sent to one member, which applies all of them or none."""

from __future__ import annotations

from typing import Any

from hazelcast.client import HazelcastClient
from hazelcast.future import Future as HazelcastFuture
from hazelcast.serialization.api import IdentifiedDataSerializable, ObjectDataOutput

from kvwal.entry import Entry, encode_entries
from kvwal.ports.clock import SYSTEM

EXECUTOR, FACTORY = "kvwal", 27510
_TRANSACTION = 1


class _TransactionTask(IdentifiedDataSerializable):
    """Task that a member runs: see RunTransaction.java."""

    def __init__(self, map_name: str, transaction_id: str, entries: list[Entry]) -> None:
        self._map_name = map_name
        self._transaction_id = transaction_id
        self._changes = encode_entries(entries)

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return _TRANSACTION

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_string(self._transaction_id)
        object_data_output.write_string(self._map_name)
        object_data_output.write_byte_array(bytearray(self._changes))

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


def send(client: HazelcastClient, map_name: str, entries: list[Entry]) -> HazelcastFuture[Any]:
    """Send all these changes of a map to a random member. It answers when each is in a log and in memory."""
    transaction_id = f"{SYSTEM.random_bits(128):032x}"
    task = _TransactionTask(map_name, transaction_id, entries)
    return client.get_executor(EXECUTOR).execute_on_key_owner(transaction_id, task)
