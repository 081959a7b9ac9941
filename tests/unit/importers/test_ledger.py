"""The ledger of imported events: what is packed comes back, and bytes of anything else are passed over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvwal.importers.flume.ledger import Identity, decode, encode, known

IDENTITIES = st.lists(
    st.builds(Identity, st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 32) - 1))
)


@given(IDENTITIES)
def test_identities_come_back(identities: list[Identity]) -> None:
    assert decode(encode(identities)) == identities
    assert known([encode(identities), 7, "text"]) == {identity.packed() for identity in identities}


@given(st.binary())
def test_other_bytes_are_passed_over(data: bytes) -> None:
    assert all(isinstance(number, int) for number in known([data]))


def test_neighbours_take_few_bytes() -> None:
    """Events of one channel follow one another in order and place."""
    identities = [Identity(1_700_000_000_000 + number, 3, 150 * number) for number in range(500)]
    assert len(encode(identities)) < 5 * len(identities)
