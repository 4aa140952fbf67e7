"""A real agent on a simulated node: sensors reach the page for Prometheus, and the portal."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import cached_property

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.environment.programs import free_port
from tests.services.stack import Stack, until

NODE = "node-a"


class Measured(Stack):
    """Its agent has a page for Prometheus, and looks every second."""

    @cached_property
    def metrics_port(self) -> int:
        return free_port()

    @property
    def env(self) -> dict[str, str]:
        return super().env | {
            "TESSERA_METRICS": f"127.0.0.1:{self.metrics_port}",
            "TESSERA_AGENT_TELEMETRY_SECONDS": "1",
            "TESSERA_TELEMETRY_SECONDS": "1",
        }

    def page(self) -> dict[str, dict[str, float]]:
        """Values by name and GPU."""
        text = self.http.get(f"http://127.0.0.1:{self.metrics_port}/metrics").text
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[sample.labels.get("gpu", "")] = sample.value
        return found


@pytest.fixture
def stack(tmp_path):
    with Measured(var=tmp_path, nodes=(NODE,)) as running:
        yield running


@pytest.mark.slow
def test_sensors_reach_prometheus_and_the_portal_and_the_agent_still_ends_in_order(stack):
    until(lambda: "DCGM_FI_DEV_POWER_USAGE" in stack.page(), what="a look")
    page = stack.page()
    assert set(page["DCGM_FI_DEV_POWER_USAGE"]) == {"0", "1"}
    assert all(0 < watts <= 700 for watts in page["DCGM_FI_DEV_POWER_USAGE"].values())
    assert page["tessera_agent_rounds_total"][""] >= 1
    until(lambda: kept(stack) == 2, what="samples in the portal")
    agent = stack.running[NODE]
    stack.stop(NODE)
    assert agent.returncode == 0


def kept(stack: Stack) -> int:
    """Rows in the portal's database."""
    with contextlib.closing(sqlite3.connect(stack.var / "tessera.sqlite3")) as database:
        return int(database.execute("SELECT count(*) FROM inventory_latestsample").fetchone()[0])
