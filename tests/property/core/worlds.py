"""Strategies for small worlds: nodes with legal layouts on their GPUs, and a queue of requests."""

from hypothesis import strategies as st

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode
from agents.contract.launcher_names import LauncherName
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.snapshot import Priority, QuotaView, Topology
from tests.support.slow_geometry import fits_together
from tests.support.snapshots import (
    A30,
    H200,
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_share,
    a_slice,
)

BOARDS = (H200, A30, L40S)
# Mostly more than a job needs: a quota that no job can have hides every other rule.
LIMITS = st.sampled_from([1, 2, 3, 6, 8]).map(lambda gpus: gpus * UNITS_PER_GPU)
PROFILES = {
    key: [p.name for p in known_boards()[key].profiles if p.name.endswith(("gb", "+me"))]
    for key in (H200, A30)
}


@st.composite
def layouts(draw, board):
    """A legal layout, made place by place, some of it held, some idle, some not ready."""
    taken = []
    for _ in range(draw(st.integers(1, 5))):
        free = list(fits_together(known_boards()[board], taken))
        if not free:
            break
        taken.append(draw(st.sampled_from(free)))
    states = st.tuples(st.booleans(), st.sampled_from([True, True, False]))
    return [
        a_slice(p.profile, p.start, board=board, allocated=held, ready=ready)
        for p in taken
        for held, ready in [draw(states)]
    ]


@st.composite
def shares(draw, board):
    """One to three MPS shares of one project."""
    project = draw(st.sampled_from(["p", "q"]))
    each = st.tuples(st.sampled_from([10, 30]), st.sampled_from([500, 6_000]))
    sizes = draw(st.lists(each, min_size=1, max_size=3))
    return [
        a_share(*size, project=project, board=board, id=f"s{i}") for i, size in enumerate(sizes)
    ]


@st.composite
def gpus(draw, board):
    healthy = draw(st.integers(0, 5)) > 0
    numa = draw(st.sampled_from([None, 0, 1]))
    match draw(st.sampled_from(["empty", "slices", "slices", "whole", "shares"])):
        case "shares":
            slices = draw(shares(board))
        case "whole":
            held, ready = draw(st.sampled_from([True, True, False])), draw(st.booleans())
            slices = [a_slice("", board=board, allocated=held, ready=ready)]
        case "slices" if known_boards()[board].supports_mig:
            slices = draw(layouts(board))
        case _:
            slices = []
    mode = None if slices else draw(st.sampled_from([GpuMode.WHOLE, GpuMode.MIG]))
    return a_gpu(*slices, board=board, healthy=healthy, mode=mode, numa=numa)


@st.composite
def nodes(draw, name, kinds=BOARDS, most=3):
    board = draw(st.sampled_from(kinds))
    own = [draw(gpus(board)) for _ in range(draw(st.sampled_from(range(1, most + 1))))]
    available = draw(st.integers(0, 5)) > 0
    clients = draw(st.sampled_from([0, 2, 48, 48]))
    disk = draw(st.sampled_from([None, 100_000, 100_000, 100_000]))
    return a_node(
        *own,
        name=name,
        fabric=draw(st.sampled_from(["f", "f", "f", "g"])),
        cpu_free_milli=draw(st.sampled_from([1_500, 3_000, 8_000, 8_000])),
        memory_free_mib=draw(st.sampled_from([2_048, 4_096, 64_000, 64_000])),
        cpu_total_milli=8_000,
        memory_total_mib=64_000,
        available=available,
        share_clients=clients,
        labels=draw(st.sampled_from([(), (), ("rack=a",), ("rack=b", "ssd")])),
        taints=draw(st.sampled_from([(), (), (), (), ("beta",)])),
        unavailable_reason="" if available else f"{name} is lost",
        disk_free_mib=draw(st.sampled_from([-5_000, 30_000, 100_000])) if disk else 0,
        disk_total_mib=disk,
    )


@st.composite
def jobs(draw, id, kinds=BOARDS, most=3):
    carved = [name for key in kinds for name in PROFILES.get(key, ())]
    ways = [
        st.builds(dict, gpus=st.sampled_from([1, 1, 1, 2, 3])),
        st.builds(dict, device_mib=st.sampled_from([1_000, 5_000, 12_000, 24_000, 40_000])),
    ]
    sizes = st.tuples(st.sampled_from([10, 25, 60, 100]), st.sampled_from([500, 6_000, 24_000]))
    ways += [
        st.builds(dict, mps=sizes),
        st.builds(dict, device_mib=st.sampled_from([1_000, 12_000]), isolation=st.just("any")),
    ]
    ways += [st.builds(dict, mig=st.sampled_from(carved))] * 4 if carved else []
    device = draw(st.one_of(ways))
    processes = draw(st.sampled_from([1, 1, 2])) if device.get("gpus") != 1 else 1
    return a_job(
        id,
        **device,
        project=draw(st.sampled_from(["p", "q"])),
        user=draw(st.sampled_from(["u", "v"])),
        priority=draw(st.sampled_from(list(Priority))),
        queued_at=draw(st.integers(1, 4)),
        replicas=draw(st.sampled_from([1, 1, 1, 2, 2, most])),
        cpu_milli=draw(st.sampled_from([500, 500, 1_000, 2_000])),
        memory_mib=draw(st.sampled_from([256, 2_048])),
        topology=draw(st.sampled_from(list(Topology))),
        processes=processes,
        launcher=LauncherName.TORCHRUN if processes > 1 else LauncherName.NONE,
        needs=draw(st.sampled_from([(), (), (), (), ("rack",), ("rack=a",)])),
        tolerates=draw(st.sampled_from([(), (), ("beta",)])),
        disk_mib=draw(st.sampled_from([0, 0, 0, 20_000, 60_000])),
    )


@st.composite
def quotas(draw):
    if draw(st.booleans()):
        return []
    owners = draw(st.sets(st.tuples(st.sampled_from("pq"), st.sampled_from(["", "u", "v"]))))
    eighths = st.integers(0, 9)
    limits = [(owner, draw(LIMITS)) for owner in sorted(owners)]
    return [QuotaView(*owner, limit, limit * draw(eighths) // 8) for owner, limit in limits]


@st.composite
def worlds(draw, *, kinds=BOARDS, max_nodes=3, max_gpus=3, max_jobs=6, with_quotas=True):
    """One kind of board, or two; jobs ask for what those boards have."""
    some = draw(st.sampled_from([[a] for a in kinds] * 3 + [[a, b] for a in kinds for b in kinds]))
    names = "abc"[: draw(st.sampled_from(range(1, max_nodes + 1)))]
    count = draw(st.sampled_from(range(1, max_jobs + 1)))
    here = [draw(nodes(name, some, max_gpus)) for name in names]
    present = sorted({gpu.board for node in here for gpu in node.gpus})
    return a_cluster(
        *here,
        jobs=[draw(jobs(str(i), present)) for i in range(1, count + 1)],
        quotas=draw(quotas()) if with_quotas else (),
    )
