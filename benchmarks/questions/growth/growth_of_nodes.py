"""What a put into a cluster costs as its nodes grow."""

from __future__ import annotations

from benchmarks.growth import BASELINE, Curve, rows
from benchmarks.harness import Question, Row, Run, rate
from benchmarks.nodes import nodes
from benchmarks.questions.cluster.cluster_writes import in_flight

QUESTION = Question(
    "growth_of_nodes",
    "What does a put into a cluster cost as nodes are added?",
    BASELINE,
    "starting the nodes and the client, and a warm-up. The client and all nodes share this machine's two cores, so the curve says"
    " what a put costs all of them together, not what a cluster of so many machines can do. One client has 500 puts in flight;"
    " from two nodes on each entry has a backup.",
)
NODES = (1, 2, 3, 5)
HEAP = "512m"


def measure(run: Run) -> list[Row]:
    """One curve."""
    puts = run.size(20_000, 1_000)

    def cost(count: int) -> float:
        with nodes(run.root(), count, run.root(), HEAP) as cluster, cluster.client() as client:
            proxy = client.get_map("bench")
            in_flight(proxy, puts)
            return 1e6 / rate(puts, lambda: in_flight(proxy, puts))

    return rows(run, Curve("a put by the nodes", "µs/put", NODES, cost), 2)
