"""Checks of the host: disk space, clock, memory, the reserve, and DCGM's handles of GPUs."""

import re

from agents.doctor.checks import Check, CheckResult, DoctorVerdict, block, ok, unknown, warn
from agents.doctor.machine import DiskUsage, Machine, ProbeCommand
from agents.host.device_users import MONITORS, is_gpu_file, scan_device_users
from agents.host.disk_space import MIN_FREE_MIB, MIN_FREE_PERCENT
from agents.host.private_files import exposure

# Docker's own default for a container, 64 MiB, is too small for NCCL and data loaders.
MIN_SHARED_MIB = 1024
SHARED = "/dev/shm"  # noqa: S108 - only its size is read
# Less than this does not hold the engine, the agent and their page cache.
MIN_RESERVE_MIB = 512
NO_ENGINE = "The Docker Engine does not respond; see engine.answers."


def _engine_disk(machine: Machine) -> CheckResult:
    info = machine.engine
    if info is None:
        return unknown(NO_ENGINE)
    root = str(info.get("DockerRootDir", "/var/lib/docker"))
    return _disk_space(machine.disk(root), f"Docker's folder {root}", "docker image prune --all")


def _home_disk(machine: Machine) -> CheckResult:
    return _disk_space(
        machine.disk(machine.home), "The agent's folder", f"sudo du -xh -d1 {machine.home}"
    )


def _home_access(machine: Machine) -> CheckResult:
    access = machine.access(machine.home)
    if access is None:
        return ok("The agent's folder does not exist yet; only the agent will read it.")
    if found := exposure(machine.home, access, machine.user):
        return block(f"{found.why[:1].upper()}{found.why[1:]}.", found.mend)
    return ok("Only the agent can read its folder.")


def _disk_space(disk: DiskUsage | None, where: str, mend: str) -> CheckResult:
    if disk is None or not disk.total_mib:
        return unknown(f"{where}: its free space cannot be read.")
    percent = 100 * disk.free_mib // disk.total_mib
    why = f"{where} has {disk.free_mib // 1024} GiB free, {percent} % of its disk."
    if disk.free_mib < MIN_FREE_MIB or percent < MIN_FREE_PERCENT:
        return block(why, mend)
    return ok(why)


def _clock(machine: Machine) -> CheckResult:
    output = machine.output(ProbeCommand.TIME)
    found = re.search(r"^NTPSynchronized=(\w+)", output.text, re.M) if output else None
    if found is not None:
        return _synchronised(found[1] == "yes")
    chrony = machine.output(ProbeCommand.CHRONY)
    if chrony is not None and chrony.code == 0 and "," in chrony.text:
        # The last field of chronyc's line is the leap status, which says so if there is no source.
        return _synchronised("Not synchronised" not in chrony.text)
    return unknown("Neither timedatectl nor chronyc reports whether the clock is synchronised.")


def _synchronised(yes: bool) -> CheckResult:
    if yes:
        return ok("The clock is synchronised.")
    why = "The clock is not synchronised: job times may be wrong and signatures rejected."
    return warn(why, "sudo timedatectl set-ntp true")


def _shared_memory(machine: Machine) -> CheckResult:
    disk = machine.disk(SHARED)
    if disk is None:
        return unknown("The size of shared memory cannot be read.")
    if disk.total_mib < MIN_SHARED_MIB:
        why = f"Shared memory has only {disk.total_mib} MiB: MPS and plain processes need more."
        return warn(why, f"sudo mount -o remount,size=50% {SHARED}")
    return ok(f"Shared memory has {disk.total_mib // 1024} GiB.")


def _system_reserve(machine: Machine) -> CheckResult:
    total = machine.capacity
    kept = machine.policy.reserve(total)
    words = f"{kept.cpu_milli / 1000:g} CPUs and {kept.memory_mib} MiB of memory"
    if not (kept.cpu_milli and kept.memory_mib >= MIN_RESERVE_MIB):
        return warn(
            f"Only {words} are kept for the system: a full node can end its engine or agent.",
            'set cpu_reserve and memory_reserve in the policy file; "auto" is enough for most',
        )
    return ok(f"Jobs are not offered {words}.")


def _shared_folders(machine: Machine) -> CheckResult:
    if problems := machine.folder_problems:
        return warn(". ".join(problems) + ".", "mend it, or take it out of the policy file")
    return ok("Jobs can use every volume root and cache of the policy.")


def _holders(machine: Machine) -> CheckResult:
    """DCGM keeps handles of GPUs and MIG capabilities; a slice with such a handle is in use."""
    scan = scan_device_users(
        machine, is_gpu_file, is_candidate=lambda holder: holder.program in MONITORS
    )
    if scan is None:
        return unknown("/proc cannot be read.")
    if scan.users:
        name, pid = scan.users[0].program, scan.users[0].pid
        why = f"{name} ({pid}) has GPUs open: slices cannot be removed meanwhile."
        return warn(why, "sudo systemctl stop nvidia-dcgm  # or pause the exporter meanwhile")
    if scan.hidden:
        hidden = ", ".join(f"{holder.program} ({holder.pid})" for holder in scan.hidden)
        return unknown(f"{hidden} may have GPUs open; only root can see that.")
    return ok("No DCGM process has a GPU open.")


CHECKS = (
    Check(
        "host.engine_disk",
        "Is there enough space for Docker's images and containers?",
        (DoctorVerdict.BLOCK,),
        "Tessera's limit: no new jobs below 10 % or 5 GiB",
        _engine_disk,
        needs_engine=True,
    ),
    Check(
        "host.agent_disk",
        "Is there enough space for the agent's journal and logs?",
        (DoctorVerdict.BLOCK,),
        "Tessera's limit: no new jobs below 10 % or 5 GiB",
        _home_disk,
    ),
    Check(
        "host.agent_folder",
        "Is the agent's folder, with its key and the logs of jobs, closed to other users?",
        (DoctorVerdict.BLOCK,),
        "Tessera's rule: an agent does not start in a folder that others can read",
        _home_access,
    ),
    Check(
        "host.clock",
        "Is the clock synchronised?",
        (DoctorVerdict.WARN,),
        "timedatectl(1), NTPSynchronized; chronyc(1), tracking",
        _clock,
    ),
    Check(
        "host.shared_memory",
        "Is shared memory large enough?",
        (DoctorVerdict.WARN,),
        "NCCL documentation, troubleshooting shared memory; k8s-device-plugin #647",
        _shared_memory,
    ),
    Check(
        "host.reserve",
        "Are CPU and memory kept for the engine and the agent?",
        (DoctorVerdict.WARN,),
        "Tessera's limit: some CPU and 512 MiB; slurm.conf(5), CoreSpecCount and MemSpecLimit",
        _system_reserve,
        needs_real_driver=True,
    ),
    Check(
        "host.shared_folders",
        "Can jobs use the volume roots and the caches that the policy offers?",
        (DoctorVerdict.WARN,),
        "Tessera's rule: links are not followed, and jobs of a project have a user of its own",
        _shared_folders,
    ),
    Check(
        "host.dcgm",
        "Does DCGM keep slices from being removed?",
        (DoctorVerdict.WARN,),
        "DCGM #95 and #276; go-nvml #146",
        _holders,
        needs_real_driver=True,
    ),
)
