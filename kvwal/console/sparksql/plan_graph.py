"""The graph of a physical plan: nodes, clusters of code generation, and edges, as Spark's page draws it."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.events.sql import PlanMetric, PlanNode
from kvwal.spark.redaction import redacted

CODEGEN = "WholeStageCodegen"
_STAGES = ("BroadcastQueryStage", "ShuffleQueryStage")
_PASSED_OVER = ("InputAdapter", "TableCacheQueryStage", "ResultQueryStage")


class GraphNode(msgspec.Struct):
    """A node of a plan, or a cluster of nodes that share generated code: `within` is the number of its cluster, if it has one."""

    id: int
    name: str
    desc: str
    metrics: list[PlanMetric]
    within: int | None = None

    @property
    def codegen_id(self) -> int | None:
        """The number of the generated code of a cluster; None for another node."""
        name = self.name.strip()
        number = name[len(CODEGEN) + 2 : -1]
        return int(number) if name.startswith(f"{CODEGEN} (") and number.isascii() and number.isdecimal() else None


class GraphEdge(msgspec.Struct, rename="camel", frozen=True):
    """An edge of a plan: the node `from_id` gives its rows to the node `to_id`."""

    from_id: int
    to_id: int


class PlanGraph(msgspec.Struct):
    """The nodes of a plan in the order of their numbers, and the edges among them."""

    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []


def plan_graph(plan: PlanNode) -> PlanGraph:
    """The graph of a plan, with Spark's numbers: an exchange or subquery that is used again is one node.

    A plan may be thousands of nodes deep, so the walk has a stack of its own.
    """
    numbers: dict[Any, int] = {}
    graph, known = PlanGraph([], []), dict[int, GraphNode]()
    edges: set[GraphEdge] = set()

    def connect(child: int, parent: GraphNode | None) -> None:
        if parent is not None:
            edge = GraphEdge(child, parent.id)
            graph.edges.append(edge)
            edges.add(edge)

    equal = _equal_plans(plan, numbers)
    waiting: list[tuple[PlanNode, GraphNode | None, int | None]] = [(plan, None, None)]
    while waiting:
        node, parent, cluster = waiting.pop()
        name = node.node_name
        child = node.children[0] if node.children else None
        same = known.get(equal[id(child)]) if child is not None else None
        if name.startswith(CODEGEN) and child is not None:
            whole = _node(graph, node, None)
            waiting.append((child, parent, whole.id))
        elif name in _PASSED_OVER and child is not None:
            waiting.append((child, parent, None))
        elif (name in _STAGES or name == "ReusedExchange") and same is not None:
            connect(same.id, parent)
        elif name in _STAGES and child is not None:
            waiting.append((child, parent, None))
        elif name == "Subquery" and cluster is not None:
            waiting.append((node, parent, None))
        elif name == "Subquery" and equal[id(node)] in known:
            used = known[equal[id(node)]].id
            if parent is None or GraphEdge(used, parent.id) not in edges:
                connect(used, parent)
        elif name == "ReusedSubquery" and child is not None:
            waiting.append((child, parent, cluster))
        else:
            made = _node(graph, node, cluster)
            if "Exchange" in name or name == "Subquery":
                known[equal[id(node)]] = made
            connect(made.id, parent)
            waiting += [(each, made, cluster) for each in reversed(node.children)]
    return graph


def _node(graph: PlanGraph, node: PlanNode, cluster: int | None) -> GraphNode:
    made = GraphNode(len(graph.nodes), node.node_name, redacted(node.simple_string), node.metrics, cluster)
    graph.nodes.append(made)
    return made


def _equal_plans(plan: PlanNode, numbers: dict[Any, int]) -> dict[int, int]:
    """A number for each node of a plan, by its identity: nodes have the same one if they and all below them say the same."""
    order, waiting = [], [plan]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += node.children
    equal: dict[int, int] = {}
    for node in reversed(order):
        told = (node.node_name, node.simple_string, *(equal[id(child)] for child in node.children))
        equal[id(node)] = numbers.setdefault(told, len(numbers))
    return equal
