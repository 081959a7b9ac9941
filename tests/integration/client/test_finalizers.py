"""Finalizers of the program that use a cluster while the interpreter ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running

pytestmark = needs_hazelcast
PROGRAM = """
import sys, kvwal
from kvwal import StoreClosed
store = kvwal.connect(sys.argv[1], cluster=sys.argv[2])
notes = store.map("notes")
notes["a"] = 1
class Session:
    def __del__(self, store=store, notes=notes, refused=StoreClosed, say=sys.stderr.buffer.write):
        for use in (lambda: notes.put("end", 1), lambda: notes["a"], lambda: notes.submit("b", 1), lambda: store.maps()):
            try:
                use()
            except refused as error:
                say(str(error).split(",")[0].encode() + b"; ")
        store.close()
        say(b"closed")
session = Session()
"""


def test_a_finalizer_at_the_end_of_the_program_is_refused_and_the_program_ends(tmp_path: Path) -> None:
    with running(tmp_path / "node") as node:
        command = [sys.executable, "-c", PROGRAM, node.address, CLUSTER]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stderr, ran.returncode) == ("the program ends; " * 4 + "closed", 0)
