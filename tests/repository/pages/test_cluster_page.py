"""docs/cluster.md starts nodes by lines that fit together: the runbook asks each node for its /readyz."""

from __future__ import annotations

import re
import shlex

from tests.repository.source import ROOT

PAGE = ROOT / "docs" / "cluster.md"
LINE = re.compile(r"^\$ (kvwal node .+)$", re.MULTILINE)


def test_the_lines_that_start_nodes_fit_together() -> None:
    started = [shlex.split(line)[2:] for line in LINE.findall(PAGE.read_text())]
    nodes = [dict(zip(words[1::2], words[2::2], strict=True)) | {"root": words[0]} for words in started]
    assert len(nodes) == 4
    for option in ("root", "--address", "--http", "--node"):
        assert len({node[option] for node in nodes}) == len(nodes), option
    for node in nodes:
        same = [other for other in nodes if other["--cluster"] == node["--cluster"]]
        assert {other["--archive"] for other in same} == {node["--archive"]}
        if len(same) > 1:
            assert node["--members"].split(",") == [other["--address"] for other in same]
