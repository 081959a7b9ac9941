"""Laws of the log's bytes, of its codecs, and of the checkpoint's merge."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from kvwal.codecs import registry
from kvwal.entry import DataEntry, Entry, encode_entries, make_decoder, make_entry
from kvwal.errors import CodecError, NewerVersion
from kvwal.log.files.format import BlockKind, align, find_blocks, pack_block, unpack_block
from kvwal.log.files.snapshot_reader import merge_all, merge_all_blocks

ENTRIES = st.lists(
    st.builds(
        make_entry, st.binary(max_size=20), st.sampled_from(["str", "bytes", "ü:x", "job@2"]), st.binary(max_size=300),
        st.sampled_from(["", "json", "bytes", "other"]), st.booleans(), st.integers(0, 2**63 - 1),
        st.one_of(st.just(0), st.integers(1, 2**50)),
    ),
    max_size=8,
)  # fmt: skip
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=10,
)  # fmt: skip
ANYTHING = st.one_of(
    JSON,
    st.integers(),
    st.floats(),
    st.binary(),
    st.dictionaries(st.integers(), st.none(), min_size=1),
    st.tuples(JSON),
)


class Payload(bytes):
    """What a block of a file holds, among other bytes."""


@given(entries=ENTRIES)
def test_entries_come_back_from_a_payload(entries: list[Entry]) -> None:
    decode = make_decoder(["str", "bytes", "json"])
    found = decode(encode_entries(entries))
    assert [entry.public() for entry in found] == [entry.public() for entry in entries]


@given(payloads=st.lists(st.binary(max_size=100), max_size=5), salt=st.integers(0, 2**32 - 1), start=st.integers(0, 9))
def test_blocks_come_back_where_they_were_written(payloads: list[bytes], salt: int, start: int) -> None:
    data = bytes(8 * start)
    for payload in payloads:
        data += b"".join(pack_block(BlockKind.ENTRIES, payload, salt=salt, offset=len(data), flags=1)[0])
    assert len(data) == align(len(data))
    offset, found = 8 * start, []
    while (block := unpack_block(data + bytes(40), offset, salt)) is not None:
        found.append(block.payload)
        offset = block.end
    assert found == payloads
    assert [block.payload for block in find_blocks(data, 0, salt)] == payloads


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.lists(st.sampled_from(b"\x00\x00\x01\x04\x05"), max_size=30).map(bytes),
            st.integers(0, 40).map(bytes),
            st.binary(max_size=30).map(Payload),
        )
    ),
    salt=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 40),
)
def test_every_block_that_verifies_is_found(pieces: list[bytes], salt: int, offset: int) -> None:
    """Each offset tried, one after the other, finds no more: between blocks stand any bytes that a disk may have."""
    data = b""
    for piece in pieces:
        if isinstance(piece, Payload):
            data += bytes(-len(data) % 8)
            data += b"".join(pack_block(BlockKind.ENTRIES, piece, salt=salt, offset=len(data), flags=len(piece) % 2)[0])
        else:
            data += piece
    expected, at = [], align(offset)
    while at < len(data):
        block = unpack_block(data, at, salt)
        expected += [block] if block else []
        at = block.end if block else at + 8
    assert list(find_blocks(data, offset, salt)) == expected


@given(payload=st.binary(max_size=60), salt=st.integers(0, 2**32 - 1), place=st.integers(0, 99), chosen=st.data())
def test_one_flipped_bit_never_verifies(payload: bytes, salt: int, place: int, chosen: st.DataObject) -> None:
    offset = 8 * place
    block = bytearray(b"".join(pack_block(BlockKind.ENTRIES, payload, salt=salt, offset=offset)[0]))
    bit = chosen.draw(st.integers(0, 8 * (12 + len(payload)) - 1))
    block[bit // 8] ^= 1 << bit % 8
    assert unpack_block(bytes(offset) + bytes(block), offset, salt) is None


@given(
    payload=st.binary(min_size=1, max_size=60), salts=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
)
def test_a_block_verifies_only_in_its_file_and_at_its_place(payload: bytes, salts: tuple[int, int]) -> None:
    assume(salts[0] != salts[1])
    block = b"".join(pack_block(BlockKind.ENTRIES, payload, salt=salts[0], offset=64)[0])
    assert unpack_block(bytes(64) + block, 64, salts[0]) is not None
    assert unpack_block(bytes(64) + block, 64, salts[1]) is None
    assert unpack_block(bytes(72) + block, 72, salts[0]) is None


@given(noise=st.binary(min_size=12, max_size=200), salt=st.integers(0, 2**32 - 1))
def test_noise_is_no_block(noise: bytes, salt: int) -> None:
    try:
        assert unpack_block(noise, 0, salt) is None
    except NewerVersion as error:  # pragma: no cover - a checksum that fits by chance
        raise AssertionError("noise passed for a block") from error


@given(value=ANYTHING)
def test_what_is_stored_comes_back_equal_and_of_its_type(value: Any) -> None:
    try:
        data, name = registry.encode_value(value)
    except CodecError:
        return
    back = registry.decode(data, name)
    assert back == value
    assert repr(back) == repr(value)


@given(numbers=st.lists(st.one_of(st.integers(), st.integers(-300, 300)), max_size=6))
def test_int_keys_sort_as_numbers(numbers: list[int]) -> None:
    assert sorted(numbers) == sorted(numbers, key=lambda number: registry.encode_key(number)[0])


@given(numbers=st.lists(st.floats(allow_nan=False), max_size=6))
def test_float_keys_sort_as_numbers(numbers: list[float]) -> None:
    by_bytes = sorted(numbers, key=lambda number: registry.encode_key(number)[0])
    assert by_bytes == sorted(numbers)


RUN = st.dictionaries(st.tuples(st.sampled_from(["int", "str"]), st.binary(max_size=2)), st.integers(1, 9), max_size=8)


@given(runs=st.lists(RUN, max_size=4), size=st.integers(1, 4))
def test_a_checkpoint_merges_as_a_dict_updates(runs: list[dict[tuple[str, bytes], int]], size: int) -> None:
    def run(entries: dict[tuple[str, bytes], int], base: int) -> list[Entry]:
        return [
            Entry(key, kind, b"", "", value % 2 == 0, base + value) for (kind, key), value in sorted(entries.items())
        ]

    written = [run(entries, 100 * number) for number, entries in enumerate(runs)]
    merged = [entry.public() for entry in merge_all(reversed(written))]
    expected = {(e.key_class, e.key): e.public() for entries in written for e in entries}
    assert merged == [expected[identity] for identity in sorted(expected)]
    assert all(isinstance(entry, DataEntry) for entry in merged)
    blocks = list(
        merge_all_blocks([run[at : at + size] for at in range(0, len(run), size)] for run in reversed(written))
    )
    assert [entry.public() for block in blocks for entry in block] == merged
    assert all(blocks)
