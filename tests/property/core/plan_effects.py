"""The world as it is when a plan was carried out: its places are held, and its jobs have left."""

from collections import Counter
from dataclasses import replace

from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.model.snapshot import SliceView


def carried_out(snapshot, places):
    """`snapshot` with the devices of `places` held. Merges are not made."""
    gone = {place.job for place in places}
    jobs = {job.id: job for job in snapshot.jobs}
    cpu, memory, disk, units = Counter(), Counter(), Counter(), Counter()
    new, reused = {}, set()
    for place in places:
        job = jobs[place.job]
        for replica in place.replicas:
            cpu[replica.node] += job.cpu_milli
            memory[replica.node] += job.memory_mib
            disk[replica.node] += job.disk_mib
            for number, device in enumerate(replica.devices):
                units[job.project, ""] += device.units
                units[job.project, job.user] += device.units
                if device.slice:
                    reused.add(device.slice)
                    continue
                view = SliceView(
                    f"new-{place.job}-{replica.rank}-{number}",
                    *(device.kind, device.profile, device.start, device.size),
                    allocated=True,
                    ready=False,
                )
                if device.kind is SliceKind.MPS:
                    view = replace(
                        view,
                        threads=device.threads,
                        memory_mib=device.memory_mib,
                        clients=job.processes,
                        project=job.project,
                    )
                new.setdefault(device.gpu, []).append(view)
    return replace(
        snapshot,
        jobs=tuple(job for job in snapshot.jobs if job.id not in gone),
        quotas=tuple(
            replace(q, used_units=q.used_units + units[q.project, q.user]) for q in snapshot.quotas
        ),
        nodes=tuple(
            replace(
                node,
                cpu_free_milli=node.cpu_free_milli - cpu[node.id],
                memory_free_mib=node.memory_free_mib - memory[node.id],
                disk_free_mib=node.disk_free_mib - disk[node.id],
                gpus=tuple(_gpu(gpu, new.get(gpu.id, ()), reused) for gpu in node.gpus),
            )
            for node in snapshot.nodes
        ),
    )


def without_idle(snapshot):
    """The world when every slice that nobody holds is gone."""
    return _each_gpu(snapshot, lambda gpu: [s for s in gpu.slices if s.allocated])


def when_gone(snapshot, merged):
    """The world when a merge is done, and so is whatever was on its way out before."""

    def kept(gpu):
        return [s for s in gpu.slices if s.allocated or (s.ready and s.id not in merged)]

    return _each_gpu(snapshot, kept)


def emptied(snapshot):
    """The cluster as it would be on its best day: everyone is here, healthy and idle, and nodes are
    meant for anybody. A node that does not say how much disk it has, has enough."""
    nodes = tuple(
        replace(
            node,
            available=True,
            labels=("rack=a", "ssd"),
            taints=(),
            cpu_free_milli=node.cpu_total_milli,
            memory_free_mib=node.memory_total_mib,
            disk_free_mib=10**9 if node.disk_total_mib is None else node.disk_total_mib,
            gpus=tuple(replace(gpu, healthy=True, slices=()) for gpu in node.gpus),
        )
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def _each_gpu(snapshot, kept):
    nodes = tuple(
        replace(node, gpus=tuple(replace(gpu, slices=tuple(kept(gpu))) for gpu in node.gpus))
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def _gpu(gpu, new, reused):
    slices = tuple(replace(s, allocated=s.allocated or s.id in reused) for s in gpu.slices) + tuple(
        new
    )
    if not new:
        return replace(gpu, slices=slices)
    modes = {SliceKind.MIG: GpuMode.MIG, SliceKind.MPS: GpuMode.MPS, SliceKind.GPU: GpuMode.WHOLE}
    return replace(gpu, slices=slices, mode=modes[new[0].kind])
