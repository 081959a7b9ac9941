"""The layout of a plan's graph: no node over another, data flows down, for any edges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvwal.console.sparkreads import plan_graph
from kvwal.console.sparkreads.plan_graph import Touched, metric_text, plan_of, plan_picture
from kvwal.spark.records import Metric, PlanEdge


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=60))
def test_no_node_lies_over_another_and_children_are_above_their_parents(
    count: int, pairs: list[tuple[int, int]]
) -> None:
    """Also with edges that no plan has: of nodes that are not there, and in circles."""
    nodes = [f"{number} Filter" for number in range(1, count + 1)]
    plan = plan_of(nodes, [PlanEdge(child, parent) for child, parent in pairs], [])
    spots = plan_graph._layout(plan)
    boxes = list(spots.values())
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            is_beside = one.x + plan_graph._WIDTH <= other.x or other.x + plan_graph._WIDTH <= one.x
            assert is_beside or one.y + one.height <= other.y or other.y + other.height <= one.y
    for parent, below in plan.children.items():
        for child in below:
            if parent in spots and child in spots:
                assert spots[child].y < spots[parent].y


def test_a_chain_of_a_thousand_nodes_is_drawn() -> None:
    nodes = [f"{number} Project" for number in range(1000)]
    plan = plan_of(nodes, [PlanEdge(number + 1, number) for number in range(999)], [])
    assert plan_picture(plan, {}, "plan").count("<rect") == 1000


def test_nodes_that_only_pass_rows_on_are_left_out() -> None:
    nodes = ["1 AdaptiveSparkPlan", "2 WholeStageCodegen (1)", "3 InputAdapter", "4 Scan csv"]
    edges = [PlanEdge(2, 1), PlanEdge(3, 2), PlanEdge(4, 3)]
    plan = plan_of(nodes, edges, [Metric("2 WholeStageCodegen (1)", "duration", "timing", 1, 30)])
    assert [node.name for node in plan.nodes.values()] == ["WholeStageCodegen (1)", "Scan csv"]
    assert plan.children[2] == [4]
    assert plan.slowest == 2


def test_a_node_that_reads_leads_to_the_lineage_of_its_data() -> None:
    plan = plan_of(["1 <b>Scan</b>"], [], [])
    drawn = plan_picture(plan, {1: Touched(False, "/lineage?dataset=x")}, "plan")
    assert '<a href="/lineage?dataset=x"' in drawn
    assert "<b>" not in drawn


def test_values_of_metrics_have_their_units() -> None:
    values = {"size": 2048, "timing": 1500, "nsTiming": 2_000_000, "sum": 12_345, "average": 25}
    shown = {kind: metric_text(Metric("1 Scan", "m", kind, 1, value)) for kind, value in values.items()}
    assert shown == {"size": "2.0 KiB", "timing": "1.5 s", "nsTiming": "2 ms", "sum": "12\u202f345", "average": "2.5"}


def test_less_than_a_whole_millisecond_is_left_out_as_sparks_page_does() -> None:
    shown = [metric_text(Metric("1 Exchange", "shuffle write time", "nsTiming", 1, ns)) for ns in (999_999, 1_999_999)]
    assert shown == ["0 ms", "1 ms"]
