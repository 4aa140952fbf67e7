"""`agents inventory`: the GPUs of this node. JSON by docs/schemas/inventory.json."""

import argparse
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.commands.hardware import network_of, print_reading
from agents.facts.gpus import GpuFacts, InstanceFacts, ProfileFacts
from agents.host.system_reserve import host_capacity
from agents.nvml.profiles import read_profiles
from agents.nvml.session import Nvml
from agents.settings import job_disk, simulated_driver
from agents.topology.json_format import fabric_document, nic_documents
from agents.topology.reading import read_topology

SCHEMA = 1


def main(options: argparse.Namespace) -> int:
    try:
        policy = read_policy(options.policy)
    except PolicyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    disk = job_disk(options).capacity_mib()
    return print_reading(
        partial(document, options.sysfs, disk, policy)
        if options.json
        else partial(as_text, disk, policy)
    )


def document(
    sysfs: Path | None, disk_mib: int | None, policy: NodePolicy, nvml: Nvml
) -> dict[str, Any]:
    """The inventory document. Raises NvmlFailure, OSError."""
    gpus = nvml.devices()
    topology = read_topology(nvml)
    fabrics = {gpu.uuid: fabric_document(gpu.fabric) for gpu in topology.gpus}
    return {
        "schema": SCHEMA,
        "simulated": simulated_driver() is not None,
        "versions": asdict(nvml.versions()),
        "gpus": [{**_gpu(nvml, gpu), "fabric": fabrics.get(gpu.uuid)} for gpu in gpus],
        "nics": nic_documents(topology, network_of(topology, sysfs)),
        "mb_per_second": [list(row) for row in topology.matrix()],
        "disk_mib": disk_mib,
        "host": _host(policy),
    }


def as_text(disk_mib: int | None, policy: NodePolicy, nvml: Nvml) -> str:
    """One line each for the driver, CPU and memory, the disk, every GPU and its instances."""
    versions = nvml.versions()
    lines = [f"driver {versions.driver}, NVML {versions.nvml}, CUDA {versions.cuda}"]
    host = _host(policy)
    lines.append(
        f"for jobs: {host['cpu_milli'] / 1000:g} CPUs and {host['memory_mib']} MiB of memory;"
        f" kept for the system: {host['reserved_cpu_milli'] / 1000:g} CPUs and"
        f" {host['reserved_memory_mib']} MiB"
    )
    disk = "not known" if disk_mib is None else f"{disk_mib // 1024} GiB"
    lines.append(f"disk for jobs: {disk}")
    for gpu in nvml.devices():
        mig = {None: "no MIG", True: "MIG on", False: "MIG off"}[gpu.mig_current]
        waits = ", to be changed by a reset" if gpu.mig_current != gpu.mig_pending else ""
        lines.append(
            f"GPU {gpu.index}: {gpu.product_name}, {gpu.memory_mib} MiB, {mig}{waits}, {gpu.uuid}"
        )
        for i in nvml.instances(gpu.uuid):
            name = i.uuid or "no compute instance"
            lines.append(f"  {i.profile} at {i.start}:{i.size}, instance {i.instance_id}, {name}")
    return "\n".join(lines) + "\n"


def _host(policy: NodePolicy) -> dict[str, int]:
    """CPU and memory for jobs, and what is kept from them."""
    total = host_capacity()
    kept = policy.reserve(total, simulated=simulated_driver() is not None)
    for_jobs = total.without(kept)
    return {
        "cpu_milli": for_jobs.cpu_milli,
        "memory_mib": for_jobs.memory_mib,
        "reserved_cpu_milli": kept.cpu_milli,
        "reserved_memory_mib": kept.memory_mib,
    }


def _gpu(nvml: Nvml, gpu: GpuFacts) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "product_name": gpu.product_name,
        "board": gpu.board.key,
        "memory_mib": gpu.memory_mib,
        "pci_bus_id": gpu.pci_bus_id,
        "numa_node": gpu.numa_node,
        "mig": {"current": gpu.mig_current, "pending": gpu.mig_pending},
        "instances": [_instance(i) for i in nvml.instances(gpu.uuid)],
        "profiles": [_profile(p) for p in read_profiles(gpu.uuid)],
    }


def _instance(instance: InstanceFacts) -> dict[str, Any]:
    return {
        "instance_id": instance.instance_id,
        "profile_id": instance.profile_id,
        "profile": instance.profile,
        "start": instance.start,
        "size": instance.size,
        "uuid": instance.uuid or None,
    }


def _profile(profile: ProfileFacts) -> dict[str, Any]:
    places = [{"start": start, "size": size} for start, size in profile.places]
    return {**asdict(profile), "places": places}
