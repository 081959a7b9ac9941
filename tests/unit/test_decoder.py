"""The decoder of entries: it learns the names of structures, so that a million entries share one text of each."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import (
    MOST_NAMES,
    DataEntry,
    Entry,
    encode_entries,
    entry_identity,
    first_identity,
    make_decoder,
    make_entry,
)


def block(key_class: str, value_class: str = "own", expires: int = 0) -> list[Entry]:
    return [make_entry(b"%d" % n, key_class, b"v", value_class, False, n, expires) for n in range(3)]


def test_entries_share_the_names_of_their_classes_from_block_to_block() -> None:
    decode = make_decoder(["str"])
    found = [entry for _ in range(3) for entry in decode(encode_entries(block("queue/todo:int")))]
    assert len({id(entry.key_class) for entry in found}) == len({id(entry.value_class) for entry in found}) == 1
    assert type(found[-1]) is type(decode(encode_entries(block("str", "str")))[0]), "as those of a map"


def test_a_block_with_an_expiring_entry_comes_back_and_shares_its_names() -> None:
    decode = make_decoder(["str"])
    entries = [*block("queue:int", expires=7), *block("map/state:str")]
    for _ in range(2):
        found = decode(encode_entries(entries))
        assert [entry.public() for entry in found] == [entry.public() for entry in entries]
        assert len({id(entry.key_class) for entry in found}) == 2
        assert [entry.expires for entry in found] == [7, 7, 7, 0, 0, 0]


def test_more_names_than_it_knows_are_decoded_all_the_same() -> None:
    decode = make_decoder([f"codec-{number}" for number in range(MOST_NAMES - 3)])
    for number in range(9):
        entries = [*block(f"queue/{number}:int"), *block("codec-1", "codec-2")]
        assert [entry.public() for entry in decode(encode_entries(entries))] == [entry.public() for entry in entries]
    many = [entry for number in range(2 * MOST_NAMES) for entry in block(f"queue/other-{number}:int")]
    assert [entry.public() for entry in decode(encode_entries(many))] == [entry.public() for entry in many]
    assert decode(encode_entries([])) == []


@pytest.mark.parametrize(
    "payload", [b"\xc1", msgspec.msgpack.encode([[b"k", "str", b"v"]]), msgspec.msgpack.encode({})]
)
def test_a_payload_of_another_shape_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        make_decoder(["str"])(payload)


SIZES = st.sampled_from([0, 1, 31, 32, 255, 256, 65_535, 65_536])


@given(SIZES, SIZES, st.sampled_from([1, 2, 15, 16, 70_000]), st.sampled_from([0, 1]))
def test_the_first_identity_is_that_of_the_first_entry(key: int, key_class: int, count: int, expires: int) -> None:
    first = make_entry(b"k" * key, "c" * key_class, b"v", "str", False, 1, expires)
    payload = encode_entries([first, *block("str")] if count > 1 else [first])
    head = {15: 15, 16: 16}.get(count)
    if head is not None:
        payload = encode_entries([first] * head)
    elif count == 70_000:
        payload = encode_entries([first, *block("str") * 23_333])
    assert first_identity(payload) == entry_identity(first)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: b"\x91\x96\xc4" + rest))
def test_bytes_that_do_not_begin_with_an_entry_have_no_first_identity(payload: bytes) -> None:
    """What the whole decoder takes has the same first identity; of anything else no other error comes than its own."""
    try:
        entries = msgspec.msgpack.decode(payload, type=list[DataEntry])
    except msgspec.DecodeError:
        entries = []
    try:
        found = first_identity(payload)
    except msgspec.DecodeError:
        assert not entries
    else:
        assert not entries or found == (entries[0].key_class, entries[0].key)
