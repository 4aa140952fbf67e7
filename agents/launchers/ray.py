"""Ray: the head in rank 0, a node of its cluster in each other rank, the command as the driver.

`ray symmetric-run` does much the same, but tells the head by its addresses, which fails on machines
with several, waits 30 s for the others, and ends every Ray of the machine with `ray stop`.
"""

from collections.abc import Mapping
from pathlib import Path

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, Launcher, LaunchRefusal, LaunchRequest, launcher_call

PROGRAM = "ray_gang.py"
TEXT = Path(__file__).with_name(PROGRAM).read_text("utf-8")
# Those that start or stop a cluster; `ray job submit` and the like are clients.
STARTERS = frozenset(("start", "stop", "symmetric-run", "up", "down"))
# Of the shared memory of a replica, how much holds Ray's objects; less than Ray's least is not set.
STORE_PERCENT, LEAST_STORE_MIB = 80, 80


class RayLauncher(Launcher):
    name = LauncherName.RAY
    summary = "Ray, a cluster of all replicas, with the command as its driver"
    starts_several = False
    keeps_command = True
    variables = frozenset(("RAY_ADDRESS",))
    sets = frozenset(("RAY_ADDRESS",))

    def environment(self, launch: Launch) -> dict[str, str]:
        """No RANK: Ray's workers inherit the variables of their node and have own ranks."""
        return {}

    def command(self, launch: Launch) -> list[str]:
        replica = launch.replica
        words = list(replica.command)
        if not words:
            return []
        is_python = words[0].rsplit("/", 1)[-1].startswith("python")
        options = ["--num-cpus", str(max(1, replica.cpu_milli // 1_000))]
        options += ["--num-gpus", str(len(replica.devices))]
        store_mib = replica.shm_mib * STORE_PERCENT // 100
        if store_mib >= LEAST_STORE_MIB:
            options += ["--object-store-memory", str(store_mib << 20)]
        python = words[0] if is_python else "python3"
        return [python, str(launch.folder / PROGRAM), *options, "--", *words]

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {PROGRAM: TEXT}

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        call = launcher_call(request.command)
        if call is None or call.program != "ray" or not STARTERS & set(call.arguments[:1]):
            return None
        why = Message("launcher ray starts the cluster: write only the command of the driver")
        return LaunchRefusal("command", why)


LAUNCHER = RayLauncher()
