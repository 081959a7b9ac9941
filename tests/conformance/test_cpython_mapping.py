"""CPython's own tests of mappings, on a map of kvwal: which of them it runs, and why not the others."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kvwal.structures.map.map import Map

suite = pytest.importorskip(
    "test.mapping_tests", reason="this Python comes without CPython's own tests", exc_type=ImportError
)

BASIC, FULL, HASH = "BasicTestMappingProtocol", "TestMappingProtocol", "TestHashMappingProtocol"
A_STORE = "a map is made by a store, under a name: there is no constructor, `copy` or `fromkeys`"
NO_CODEC = (
    "keys and values are those that a codec brings back; its test stores objects of its own, which is `CodecError`"
)

# What is not run as `TestHashMappingProtocol` has it: the class whose shorter form is (None: none), and the intent.
DIFFERENCES: dict[str, tuple[str | None, str]] = {
    "test_constructor": (BASIC, A_STORE),
    "test_copy": (None, A_STORE),
    "test_fromkeys": (None, A_STORE),
    "test_popitem": (BASIC, A_STORE),
    "test_getitem": (FULL, NO_CODEC),
    "test_pop": (FULL, NO_CODEC),
    "test_eq": (None, NO_CODEC),
    "test_setdefault": (BASIC, "what is got is a copy: to change it changes nothing that is stored"),
    "test_repr": (None, "the text of a map is not that of all it holds, which may be gigabytes"),
    "test_repr_deep": (None, "a map cannot be a value of a map"),
}
NAMES = [name for name in dir(getattr(suite, HASH)) if name.startswith("test_")]
_NUMBERS = count(1)


def case_of(form: str, name: str, store: Any) -> Any:
    """The test `name` of a class of CPython's, on maps of a store that nobody else has."""

    class OnMaps(getattr(suite, form)):  # type: ignore[misc]
        def _reference(self) -> dict[str, str]:
            return {"1": "2", "key1": "value1", "key2": "a tuple is no value, so this is text"}

        def _empty_mapping(self) -> Map:
            found: Map = store.map(f"mapping-{next(_NUMBERS)}")
            return found

    return OnMaps(name)


FORMS = [(form, name) for name in NAMES if (form := DIFFERENCES.get(name, (HASH, ""))[0])]


@pytest.mark.parametrize(("form", "name"), FORMS)
def test_a_map_passes_the_test_of_cpython(store: Any, form: str, name: str) -> None:
    case_of(form, name, store).debug()


def test_every_difference_is_one_of_a_test_that_cpython_has() -> None:
    assert set(DIFFERENCES) <= set(NAMES)
