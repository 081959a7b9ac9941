"""The Helm chart: rendered by Helm's own engine, held against Kubernetes' schemas, and against what a node needs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import yaml

from kvwal.node.config import NodeFile, parse_address
from tests.repository.source import ROOT

helm = pytest.importorskip("helm_python", reason="Helm's engine is not here: .ci/run brings it (the extra `helm`)")
validate = pytest.importorskip("kubernetes_validate", reason="Kubernetes' schemas are not here (the extra `helm`)")

CHART = ROOT / "deploy" / "helm" / "kvwal"
NEEDED = {"archive": {"url": "s3://bucket/prefix", "existingSecret": "object-storage"}}
EVERYTHING = {
    **NEEDED,
    "archive": {**NEEDED["archive"], "endpoint": "https://s3.example", "region": "eu-central-1"},
    "replicas": 5,
    "image": {"repository": "registry.example/kvwal", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/kvwal"}},
    "without": ["demo-kvwal-4"],
    "storage": {"size": "1Ti", "className": "fast"},
    "networkPolicy": {
        "clients": [{"podSelector": {"matchLabels": {"role": "driver"}}}],
        "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "console": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "token": {"existingSecret": "kvwal-token"},
    "tls": {"existingSecret": "kvwal-tls"},
    "console": {"existingSecret": "console-token"},
    "recorder": {"eventLogs": ["s3://bucket/spark-events", "s3://bucket/other"], "replicas": 2, "keepLogs": True},
    "podAnnotations": {"note": "one"},
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
}

RECORDED = {**NEEDED, "recorder": {"eventLogs": ["s3://bucket/spark-events"]}, "networkPolicy": {"enabled": False}}
OF_PROMETHEUS_OPERATOR = {"ServiceMonitor", "PodMonitor"}
"""Kinds of which Kubernetes has no schema."""


def rendered(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every resource by its kind and name."""
    with helm.Chart.load(str(CHART)) as chart:
        texts = [
            text
            for name, text in chart.render(dict(values), name="demo", namespace="prod").items()
            if name.endswith(".yaml")
        ]
    resources = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in resources}


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, Any]]:
    return rendered(NEEDED)


