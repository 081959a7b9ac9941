"""The public surface is small, and held: other programs are written against these names."""

from __future__ import annotations

import inspect

import kvwal
from kvwal import errors

HELD = {"Interval", "Map", "Settings", "Store", "aio", "errors", "open", "restore"}


def test_all_is_sorted_and_complete() -> None:
    assert list(kvwal.__all__) == sorted(kvwal.__all__)
    assert set(kvwal.__all__) >= HELD | set(errors.__all__)
    assert not [name for name in kvwal.__all__ if not hasattr(kvwal, name)]
    assert set(dir(kvwal)) >= set(kvwal.__all__)


def test_every_public_name_says_what_it_promises() -> None:
    named = {name: getattr(kvwal, name) for name in kvwal.__all__}
    assert not [name for name, thing in named.items() if callable(thing) and not inspect.getdoc(thing)]


def test_every_error_is_public_and_has_the_one_root() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)
        if inspect.isclass(error) and issubclass(error, BaseException):
            assert issubclass(error, kvwal.KvwalError)
            assert getattr(kvwal, name) is error
