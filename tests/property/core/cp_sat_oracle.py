"""What is possible at all, by CP-SAT: an exact search that shares no code with the planner.

Boards are read as tables (starts, sizes, compute slices, maxima). Every legal place of an instance
is a Boolean; slots, compute slices, maxima, CPU, memory, disk, networks and nearness constrain it.
"""

import math
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction

from ortools.sat.python import cp_model

from agents.contract.boards import known_boards
from agents.contract.documents import SliceKind
from scheduler.core.model.snapshot import Isolation, Topology

WHOLE = ""
Share = namedtuple("Share", "number job kind")
NEAR = (Topology.SAME_NODE, Topology.NVLINK)


@dataclass(frozen=True)
class Kind:
    """One kind of device for every replica of a gang: a profile of a board, the board whole, or a
    share of it in percent of the threads and MiB."""

    board: str
    profile: str
    count: int
    threads: int = 0
    memory_mib: int = 0


def kinds(job, snapshot):
    """Every kind that serves the job, on the boards that are here."""
    device, found = job.device, set()
    for key in {gpu.board for node in snapshot.nodes for gpu in node.gpus}:
        board = known_boards()[key]
        if device.gpus:
            found.add(Kind(key, WHOLE, device.gpus))
        if device.mig and board.profile(device.mig):
            found.add(Kind(key, device.mig, 1))
        if device.mps_threads and device.mps_memory_mib <= board.memory_mib:
            found.add(Kind(key, WHOLE, 1, device.mps_threads, device.mps_memory_mib))
        if device.memory_mib:
            if device.isolation is Isolation.ANY and board.memory_mib > device.memory_mib:
                percent = math.ceil(Fraction(100 * device.memory_mib, board.memory_mib))
                found.add(Kind(key, WHOLE, 1, percent, device.memory_mib))
            if board.memory_mib >= device.memory_mib:
                found.add(Kind(key, WHOLE, 1))
            plain = [p for p in board.profiles if "+" not in p.name and "-" not in p.name]
            found |= {Kind(key, p.name, 1) for p in plain if p.memory_mib >= device.memory_mib}
    return sorted(found, key=repr)


def price(kind):
    """Units of one replica: the dominant share of memory or compute slices, of 56,000 a GPU."""
    board = known_boards()[kind.board]
    profile = board.profile(kind.profile)
    if kind.threads:
        by_memory = math.ceil(Fraction(56_000 * kind.memory_mib, board.memory_mib))
        return max(560 * kind.threads, by_memory)
    if profile is None:
        return 56_000 * kind.count
    memory = 56_000 * profile.memory_slices // board.memory_slices
    compute = 56_000 * profile.compute_slices // board.compute_slices
    return max(memory, compute) * kind.count


def may_run(job, node):
    """Whether node and job are meant for each other at all."""
    keys = {label.split("=")[0] for label in node.labels}
    has = all(need in (node.labels if "=" in need else keys) for need in job.needs)
    return has and set(node.taints) <= set(job.tolerates)


def possible(job, kind, snapshot):
    """Whether the whole gang can be given devices of this kind now, beside all that is there."""
    return _most([(job, kind)], snapshot) == 1


def most(jobs, snapshot):
    """The largest number of these jobs that can be placed together. Each has one kind."""
    return _most([(job, kinds(job, snapshot)[0]) for job in jobs], snapshot)


def _most(asked, snapshot):
    model = cp_model.CpModel()
    on_gpu = {gpu.id: [] for node in snapshot.nodes for gpu in node.gpus}
    load = {node.id: [] for node in snapshot.nodes}
    started = [
        _gang(model, job, kind, snapshot, on_gpu, load, f"j{number}")
        for number, (job, kind) in enumerate(asked)
    ]
    for node in snapshot.nodes:
        cpu = sum(replicas * job.cpu_milli for job, replicas in load[node.id])
        memory = sum(replicas * job.memory_mib for job, replicas in load[node.id])
        disk = sum(replicas * job.disk_mib for job, replicas in load[node.id])
        model.add(cpu <= node.cpu_free_milli)
        model.add(memory <= node.memory_free_mib)
        model.add(disk <= max(0, node.disk_free_mib))
        for gpu in node.gpus:
            places = [wanted for wanted in on_gpu[gpu.id] if not isinstance(wanted, Share)]
            shares = [wanted for wanted in on_gpu[gpu.id] if isinstance(wanted, Share)]
            _geometry(model, gpu, places, _sharing(model, node, gpu, shares))
    model.maximize(sum(started))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_presolve = False
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