def pod(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = resources["StatefulSet/demo-kvwal"]["spec"]["template"]["spec"]
    return found


def container(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (found,) = pod(resources)["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", ["1.27.0", "1.37.0"])
@pytest.mark.parametrize(
    ("values", "count"), [(NEEDED, 7), (EVERYTHING, 14), (RECORDED, 7), ({**NEEDED, "recorder": None, "console": None}, 7)],
    ids=["needed", "everything", "a recorder and no policies", "the values of an older chart"],
)  # fmt: skip
def test_every_resource_is_what_kubernetes_takes(values: dict[str, Any], count: int, version: str) -> None:
    resources = rendered(values)
    assert len(resources) == count
    for name, resource in resources.items():
        if resource["kind"] not in OF_PROMETHEUS_OPERATOR:
            validate.validate(resource, version, strict=True)
        assert resource["metadata"]["labels"]["app.kubernetes.io/instance"] == "demo", name


def test_the_schemas_notice_a_mistake(plain: dict[str, dict[str, Any]]) -> None:
    wrong = json.loads(json.dumps(plain["StatefulSet/demo-kvwal"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.37.0", strict=True)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"archive": {"url": "bucket/prefix"}},
        {**NEEDED, "replicas": 0},
        {**NEEDED, "replica": 3},
        {**NEEDED, "namespace": "../other"},
        {**NEEDED, "terminationGracePeriodSeconds": 30},
        {**NEEDED, "image": {"repository": "kvwal/node", "digest": "latest"}},
        {**NEEDED, "recorder": {"eventLogs": ["spark-events"]}},
        {**NEEDED, "tls": {"existingSecret": "kvwal-tls"}},  # TLS alone lets every client in
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(helm.HelmError, match="values don't meet the specifications"):
        rendered(values)


def test_each_member_is_told_the_names_that_kubernetes_gives(plain: dict[str, dict[str, Any]]) -> None:
    told = dict(word.removeprefix("--").split("=", 1) for word in container(plain)["command"][3:])
    found = plain["StatefulSet/demo-kvwal"]
    names = [f"{found['metadata']['name']}-{number}.{found['spec']['serviceName']}" for number in range(3)]
    assert told["members"].split(",") == [f"{name}:5701" for name in names]
    assert told["address"].replace("$(POD_NAME)", "demo-kvwal-0") == told["members"].split(",")[0]
    assert all(parse_address(member, "--members").port == 5701 for member in told["members"].split(","))
    assert told["node"] == "$(POD_NAME)"
    headless = plain[f"Service/{found['spec']['serviceName']}"]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True, "members could not find each other before they are ready"
    assert found["spec"]["podManagementPolicy"] == "Parallel", "after the loss of all each waits for the others"


def test_a_node_has_time_to_leave_and_one_leaves_at_a_time(plain: dict[str, dict[str, Any]]) -> None:
    assert pod(plain)["terminationGracePeriodSeconds"] >= 120
    assert plain["PodDisruptionBudget/demo-kvwal"]["spec"]["maxUnavailable"] == 1
    kept = plain["StatefulSet/demo-kvwal"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert set(kept.values()) == {"Retain"}


def test_probes_ask_what_a_node_answers(plain: dict[str, dict[str, Any]]) -> None:
    found = container(plain)
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    assert ports == {"members": 5701, "http": 8701}
    paths = {probe: found[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {probe: asked["path"] for probe, asked in paths.items()} == {
        "startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"
    }  # fmt: skip
    assert {asked["port"] for asked in paths.values()} == {"http"}


def test_a_node_runs_without_rights_and_its_secrets_are_not_in_the_chart(plain: dict[str, dict[str, Any]]) -> None:
    assert pod(plain)["securityContext"]["runAsNonRoot"] is True
    assert pod(plain)["automountServiceAccountToken"] is False
    for one in [*pod(plain)["containers"], *pod(plain)["initContainers"]]:
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
    environment = {one["name"]: one for one in container(plain)["env"]}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environment[name]["valueFrom"]["secretKeyRef"] == {"name": "object-storage", "key": name}
    assert not any(one["kind"] == "Secret" for one in plain.values())


def test_nothing_but_the_members_reaches_a_node_unless_it_is_named(plain: dict[str, dict[str, Any]]) -> None:
    (only,) = plain["NetworkPolicy/demo-kvwal"]["spec"]["ingress"]
    own = plain["StatefulSet/demo-kvwal"]["spec"]["selector"]
    assert only == {"from": [{"podSelector": own}], "ports": [{"protocol": "TCP", "port": 5701}]}
    every = rendered(EVERYTHING)
    members, watchers = every["NetworkPolicy/demo-kvwal"]["spec"]["ingress"]
    assert EVERYTHING["networkPolicy"]["clients"][0] in members["from"]  # type: ignore[index]
    assert {"podSelector": every["Deployment/demo-kvwal-recorder"]["spec"]["selector"]} in members["from"]
    assert watchers["ports"] == [{"protocol": "TCP", "port": 8701}]


def test_the_nodes_file_is_one_that_a_node_takes_and_a_change_of_it_restarts_the_nodes() -> None:
    first = rendered(NEEDED)
    text = first["ConfigMap/demo-kvwal"]["data"]["node.toml"]
    assert set(tomllib.loads(text)) <= set(NodeFile.__struct_fields__)
    other = rendered({**NEEDED, "config": 'heap = "2g"\n'})
    marks = [one["StatefulSet/demo-kvwal"]["spec"]["template"]["metadata"]["annotations"] for one in (first, other)]
    assert marks[0] != marks[1]


@pytest.mark.parametrize("config", ["", 'heap = "2g"', 'heap = "2g"\n[log]\narchive_seconds = 30'])
def test_token_and_certificates_are_files_of_secrets_that_the_nodes_file_names(config: str) -> None:
    resources = rendered({**EVERYTHING, "config": config})
    told = msgspec.toml.decode(resources["ConfigMap/demo-kvwal"]["data"]["node.toml"], type=NodeFile)
    assert told.tls is not None
    named = [told.token_file, told.http_token_file, told.tls.certificate, told.tls.key, told.tls.authority]
    mounts = {one["name"]: one["mountPath"] for one in container(resources)["volumeMounts"]}
    secrets = {one["name"]: one["secret"] for one in pod(resources)["volumes"] if "secret" in one}
    assert {name: one["secretName"] for name, one in secrets.items()} == {"token": "kvwal-token", "tls": "kvwal-tls"}
    assert {one["defaultMode"] for one in secrets.values()} == {0o440}, "for the group of the pod alone"
    files = {"token": ["token", "http-token"], "tls": ["tls.crt", "tls.key", "ca.crt"]}
    assert named == [f"{mounts[name]}/{file}" for name in files for file in files[name]]
    (endpoint,) = resources["ServiceMonitor/demo-kvwal"]["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "kvwal-token", "key": "http-token"}}


def test_prometheus_asks_each_pod_once_and_knows_it_by_the_names_of_the_alerts() -> None:
    resources = rendered(EVERYTHING)
    monitor = resources["ServiceMonitor/demo-kvwal"]["spec"]
    (endpoint,) = monitor["endpoints"]
    assert {one["targetLabel"] for one in endpoint["relabelings"]} == {"node", "job"}
    chosen = [
        name
        for name, one in resources.items()
        if one["kind"] == "Service" and "kvwal/role" not in one["metadata"]["labels"]
    ]
    assert chosen == ["Service/demo-kvwal-members"]
    assert [one["operator"] for one in monitor["selector"]["matchExpressions"]] == ["DoesNotExist"]


def test_a_recorder_is_told_the_nodes_and_the_event_logs_and_no_service_of_the_nodes_finds_it() -> None:
    resources = rendered(EVERYTHING)
    recorder = resources["Deployment/demo-kvwal-recorder"]["spec"]
    (found,) = recorder["template"]["spec"]["containers"]
    program, command, location, *logs = found["command"][:5]
    (members,) = (word for word in container(resources)["command"] if word.startswith("--members="))
    assert (program, command, location) == ("kvwal", "record", f"kvwal://{members.removeprefix('--members=')}")
    assert logs == EVERYTHING["recorder"]["eventLogs"]  # type: ignore[index]
    assert found["command"][5:7] == ["--follow", "--keep-logs"]
    options = dict(word.removeprefix("--").split("=", 1) for word in found["command"][7:])
    assert options == {"namespace": "spark", "cluster": "kvwal", "http": "$(POD_IP):8702"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    (temporary,) = (one["emptyDir"] for one in recorder["template"]["spec"]["volumes"] if one["name"] == "tmp")
    assert temporary == {"sizeLimit": "2Gi"}
    environment = {one["name"]: one.get("value") for one in found["env"]}
    mounts = {one["name"]: one["mountPath"] for one in found["volumeMounts"]}
    assert environment["KVWAL_TOKEN_FILE"] == f"{mounts['token']}/token"
    assert environment["KVWAL_AUTHORITY"] == f"{mounts['tls']}/ca.crt"
    labels = recorder["template"]["metadata"]["labels"].items()
    of_nodes = [one["spec"]["selector"] for name, one in resources.items() if name.startswith("Service/")]
    assert of_nodes
    assert not any(selector.items() <= labels for selector in of_nodes)


def test_a_console_needs_a_token_and_is_reached_by_what_is_named_alone() -> None:
    resources = rendered(EVERYTHING)
    console = resources["Deployment/demo-kvwal-console"]["spec"]
    (found,) = console["template"]["spec"]["containers"]
    (members,) = (word for word in container(resources)["command"] if word.startswith("--members="))
    assert found["command"][:3] == ["kvwal", "console", f"kvwal://{members.removeprefix('--members=')}"]
    options = dict(word.removeprefix("--").split("=", 1) for word in found["command"][3:])
    mounts = {one["name"]: one["mountPath"] for one in found["volumeMounts"]}
    assert options["token-file"] == f"{mounts['console']}/token"
    assert "--allow-writes" not in found["command"]
    (only,) = resources["NetworkPolicy/demo-kvwal-console"]["spec"]["ingress"]
    assert only["from"] == EVERYTHING["networkPolicy"]["console"]  # type: ignore[index]
    labels = console["template"]["metadata"]["labels"].items()
    finders = [
        name
        for name, one in resources.items()
        if name.startswith("Service/") and one["spec"]["selector"].items() <= labels
    ]
    assert finders == ["Service/demo-kvwal-console"]
    assert not [name for name in rendered(NEEDED) if "console" in name]
