"""The dashboard, the rules and the page about them name metrics that exist, with their labels."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from portal.metrics import OWN_METRICS
from portal.monitoring.celery_process import HeartbeatMetrics
from portal.monitoring.cluster import ClusterMetrics
from portal.monitoring.exposition import BuildInfo
from portal.monitoring.web_process import WebMetrics
from tests.environment.debian import PROMTOOL

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = PROMETHEUS / "tessera.rules.yml"
RULE_TESTS = Path(__file__).with_name("alerts.yml")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "tessera.json").read_text())
PAGE = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}
# Of Prometheus itself and of prometheus_client.
OTHERS = {"up": {"job"}, "process_resident_memory_bytes": {"job"}}
# That Prometheus adds, or that a function needs.
ADDED = {"job", "instance", "le"}
NAME = re.compile(r"\b(?:tessera_\w+|process_\w+|up)\b")
LABELS = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
BY = re.compile(r"\b(?:by|ignoring|on)\s*\(([^)]*)\)")


def families():
    """(name as it is served, type, labels, what it says) of every metric family."""
    for one in OWN_METRICS._collector_to_names:
        suffix = "_total" if one._type == "counter" else ""
        yield one._name + suffix, one._type, one._labelnames, one._documentation
    described = [*WebMetrics().describe(), *ClusterMetrics().describe()]
    described += [*HeartbeatMetrics().collect(), *BuildInfo("web").collect()]
    for metric in described:
        is_info = metric.type == "info"
        labels = ("role", "version") if is_info else metric._labelnames
        kind = "gauge" if is_info else metric.type
        name = metric.name + ("_info" if is_info else "")
        yield name, kind, tuple(labels), metric.documentation


def series():
    """By name of a series, the labels that it has."""
    known = dict(OTHERS)
    for name, kind, labels, _ in families():
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        known |= {name + end: set(labels) for end in ends}
    return known


def expressions():
    for alert, rule in ALERTS.items():
        yield alert, rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("place", "expression"), [*expressions()])
def test_an_expression_names_series_and_labels_that_are_served(place, expression):
    known = series()
    named = set(NAME.findall(expression))
    assert named, place
    assert named <= set(known)
    allowed = ADDED.union(*(known[name] for name in named))
    grouped = {word.strip() for found in BY.findall(expression) for word in found.split(",")}
    assert set(LABELS.findall(expression)) | grouped - {""} <= allowed


def test_every_metric_is_on_the_dashboard_or_in_a_rule():
    used = {name for _, expression in expressions() for name in NAME.findall(expression)}
    unused = {
        name
        for name, kind, _, _ in families()
        if name not in used and not any(name + end in used for end in ("_bucket", "_count"))
    }
    assert unused == set()


def test_the_page_has_a_row_for_each_metric_and_no_other():
    rows = {
        f"| `{name}` | {kind} | {', '.join(f'`{one}`' for one in labels)} | {text} |"
        for name, kind, labels, text in families()
    }
    on_page = {line for line in PAGE.splitlines() if line.startswith("| `tessera_")}
    assert rows - on_page == set() == on_page - rows


def test_the_page_says_what_to_do_on_each_alert():
    on_page = set(re.findall(r"^\| `(Tessera\w+)` \| \S", PAGE, re.MULTILINE))
    assert on_page == set(ALERTS)


def test_each_alert_has_a_severity_and_a_sentence():
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert rule["annotations"]["summary"], name


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def promtool(*arguments, cwd):
    if PROMTOOL.path() is None:
        pytest.skip("promtool is not installed; Debian has it in the package prometheus")
    command = [PROMTOOL.path(), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_accepts_the_configuration_and_the_rules(tmp_path):
    folder = shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    (folder / "metrics-token").write_text("t")
    printed = promtool("check", "config", "prometheus.yml", cwd=folder)
    assert f"{len(ALERTS)} rules found" in printed


def test_alerts_fire_when_they_should_and_not_before():
    promtool("test", "rules", str(RULE_TESTS), cwd=ROOT)
