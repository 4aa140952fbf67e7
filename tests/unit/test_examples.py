"""The example job does what it says: right sums, honest exit codes, a checkpoint that counts."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from portal.demo.example import request_body
from scheduler.core.request import RequestLimits, parse_request

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
WORLD = 3


def gang(tmp_path: Path, *options: str) -> list[subprocess.Popen[str]]:
    """The ranks, each with the environment that an agent injects."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(WORLD):
        home = tmp_path / str(rank)
        home.mkdir(exist_ok=True)
        env = {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1"}
        env |= {"MASTER_PORT": str(port), "TESSERA_OUTPUT_DIR": str(home)}
        ranks.append(
            subprocess.Popen(
                [sys.executable, str(EXAMPLES / "distributed_sum.py"), *options],
                env={**os.environ, **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return ranks


def ends(ranks: list[subprocess.Popen[str]]) -> list[tuple[int, dict]]:
    """Each rank's exit code and its last line."""
    said = []
    for rank in ranks:
        out, _ = rank.communicate(timeout=60)
        said.append((rank.returncode, json.loads(out.splitlines()[-1])))
    return said


def test_every_rank_finds_every_sum_right(tmp_path):
    found = ends(gang(tmp_path, "--rounds", "5", "--seconds", "0"))
    assert [code for code, _ in found] == [0] * WORLD
    assert all(last["allreduce_ok"] is True for _, last in found)
    assert {last["rounds"] for _, last in found} == {5}


def test_a_rank_that_crashes_is_told_from_those_that_lost_it(tmp_path):
    found = ends(gang(tmp_path, "--crash-rank", "1"))
    codes = [code for code, _ in found]
    assert codes[1] == 3
    assert codes[0] != 0
    assert all(last["event"] != "result" for _, last in found)


def test_a_terminated_run_goes_on_from_rank_zeros_checkpoint(tmp_path):
    ranks = gang(tmp_path, "--rounds", "1000000")
    assert ranks[0].stdout
    while '"gang"' not in ranks[0].stdout.readline():
        pass
    ranks[0].send_signal(signal.SIGTERM)
    assert ranks[0].wait(300) == 143
    assert [code for code, _ in ends(ranks)] == [143, 1, 1]
    (tmp_path / "0" / "checkpoint-0.json").write_text('{"round": 7}')
    found = ends(gang(tmp_path, "--rounds", "9", "--seconds", "0"))
    assert {last["rounds"] for _, last in found} == {9}


def test_the_written_example_is_a_request_that_the_portal_takes():
    body = yaml.safe_load((EXAMPLES / "sum.yaml").read_text("utf-8"))
    request = parse_request(body, RequestLimits())
    assert request.replicas == 2
    assert request.device.mig == "2g.35gb"


@pytest.mark.parametrize("runtime", ["docker", "process"])
def test_no_example_carries_amounts_of_the_host_into_the_next_request(runtime):
    """The request page starts with a person's last job, which in a demonstration is this one."""
    written = yaml.safe_load((EXAMPLES / "sum.yaml").read_text("utf-8"))
    for body in (written, request_body(runtime)):
        assert not {"cpu", "memory", "shm"} & body.keys()
