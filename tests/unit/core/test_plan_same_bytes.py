"""The same snapshot gives the same plan, byte for byte, in whatever order its parts are listed."""

import itertools
import random
from dataclasses import replace

from tests.support.snapshots import (
    A30,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_slice,
    as_bytes,
    away,
    idle,
    plan_of,
)


def a_busy_world():
    holes = (a_slice("1g.18gb", 1), a_slice("1g.18gb", 5))
    nodes = (
        a_node(a_gpu(*holes), a_gpu(), name="b"),
        a_node(a_gpu(*holes), a_gpu(idle("2g.35gb", 2), a_slice("3g.71gb", 4)), name="a"),
        a_node(a_gpu(idle("1g.18gb", 0), idle("1g.18gb", 3)), a_gpu(a_slice("")), name="d"),
        away(a_gpu(board=A30), name="f"),
        away(a_gpu(board=A30), name="e"),
        a_node(a_gpu(healthy=False), a_gpu(numa=1), a_gpu(numa=0), name="c", fabric="other"),
    )
    asks = [{"gpus": 1}, {"mig": "3g.71gb"}, {"device_mib": 30_000}, {"mig": "1g.6gb"}]
    asks += [{"gpus": 9}, {"mig": "7g.141gb", "replicas": 3}]
    owners = [{"project": f"p{i % 3}", "user": f"u{i % 2}"} for i in range(18)]
    jobs = [
        a_job(str(i), **{"replicas": 1 + i % 2} | asks[i % 6] | owner)
        for i, owner in enumerate(owners)
    ]
    quotas = [a_quota(f"p{i}", gpus=4, used=i) for i in range(2)]
    quotas += [a_quota(f"p{i}", f"u{j}", gpus=3, used=j / 2) for i in range(2) for j in range(2)]
    return a_cluster(*nodes, jobs=jobs, quotas=quotas)


def shuffled(snapshot, seed):
    dice = random.Random(seed)

    def mixed(parts):
        return tuple(dice.sample(parts, len(parts)))

    nodes = [
        replace(n, gpus=mixed([replace(g, slices=mixed(g.slices)) for g in n.gpus]))
        for n in snapshot.nodes
    ]
    parts = {"jobs": mixed(snapshot.jobs), "quotas": mixed(snapshot.quotas)}
    return replace(snapshot, nodes=mixed(nodes), **parts)


def test_planning_twice_gives_the_same_bytes():
    assert as_bytes(plan_of(a_busy_world())) == as_bytes(plan_of(a_busy_world()))


def test_the_world_of_these_tests_has_a_bit_of_everything():
    found = plan_of(a_busy_world())
    assert len(found.placements) > 2
    assert {str(hold.reason.code) for hold in found.deferrals} >= {"impossible", "node_unavailable"}
    assert any("by_node" in hold.reason.evidence for hold in found.deferrals)


def test_the_order_of_listing_does_not_matter():
    snapshot = a_busy_world()
    first = as_bytes(plan_of(snapshot))
    for seed in range(30):
        assert as_bytes(plan_of(shuffled(snapshot, seed))) == first, seed


def test_numbers_by_node_stand_in_the_order_of_names():
    full = [a_node(a_gpu(a_slice("")), name=name) for name in "cab"]
    lost = [away(a_gpu(), name=name) for name in "cab"]
    for nodes, key in ((full, "by_node"), (lost, "nodes")):
        for order in itertools.permutations(nodes):
            (hold,) = plan_of(a_cluster(*order, jobs=[a_job(gpus=1)])).deferrals
            assert list(hold.reason.evidence[key]) == ["a", "b", "c"]


def test_of_two_quotas_that_forbid_it_the_projects_is_named():
    quotas = [a_quota(gpus=1), a_quota("p", "u", gpus=0.5)]
    for some in (quotas, quotas[::-1]):
        snapshot = a_cluster(a_node(a_gpu(), a_gpu()), jobs=[a_job(gpus=2)], quotas=some)
        (hold,) = plan_of(snapshot).deferrals
        assert "; p may use" in hold.reason.sentence


def test_planning_changes_nothing_of_the_snapshot():
    snapshot, untouched = a_busy_world(), a_busy_world()
    plan_of(snapshot)
    assert snapshot == untouched
