"""Contents beside a dict: what is put, copied, deleted, or done in a transaction is there, also after a reopening."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import kvwal
from kvwal.content.claim import claim_of
from kvwal.content.folder import claim_files
from kvwal.ports.disk import OS_DISK
from tests.support.chance import examples

NAMES = st.sampled_from(["a", "b", "a/b", "é", " ", "../c"])
DATA = st.one_of(st.binary(max_size=40), st.integers(0, 9000).map(bytes))
PARTS = st.lists(DATA, max_size=4)
ATTRIBUTES = st.dictionaries(st.sampled_from(["codec", "type"]), st.text(max_size=3, alphabet="xyzé"), max_size=2)
STEP = st.tuples(st.sampled_from(["put", "copy", "delete"]), NAMES, NAMES, DATA)


class Failed(Exception):
    """What a block raises."""


class ContentsAsDict(RuleBasedStateMachine):
    """Contents of one business, its map, and dicts that do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.map: dict[str, int] = {}
        self.patches = [
            patch("kvwal.content.files.SHARED_BYTES", 4000), patch("kvwal.content.writer.SHARED_BYTES", 4000),
            patch("kvwal.content.writer.STEP_BYTES", 3000), patch("kvwal.content.shared.FILE_BYTES", 9000),
        ]  # fmt: skip
        for one in self.patches:
            one.start()

    @initialize()
    def open(self) -> None:
        self.store = kvwal.open(self.folder.name, archive=None, flush="os")
        self.business = self.store.business("work")
        self.c = self.business.content()

    def teardown(self) -> None:
        self.store.close()
        for one in self.patches:
            one.stop()
        self.folder.cleanup()

    @rule(name=NAMES, data=DATA, attributes=ATTRIBUTES)
    def put(self, name: str, data: bytes, attributes: dict[str, str]) -> None:
        self.c.put(name, data, attributes)
        self.model[name] = data, attributes

    @rule(name=NAMES, parts=PARTS, fails=st.booleans())
    def stream(self, name: str, parts: list[bytes], fails: bool) -> None:
        with raising(fails), self.c.create(name) as out:
            for part in parts:
                out.write(part)
            if fails:
                raise Failed
        if not fails:
            self.model[name] = b"".join(parts), {}

    @rule(name=NAMES, to=NAMES)
    def copy(self, name: str, to: str) -> None:
        if name not in self.model:
            with pytest.raises(KeyError):
                self.c.copy(name, to)
            return
        self.c.copy(name, to)
        self.model[to] = self.model[name]

    @rule(name=NAMES, attributes=ATTRIBUTES)
    def set_attributes(self, name: str, attributes: dict[str, str]) -> None:
        if name in self.model:
            self.c.set_attributes(name, attributes)
            self.model[name] = self.model[name][0], attributes

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.c.delete(name)
        self.model.pop(name, None)

    @rule(
        steps=st.lists(st.tuples(st.sampled_from(["put", "copy", "delete"]), NAMES, NAMES, DATA), max_size=5),
        fails=st.booleans(),
    )
    def transaction(self, steps: list[tuple[str, str, str, bytes]], fails: bool) -> None:
        model = dict(self.model)
        with raising(fails), self.business.transaction() as t:
            for kind, name, to, data in steps:
                if kind == "put":
                    t.content().put(name, data)
                    model[name] = data, {}
                elif kind == "delete":
                    t.content().delete(name)
                    model.pop(name, None)
                elif name in model:
                    t.content().copy(name, to)
                    model[to] = model[name]
                assert [t.content().get(known) for known in model] == [data for data, _ in model.values()]
            t.map()["steps"] = len(steps)
            if fails:
                raise Failed
        if not fails:
            self.model, self.map = model, {"steps": len(steps)}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @invariant()
    def as_the_dict(self) -> None:
        assert {name: (self.c.get(name), self.c.stat(name).attributes) for name in self.c} == self.model
        assert [content.name for content in self.c.list()] == sorted(self.model)
        assert dict(self.business.map()) == self.map

    @invariant()
    def each_file_is_there(self) -> None:
        named = {claim_of(entry).file for name in self.c if (entry := self.c.entry(name)) is not None}
        empty = {
            claim_of(entry).file for name in self.c if not self.c.stat(name).length and (entry := self.c.entry(name))
        }
        there = {file.name for file in claim_files(OS_DISK, Path(self.folder.name, "default/local/work/local"))}
        assert named - empty <= there


@contextmanager
def raising(fails: bool) -> Iterator[None]:
    """A block that may raise `Failed`."""
    if not fails:
        yield
        return
    with pytest.raises(Failed):
        yield


TestContentsAsDict = ContentsAsDict.TestCase
TestContentsAsDict.settings = settings(max_examples=examples(25), stateful_step_count=25)
