"""A planning pass is saved as JSON and decides the same when it is read again."""

from itertools import combinations

import pytest

from agents.contract.topology import GpuPair, NodeTopology
from scheduler.core.placement.links import links_of
from scheduler.core.plan import plan
from scheduler.core.policy import Order, Policy
from scheduler.core.snapshot_file import read_pass, saved_pass
from scheduler.replay.__main__ import main
from tests.builders import a_cluster, a_gpu, a_job, a_node, a_quota, a_slice, as_bytes, idle

PAIRS = tuple(GpuPair(a, b, "NODE", 0, False, 25_000) for a, b in combinations(range(3), 2))
LINKS = links_of(NodeTopology(gpus=(0, 1, 2), pairs=PAIRS))
POLICY = Policy(order=Order.FIFO, hysteresis=2.0)


def a_pass():
    node = a_node(a_gpu(a_slice()), a_gpu(idle()), a_gpu(), links=LINKS, labels=("rack=a",))
    jobs = [a_job("7", mig="2g.35gb"), a_job("8", gpus=2), a_job("9", gpus=64)]
    return a_cluster(node, jobs=jobs, quotas=[a_quota(gpus=8)])


def test_what_is_read_is_what_was_saved_and_decides_the_same():
    text = saved_pass(a_pass(), POLICY)
    snapshot, policy = read_pass(text)
    assert (snapshot, policy) == (a_pass(), POLICY)
    assert as_bytes(plan(snapshot, policy)) == as_bytes(plan(a_pass(), POLICY))
    assert saved_pass(snapshot, policy) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no saved planning pass"),
        ('{"format": "tessera-planning-pass-0"}', "tessera-planning-pass-1"),
        (saved_pass(a_pass(), POLICY).replace('"now":', '"then":'), "snapshot"),
        (saved_pass(a_pass(), POLICY).replace('"fifo"', '"lifo"'), "policy.order"),
    ],
)
def test_what_is_no_pass_is_refused_with_what_is_wrong(text, said):
    with pytest.raises(ValueError, match=said):
        read_pass(text)


def test_the_replay_of_a_pass_tells_places_and_reasons(tmp_path, capsys):
    file = tmp_path / "pass.json"
    file.write_text(saved_pass(a_pass(), Policy()))
    assert main(["snapshot", str(file)]) == 0
    told = capsys.readouterr().out
    assert "J-7 job-7 starts" in told
    assert "GPU 1, 2g.35gb at 0 (ready)" in told
    assert "J-9 job-9 waits [impossible]" in told
    assert main(["snapshot", str(file), "--job", "J-9", "--json"]) == 0
    told = capsys.readouterr().out
    assert '"code": "impossible"' in told
    assert "J-7" not in told


def test_a_file_that_cannot_be_read_ends_with_a_sentence_and_2(tmp_path, capsys):
    assert main(["snapshot", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
