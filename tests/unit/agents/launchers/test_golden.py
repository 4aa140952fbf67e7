"""What each launcher adds to the start of each replica, as files that a reviewer reads.

`GOLDEN=write .venv/bin/python -m pytest -q tests/unit/agents/launchers/test_golden.py` writes them
anew, from `golden/<launcher>.yaml`, or `golden/request.yaml` where a launcher has none."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.preview import assumed_rendezvous
from agents.launchers.registry import LAUNCHERS
from agents.launchers.request_file import read_request, requested_replica

GOLDEN = Path(__file__).parent / "golden"


def request_of(name):
    own = GOLDEN / f"{name}.yaml"
    return own if own.exists() else GOLDEN / "request.yaml"


@pytest.mark.parametrize("name", LauncherName)
def test_a_launcher_starts_the_replicas_of_its_request_as_recorded(name):
    launcher = LAUNCHERS[name]
    first = requested_replica(read_request(request_of(name)), name)
    meeting = assumed_rendezvous(first.world)
    starts = []
    for rank in range(first.world):
        launch = Launch(replace(first, rank=rank), meeting)
        start = {"environment": launcher.environment(launch), "command": launcher.command(launch)}
        starts.append(start | {"files": dict(launcher.files(launch))})
    text = json.dumps(starts, indent=2) + "\n"
    recorded = GOLDEN / f"{name}.json"
    if os.environ.get("GOLDEN") == "write":
        recorded.write_text(text, "utf-8")
    assert text == recorded.read_text("utf-8"), "GOLDEN=write if this is meant"
