"""A request written as a command, read by the command again, is the same request."""

from __future__ import annotations

import shlex

import pytest

from portal.cli.as_command import as_command
from scheduler.core.request import RequestLimits, parse_request, request_as_dict
from tests.unit.cli.fake_rest import Rest, a_row

LIMITS = RequestLimits()
LEAST = {
    "project": "vision",
    "name": "sum",
    "image": "pytorch:2.7",
    "command": ["python", "train.py", "--lr", "3"],
    "device": {"gpus": 1},
}
MOST = {
    "kind": "service",
    "launcher": "torchrun",
    "processes": 1,
    "replicas": 3,
    "device": {"mps": {"threads": 25, "memory": "20GiB"}, "models": ["H200", "A100 80GB"]},
    "cpu": "500m",
    "memory": "3GiB",
    "shm": "2GiB",
    "disk": "200GiB",
    "time_limit": "1d2h3m4s",
    "priority": "high",
    "topology": "same-node",
    "backend": "gloo",
    "retries": {"infrastructure": 0, "user": 2},
    "grace": "1m",
    "preemptible": True,
    "begin_at": "2027-01-31T18:00:00+01:00",
    "after": ["J-1", "J-2"],
    "needs": ["nvme", "zone=a"],
    "tolerates": ["maintenance"],
    "env": {"A": "1", "B": "a b'c\"$(x)`\n--gpus", "C": "-x=y", "D": ""},
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        MOST,
        {"priority": "low"},
        {"priority": "low", "preemptible": False},
        {"device": {"gpus": 4}, "launcher": "torchrun"},
        {"device": {"mig": "2g.35gb"}},
        {"device": {"memory": "24GiB", "isolation": "any"}},
        {"begin_at": "+2h"},
        {"command": ["bash", "-c", 'echo "it\'s" > /dev/null; $HOME\n\t中文']},
        {"command": ["--", "-x"]},
        *({name: MOST[name]} for name in MOST if name not in ("processes", "backend", "device")),
    ],
    ids=str,
)
def test_it_comes_back(more: dict):
    asked = parse_request(LEAST | more, LIMITS)
    words = shlex.split(as_command(request_as_dict(asked)))
    assert words[0] == "tessera"
    rest = Rest().on("POST", "jobs", a_row())
    done = rest.run(*words[1:])
    assert done.exit_code == 0, done.stderr
    assert request_as_dict(parse_request(rest.body("POST", "jobs"), LIMITS)) == request_as_dict(
        asked
    )
