"""Prometheus itself reads its files, and each alert goes off for what it is there for and not for a cluster that is well."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.prometheus import QueueCollector
from kvwal.spark.follower.metrics import FollowerMetrics
from kvwal.spark.follower.status import FollowerStatus
from tests.integration.deploy.test_files import METRIC, alerts, expressions
from tests.repository.source import ROOT
from tests.support.cluster.nodes import needs_hazelcast, running
from tests.support.deploy.stack import found_program

FILES = ROOT / "deploy" / "prometheus"
MINUTES = 60
NODE = 'job="kvwal", node="node-1"'
LOG = 'job="kvwal", node="node-1", business="jobs"'
LABELS = {"job": "kvwal", "node": "node-1", "business": "jobs"}
RECORDER = 'job="kvwal-recorder", node="recorder"'
QUEUE = 'job="pipeline", business="work", queue="work/todo"'
OTHERS = {f'up{{job="kvwal", node="node-{number}"}}': "1" for number in (2, 3)}
WELL = {
    **OTHERS,
    f"up{{{NODE}}}": "1",
    f"kvwal_failed{{{LOG}}}": "0",
    f"kvwal_recovered{{{NODE}}}": "1",
    f"kvwal_cluster_members{{{NODE}}}": "3",
    f"kvwal_adopting{{{NODE}}}": "0",
    f"kvwal_archive_up{{{LOG}}}": "1",
    f"kvwal_archive_lag_seconds{{{LOG}}}": "30",
    f"kvwal_checkpoint_age_seconds{{{LOG}}}": "90000",
    f"kvwal_log_bytes{{{LOG}}}": "100000",
    f"kvwal_damaged{{{LOG}}}": "0",
    f"kvwal_maintenance_failing{{{LOG}}}": "0",
    f"kvwal_slowed{{{LOG}}}": "0.1",
    f"kvwal_queue_oldest_seconds{{{QUEUE}}}": "300",
    f"kvwal_disk_usable_bytes{{{NODE}}}": "50000000000",
    f"kvwal_descriptors_free{{{NODE}}}": "60000",
    f"kvwal_descriptors_reserve{{{NODE}}}": "8192",
    f'kvwal_refused_writes_total{{{NODE}, reason="StorageFull"}}': "7",
    f'kvwal_fsync_seconds_bucket{{{NODE}, le="0.001"}}': "0+60",
    f'kvwal_fsync_seconds_bucket{{{NODE}, le="+Inf"}}': "0+60",
    f"kvwal_clock_skew_seconds{{{NODE}}}": "0.001",
    f'kvwal_certificate_days_left{{{NODE}, file="/etc/kvwal/node.pem"}}': "300",
    f'kvwal_token_file_failing{{{NODE}, file="/etc/kvwal/token"}}': "0",
    f"kvwal_memory_ratio{{{NODE}}}": "0.7",
    f"up{{{RECORDER}}}": "1",
    f"process_start_time_seconds{{{RECORDER}}}": "1000000",
    f"kvwal_follower_lag_seconds{{{RECORDER}}}": "6",
}
ILL = {
    "KvwalNodeDown": {f"up{{{NODE}}}": "0"},
    "KvwalNodeFailed": {f"kvwal_failed{{{LOG}}}": "1"},
    "KvwalNotRecovered": {f"kvwal_recovered{{{NODE}}}": "0"},
    "KvwalMembersMissing": {f"kvwal_cluster_members{{{NODE}}}": "2"},
    "KvwalAdopting": {f"kvwal_adopting{{{NODE}}}": "1"},
    "KvwalArchiveDown": {f"kvwal_archive_up{{{LOG}}}": "0"},
    "KvwalArchiveLag": {f"kvwal_archive_lag_seconds{{{LOG}}}": "700"},
    "KvwalCheckpointOld": {f"kvwal_log_bytes{{{LOG}}}": "900000000"},
    "KvwalDamaged": {f"kvwal_damaged{{{LOG}}}": "1"},
    "KvwalMaintenanceFailing": {f"kvwal_maintenance_failing{{{LOG}}}": "1"},
    "KvwalWritersSlowed": {f"kvwal_slowed{{{LOG}}}": "0.9"},
    "KvwalQueueOld": {f"kvwal_queue_oldest_seconds{{{QUEUE}}}": "4000"},
    "KvwalDiskLow": {f"kvwal_disk_usable_bytes{{{NODE}}}": "1000000000"},
    "KvwalDiskFull": {f"kvwal_disk_usable_bytes{{{NODE}}}": "0"},
    "KvwalDescriptorsLow": {f"kvwal_descriptors_free{{{NODE}}}": "9000"},
    "KvwalHeapLow": {f"kvwal_memory_ratio{{{NODE}}}": "0.9"},
    "KvwalMemoryFull": {f"kvwal_memory_ratio{{{NODE}}}": "0.97"},
    "KvwalRefusedWrites": {f'kvwal_refused_writes_total{{{NODE}, reason="StorageFull"}}': "7+1"},
    "KvwalSlowDisk": {
        f'kvwal_fsync_seconds_bucket{{{NODE}, le="0.001"}}': "0",
        f'kvwal_fsync_seconds_bucket{{{NODE}, le="1"}}': "0+60",
    },
    "KvwalClockSkew": {f"kvwal_clock_skew_seconds{{{NODE}}}": "-3"},
    "KvwalCertificateExpires": {f'kvwal_certificate_days_left{{{NODE}, file="/etc/kvwal/node.pem"}}': "13"},
    "KvwalTokenFileFailing": {f'kvwal_token_file_failing{{{NODE}, file="/etc/kvwal/token"}}': "1"},
    "KvwalRecorderDown": {f"up{{{RECORDER}}}": "0"},
    "KvwalRecorderBehind": {f"kvwal_follower_lag_seconds{{{RECORDER}}}": "700"},
}
RESTARTS = {f"process_start_time_seconds{{{RECORDER}}}": "1000000+300"}
CHOSEN = re.compile(rf"({METRIC.pattern}){{([^}}]*)}}")
LABEL = re.compile(r"(\w+)=~?\"")
OF_PROMETHEUS = {"job", "node"}
BESIDES = {"KvwalDiskFull": {"KvwalDiskLow"}, "KvwalMemoryFull": {"KvwalHeapLow"}}

needs_promtool = pytest.mark.skipif(
    found_program("promtool") is None,
    reason="promtool is not here: .ci/run brings it where Debian's packages can be had",
)


def promtool(*words: str | Path) -> None:
    ran = subprocess.run([str(found_program("promtool")), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def series(name: str, value: str) -> dict[str, str]:
    """An hour of a series: one value that stays, or one that grows each minute (`0+60`)."""
    start, _, step = value.partition("+")
    return {"series": name, "values": f"{start}+{step or 0}x{MINUTES}"}


def case(expected: set[str], changed: dict[str, str]) -> dict[str, Any]:
    goes_off = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)],
    }
    return {
        "interval": "1m",
        "input_series": [series(name, value) for name, value in {**WELL, **changed}.items()],
        "promql_expr_test": [goes_off],
    }


def check(tmp_path: Path, cases: list[dict[str, Any]]) -> None:
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILES / "alerts.yml")], "tests": cases}))
    promtool("test", "rules", file)


@needs_promtool
def test_prometheus_takes_its_configuration() -> None:
    promtool("check", "config", FILES / "prometheus.yml")


@needs_promtool
def test_no_alert_goes_off_for_a_cluster_that_is_well(tmp_path: Path) -> None:
    check(tmp_path, [case(set(), {})])


@needs_promtool
def test_each_alert_goes_off_for_its_own_reason(tmp_path: Path) -> None:
    assert set(ILL) == {alert["alert"] for alert in alerts()}
    cases = [*ILL.items(), ("KvwalRecorderDown", RESTARTS)]
    check(tmp_path, [case({name, *BESIDES.get(name, ())}, changed) for name, changed in cases])


@needs_promtool
@pytest.mark.parametrize(
    ("labels", "base"), [({}, ""), ({"kvwal_docs": "https://git.example/kvwal"}, "https://git.example/kvwal/")]
)
def test_an_alerts_link_opens_its_section(tmp_path: Path, labels: dict[str, str], base: str) -> None:
    [alert] = [one for one in alerts() if one["alert"] == "KvwalNodeFailed"]
    link = f"{base}docs/cluster-runbook.md#kvwalnodefailed"
    told = {name: text.replace("{{ $labels.node }}", "node-1") for name, text in alert["annotations"].items()}
    expected = {"exp_labels": LABELS | alert["labels"], "exp_annotations": told | {"runbook_url": link}}
    shown = {"eval_time": "1m", "alertname": alert["alert"], "exp_alerts": [expected]}
    changed = [series(f"kvwal_failed{{{LOG}}}", "1")]
    check(tmp_path, [{"external_labels": labels, "input_series": changed, "alert_rule_test": [shown]}])


def page_of_queues(root: Path) -> str:
    """The page of a program that embeds a store with queues."""
    registry = CollectorRegistry()
    with kvwal.open(root, archive=None) as store:
        store.business("work").queue("todo").put(1)
        registry.register(QueueCollector(store))
        return generate_latest(registry).decode()


@needs_hazelcast
def test_every_metric_that_is_asked_for_is_one_that_a_node_a_recorder_or_a_program_tells(tmp_path: Path) -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(expression)}
    with running(tmp_path / "root") as node, node.client() as client:
        client.get_map("jobs").blocking().set("job-1", 1)
        status = FollowerStatus(SYSTEM)
        status.begin()
        status.end(0)
        page = node.get("/metrics")[1] + FollowerMetrics(status).page().decode() + page_of_queues(tmp_path / "queues")
    assert asked <= set(METRIC.findall(page))
    for expression in expressions():
        for name, chosen in CHOSEN.findall(expression):
            labels = set(LABEL.findall(" ".join(re.findall(rf"^{name}{{(.*)}} ", page, re.MULTILINE))))
            assert set(LABEL.findall(chosen)) <= labels | OF_PROMETHEUS, f"{name} in {expression}"