def _gang(model, job, kind, snapshot, on_gpu, load, name):
    """Booleans for a gang's devices. Returns the one that says whether it starts."""
    start = model.new_bool_var(name)
    networks, total = {}, []
    for node in snapshot.nodes:
        if not node.available or not may_run(job, node):
            continue
        replicas = model.new_int_var(0, job.replicas, f"{name}-{node.id}")
        here = model.new_bool_var(f"{name}-on-{node.id}")
        model.add(replicas <= job.replicas * here)
        given = [
            given
            for gpu in node.gpus
            if gpu.healthy and gpu.board == kind.board
            for given in _devices(model, gpu, job, kind, on_gpu[gpu.id], f"{name}-{gpu.id}")
        ]
        model.add(sum(given) == kind.count * replicas)
        load[node.id].append((job, replicas))
        total.append((replicas, here))
        networks.setdefault(node.fabric, []).append(here)
    model.add(sum(replicas for replicas, _ in total) == job.replicas * start)
    if job.topology in NEAR:
        model.add(sum(here for _, here in total) <= 1)
    used = []
    for fabric, heres in networks.items():
        inside = model.new_bool_var(f"{name}-in-{fabric}")
        model.add_max_equality(inside, heres)
        used.append(inside)
    model.add(sum(used) <= 1)
    return start


def _devices(model, gpu, job, kind, on_gpu, name):
    """A Boolean for each place of the kind on this GPU: (Boolean, place) goes to `on_gpu`. Shares
    of a gang are alike: how many of them are here."""
    if kind.threads:
        number = model.new_int_var(0, job.replicas, name)
        on_gpu.append(Share(number, job, kind))
        return [number]
    if kind.profile == WHOLE:
        taken = model.new_bool_var(name)
        on_gpu.append((taken, WHOLE, 0, None))
        return [taken]
    found = []
    for at in known_boards()[gpu.board].profile(kind.profile).starts:
        made = model.new_bool_var(f"{name}@{at}")
        on_gpu.append((made, kind.profile, at, None))
        found.append(made)
    for seen in gpu.slices:
        if seen.profile == kind.profile and seen.ready and not seen.allocated:
            reused = model.new_bool_var(f"{name}-idle@{seen.start}")
            on_gpu.append((reused, kind.profile, seen.start, seen.id))
            found.append(reused)
    return found


def _sharing(model, node, gpu, wanted):
    """For each project a Boolean: it has shares here. Sums of what all shares take are bounded."""
    there = [s for s in gpu.slices if s.kind is SliceKind.MPS]
    projects = {s.project for s in there} | {share.job.project for share in wanted}
    has = {p: model.new_bool_var(f"{gpu.id}-{p}") for p in sorted(projects)}
    for seen in there:
        model.add(has[seen.project] == 1)
    for share in wanted:
        model.add(share.number <= share.job.replicas * has[share.job.project])
    for taken, each, most_of in (
        (sum(s.threads for s in there), lambda w: w.kind.threads, 100),
        (
            sum(s.memory_mib for s in there),
            lambda w: w.kind.memory_mib,
            known_boards()[gpu.board].memory_mib,
        ),
        (sum(s.clients for s in there), lambda w: w.job.processes, node.share_clients),
    ):
        model.add(sum(each(w) * w.number for w in wanted) <= max(0, most_of - taken))
    return list(has.values())


def _geometry(model, gpu, wanted, sharing):
    """What is there stays; what is new stands beside it; an idle slice has one new holder."""
    board = known_boards()[gpu.board]
    for seen in gpu.slices:
        holders = [var for var, _, _, reused in wanted if reused == seen.id]
        model.add(sum(holders) <= 1)
    new = [(var, profile, at) for var, profile, at, reused in wanted if reused is None]
    kept = [seen for seen in gpu.slices if seen.kind is not SliceKind.MPS]
    there = [(1, seen.profile, seen.start) for seen in kept]
    cells = [[] for _ in range(board.memory_slices)]
    compute, alike = [], {}
    for var, name, at in new + there:
        profile = board.profile(name)
        size = profile.memory_slices if profile else board.memory_slices
        for cell in range(at, at + size):
            cells[cell].append(var)
        compute.append(var * (profile.compute_slices if profile else board.compute_slices))
        alike.setdefault(name, []).append(var)
    for cell in cells:
        model.add(sum(cell) + sum(sharing) <= 1)
    if new:
        model.add(sum(compute) <= board.compute_slices)
    for name, group in alike.items():
        if profile := board.profile(name):
            model.add(sum(group) <= profile.max_instances)
