"""What a client sends to have several keys changed as one: a task of the members' own, with the changes in it."""

from __future__ import annotations

from typing import Any

from hazelcast.client import HazelcastClient
from hazelcast.future import Future as HazelcastFuture
from hazelcast.serialization.api import IdentifiedDataSerializable, ObjectDataOutput

from kvwal.entry import Entry, encode_entries
from kvwal.ports.clock import SYSTEM

EXECUTOR, FACTORY = "kvwal", 27510
_TRANSACTION = 1


class _Transaction(IdentifiedDataSerializable):
    """See RunTransaction.java."""

    def __init__(self, name: str, number: str, entries: list[Entry]) -> None:
        self._name = name
        self._number = number
        self._changes = encode_entries(entries)

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return _TRANSACTION

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_string(self._number)
        object_data_output.write_string(self._name)
        object_data_output.write_byte_array(bytearray(self._changes))

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


def send(client: HazelcastClient, name: str, entries: list[Entry]) -> HazelcastFuture[Any]:
    """Change all these keys of a map: answered when each is in a log and in memory. Which member does it is left to chance."""
    number = f"{SYSTEM.random_bits(128):032x}"
    return client.get_executor(EXECUTOR).execute_on_key_owner(number, _Transaction(name, number, entries))
