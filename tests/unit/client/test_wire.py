"""A client sends the bytes that Hazelcast's own client would send, and any serialized value can be decoded and sent back."""

from __future__ import annotations

from typing import Any

import pytest
from hazelcast.config import Config, IntType
from hazelcast.core import HazelcastJsonValue
from hazelcast.serialization import SerializationServiceV1
from hypothesis import given
from hypothesis import strategies as st

from kvwal.client.wire import FOREIGN, OPAQUE, Encoded, from_wire, to_wire
from kvwal.codecs import registry


def service() -> Any:
    config = Config()
    config.default_int_type = IntType.VAR
    return SerializationServiceV1(config)


SERVICE = service()


def sent(value: Any) -> bytes:
    return bytes(SERVICE.to_data(value).buffer)


SAME: list[tuple[Any, Any]] = [
    ("", ""), ("text ünï 🐘", "text ünï 🐘"), (b"\x00\xff", bytearray(b"\x00\xff")), (True, True), (False, False), (1.5, 1.5),
    (-0.0, -0.0), (float("inf"), float("inf")), (2**31 - 1, 2**31 - 1), (-(2**31), -(2**31)),
    (2**31, 2**31), (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)), (2**63, 2**63), (-(2**63) - 1, -(2**63) - 1), (2**1015, 2**1015), (-(2**1015), -(2**1015)),
    ({"a": [1, None]}, HazelcastJsonValue('{"a":[1,null]}')),
]  # fmt: skip


@pytest.mark.parametrize(("value", "plain"), SAME, ids=repr)
def test_it_is_what_hazelcasts_own_client_sends(value: Any, plain: Any) -> None:
    encoded = registry.encode_value(value)
    assert to_wire(*encoded) == sent(plain)
    assert from_wire(sent(plain)) == encoded


@given(st.integers(-(2**1015), 2**1015) | st.integers(-(2**33), 2**33) | st.integers(-(2**65), 2**65))
def test_every_int_has_one_form(number: int) -> None:
    encoded = registry.encode_value(number)
    assert from_wire(to_wire(*encoded)) == encoded
    assert -(2**15) <= number < 2**15 or to_wire(*encoded) == sent(number)


@given(st.floats(allow_nan=False) | st.text() | st.binary() | st.booleans() | st.none())
def test_every_value_comes_back(value: Any) -> None:
    encoded = registry.encode_value(value)
    assert from_wire(to_wire(*encoded)) == encoded


@given(
    st.binary(max_size=40),
    st.sampled_from([0, 7]),
    st.sampled_from([-4, -7, -8, -10, -11, -12, -26, -120, -130, FOREIGN, 0, 5]),
)
def test_any_serialized_bytes_decode_and_go_back(data: bytes, partition_hash: int, kind: int) -> None:
    buffer = partition_hash.to_bytes(4, "big") + kind.to_bytes(4, "big", signed=True) + data
    assert to_wire(*from_wire(buffer)) == buffer


def test_a_value_of_an_unknown_codec_keeps_its_name() -> None:
    encoded = Encoded(b"{}", "job@2")
    assert from_wire(to_wire(*encoded)) == encoded
    assert from_wire(to_wire(b"", "none")) == (b"", "none")


@pytest.mark.parametrize("kind", ["str", "json", "int", "bool"])
def test_no_encoded_value_can_pass_for_another(kind: str) -> None:
    assert (
        from_wire(to_wire(*Encoded(b"x", "a")).replace(b"\x01a", bytes([len(kind)]) + kind.encode())).class_name
        == OPAQUE
    )


def test_a_long_that_an_integer_would_hold_stays_one() -> None:
    as_long = bytes(4) + (-8).to_bytes(4, "big", signed=True) + (5).to_bytes(8, "big")
    assert from_wire(as_long) == (b"\x81\x05", "int64")
    assert to_wire(b"\x81\x05", "int64") == as_long
