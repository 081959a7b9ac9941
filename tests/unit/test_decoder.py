"""The decoder of entries: it learns the names of structures, so that a million entries share one text of each."""

from __future__ import annotations

import msgspec
import pytest

from kvwal.entry import MOST_NAMES, Entry, encode_entries, make_decoder, make_entry


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
