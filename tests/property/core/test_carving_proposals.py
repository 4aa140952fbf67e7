"""Whatever is proposed is legal, touches nothing that is held, and is the same every time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agents.contract.documents import GpuMode
from agents.contract.geometry import Placement, is_legal
from scheduler.core.carving.proposals import propose_changes
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.core.plan import plan
from tests.property.core.worlds import PROFILES, worlds
from tests.support.examples import examples
from tests.support.snapshots import A30, H200, NOW

few = examples(150)


@st.composite
def mixed(draw):
    """A world with some pinned and settling GPUs, and a mix."""
    world = draw(worlds(max_nodes=2, max_gpus=2, max_jobs=3, with_quotas=False))
    names = st.sampled_from(PROFILES[H200] + PROFILES[A30])
    asked = draw(st.lists(st.tuples(names, st.integers(1, 9)), max_size=4))
    demands = [Demand(DeviceRequest(mig=name), 1, 1, count) for name, count in asked]
    if whole := draw(st.integers(0, 5)):
        demands.append(Demand(DeviceRequest(gpus=1), 1, 1, whole))

    def marked(gpu):
        pinned, later = draw(st.sampled_from([(False, 0), (False, 0), (True, 0), (False, 9)]))
        return replace(gpu, pinned=pinned, settles_at=NOW + later if later else 0)

    nodes = tuple(replace(n, gpus=tuple(map(marked, n.gpus))) for n in world.nodes)
    return replace(world, nodes=nodes, mix=DemandMix(tuple(demands)))


@few
@given(snapshot=mixed())
def test_proposals_are_legal_and_touch_nothing_held_pinned_or_settling(snapshot):
    found = propose_changes(snapshot)
    gpus = {g.id: (n, g) for n in snapshot.nodes for g in n.gpus}
    layouts = {
        key: [Placement(s.start, s.size, s.profile) for s in g.slices]
        for key, (_, g) in gpus.items()
    }
    for proposal in (*found.carves, *found.merges, *found.modes):
        node, gpu = gpus[proposal.gpu]
        assert node.available and gpu.healthy
        assert not gpu.pinned and gpu.settles_at <= NOW
    for merge in found.merges:
        own = {s.id: s for s in gpus[merge.gpu][1].slices}
        assert all(own[key].ready and not own[key].allocated for key in merge.slices)
    for carve in found.carves:
        layouts[carve.gpu].append(Placement(carve.start, carve.size, carve.profile))
        gpu = gpus[carve.gpu][1]
        assert gpu.mode is GpuMode.MIG
        assert is_legal(gpu_board(gpu), layouts[carve.gpu])
    for change in found.modes:
        assert not gpus[change.gpu][1].slices
    assert all(sentence for _, sentence in found.gpu_sentences())


@few
@given(snapshot=mixed(), data=st.data())
def test_the_same_cluster_gets_the_same_proposals_in_whatever_order_it_is_listed(snapshot, data):
    nodes = tuple(data.draw(st.permutations(snapshot.nodes)))
    turned = replace(snapshot, nodes=nodes, jobs=tuple(reversed(snapshot.jobs)))
    assert propose_changes(snapshot) == propose_changes(turned)


@few
@given(snapshot=mixed())
def test_a_whole_pass_carves_nothing_where_its_own_jobs_go_or_are_promised_to(snapshot):
    plain, warm = plan(snapshot, Policy()), plan(snapshot, Policy(warm=True))
    for part in ("placements", "deferrals", "preemptions", "reservations", "bypassed"):
        assert getattr(plain, part) == getattr(warm, part)
    assert warm.merges[: len(plain.merges)] == plain.merges
    given_away = (*warm.placements, *warm.reservations)
    taken = {d.gpu for one in given_away for r in one.replicas for d in r.devices}
    taken |= {merge.gpu for merge in plain.merges}
    own = (*warm.carves, *warm.merges[len(plain.merges) :])
    assert not taken & {proposal.gpu for proposal in own}
    gpus = {g.id: g for n in snapshot.nodes for g in n.gpus}
    for key in {carve.gpu for carve in warm.carves}:
        there = [Placement(s.start, s.size, s.profile) for s in gpus[key].slices]
        made = [Placement(c.start, c.size, c.profile) for c in warm.carves if c.gpu == key]
        assert is_legal(gpu_board(gpus[key]), [*there, *made])
