"""Small clusters of whole GPUs with running jobs, played plan by plan until every job has ended."""

from dataclasses import replace

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import RunningJob
from scheduler.core.plan import plan
from tests.support.snapshots import NOW, a_cluster, a_gpu, a_job, a_node, a_slice


def a_run(job, *gpus, since=0, stopping=False):
    """`job` has been running on these GPUs ("n1/0") for `since` seconds; one replica per node."""
    nodes = sorted({gpu.split("/")[0] for gpu in gpus})
    replicas = tuple(
        ReplicaPlacement(
            rank, node, tuple(_device(job, g) for g in gpus if g.split("/")[0] == node)
        )
        for rank, node in enumerate(nodes)
    )
    return RunningJob(job, replicas, NOW - since, stopping)


def a_busy_cluster(sizes, *, running=(), jobs=()):
    """Nodes n1, n2, … with `sizes` GPUs; those of running jobs are allocated."""
    held = {d.gpu: d for run in running for r in run.replicas for d in r.devices}
    nodes = []
    for number, size in enumerate(sizes, 1):
        name = f"n{number}"
        gpus = [_gpu(held.get(f"{name}/{index}")) for index in range(size)]
        node = a_node(*gpus, name=name)
        fixed = tuple(
            replace(g, slices=tuple(replace(s, id=held[g.id].slice) for s in g.slices))
            for g in node.gpus
        )
        nodes.append(replace(node, gpus=fixed))
    return replace(a_cluster(*nodes, jobs=jobs), running=tuple(running))


def waiting(id, gpus=1, **fields):
    return a_job(id, gpus=gpus, cpu_milli=1, memory_mib=1, **fields)


def play(sizes, jobs, seconds, **policy):
    """The first start and the end of each job by id, and all plans by time. Jobs arrive at
    `queued_at` and run for `seconds[id]` in total; a stopped job continues where it was."""
    policy = Policy(**policy)
    now = min(job.queued_at for job in jobs)
    coming = {job.id: job for job in jobs}
    queue, running, left = {}, {}, dict(seconds)
    started, ended, plans = {}, {}, []
    while len(ended) < len(jobs):
        for job in [j for j in coming.values() if j.queued_at <= now]:
            queue[job.id] = coming.pop(job.id)
        for key, run in list(running.items()):
            if run.started_at + left[key] <= now:
                ended[key] = now
                del running[key]
        for _ in range(10):
            snapshot = a_busy_cluster(sizes, running=running.values(), jobs=queue.values())
            found = plan(replace(snapshot, now=now), policy)
            plans.append((now, snapshot, found))
            for stop in found.preemptions:
                run = running.pop(stop.job)
                left[stop.job] -= now - run.started_at
                done = run.job.attained_seconds + now - run.started_at
                queue[stop.job] = replace(run.job, attained_seconds=done, preempted=1)
            for key in found.bypassed:
                queue[key] = replace(queue[key], bypassed=queue[key].bypassed + 1)
            for place in found.placements:
                job = queue.pop(place.job)
                devices = [d.gpu for r in place.replicas for d in r.devices]
                running[job.id] = replace(a_run(job, *devices), started_at=now)
                started.setdefault(job.id, now)
            if not found.preemptions:
                break
        times = [run.started_at + left[key] for key, run in running.items()]
        times += [job.queued_at for job in coming.values()]
        assert times or len(ended) == len(jobs), "a job waits for nothing"
        now = min(times, default=now)
    return started, ended, plans


def _gpu(device):
    return a_gpu(a_slice("")) if device else a_gpu()


def _device(job, gpu):
    return DevicePlacement(
        *(gpu, SliceKind.GPU, "", 0, 8, UNITS_PER_GPU, 141 * 1024), slice=f"{job.id}@{gpu}"
    )
