"""The ring of sockets that stands in for nccl-tests where no GPU is real."""

import os
import socket
import subprocess
import sys

from agents.launchers import nccl_tests, pair_rounds, ring_all_reduce
from portal.node_pairs.nccl_output import read_nccl_output, read_pair_outputs


def run_ring(world: int, *, job: str = "j", arguments=("-b", "64K", "-e", "128K", "-n", "1")):
    """Ends and outputs of its ranks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TESSERA_JOB": job}
    command = [sys.executable, ring_all_reduce.__file__, *arguments]
    ranks = [
        subprocess.Popen(
            command,
            env=os.environ | place | {"NODE_RANK": str(rank), "NNODES": str(world)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], outputs


def test_three_ranks_reduce_and_print_a_table_of_nccl_tests_that_says_what_it_is():
    codes, outputs = run_ring(3)
    assert codes == [0, 0, 0]
    assert outputs[1:] == ["", ""]
    found = read_nccl_output(outputs[0])
    assert found.is_ring and found.is_complete and found.wrong_values == 0
    assert [row.size_bytes for row in found.rows] == [65_536, 131_072]
    assert found.best and found.best.busbw > 0
    assert "not NCCL" in outputs[0].splitlines()[0]


def test_pairs_of_ranks_reduce_in_rounds_and_rank_0_prints_a_table_of_each():
    """Two replicas of one node, and one that has nothing to do in the first round."""
    arguments = ("-b", "64K", "-e", "64K", "-n", "1", "--rounds", "0+1:2/2:3")
    codes, outputs = run_ring(4, arguments=arguments)
    assert codes == [0] * 4
    found = read_pair_outputs(outputs[0])
    assert list(found) == ["0+1:2", "2:3"]
    assert all(output.is_complete and output.is_ring for output in found.values())
    assert outputs[1:] == [""] * 3
    assert ring_all_reduce.PAIR_TITLE == pair_rounds.TITLE


def test_the_check_of_sums_finds_a_wrong_one(monkeypatch):
    right = ring_all_reduce.elements(1_000, 1)
    assert ring_all_reduce.added([right, right])[:4] == bytes([6, 0, 20, 0])
    monkeypatch.setattr(ring_all_reduce, "all_reduce", lambda mine, *_: mine)
    _, wrong = ring_all_reduce.measured(ring_all_reduce.Ring(0, 2, None, None), 1_000, 1)
    assert wrong > 900


def test_parts_make_the_whole_whatever_their_number():
    data = ring_all_reduce.elements(11, 0)
    for world in range(1, 12):
        parts = ring_all_reduce.split(data, world)
        assert len(parts) == world and b"".join(parts) == data
        assert {len(part) % 2 for part in parts} == {0}


def test_the_launcher_places_the_ring_and_no_mpi():
    assert nccl_tests.RING_FILE == "ring_all_reduce.py"
    assert nccl_tests.RING_TEXT.startswith("#!/usr/bin/env python3")
