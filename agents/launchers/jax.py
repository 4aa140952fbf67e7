"""JAX: one process per replica, which drives all of its GPUs.

`jax.distributed.initialize` reads the coordinator from JAX_COORDINATOR_ADDRESS (jax/_src/
distributed.py, 0.10). It has no variables for the number of processes and the own one: programs
pass JAX_NUM_PROCESSES and JAX_PROCESS_ID on, which Kubeflow's trainer sets as well.
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, Launcher
from agents.launchers.endpoints import meeting_endpoint
from agents.launchers.none import LAUNCHER as NO_LAUNCHER


class JaxLauncher(Launcher):
    name = LauncherName.JAX
    summary = "JAX, one process per replica, joined by jax.distributed"
    starts_several = False
    keeps_command = True
    variables = frozenset(("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))

    def environment(self, launch: Launch) -> dict[str, str]:
        return NO_LAUNCHER.environment(launch) | {
            "JAX_COORDINATOR_ADDRESS": meeting_endpoint(launch.rendezvous),
            "JAX_NUM_PROCESSES": str(launch.replica.world),
            "JAX_PROCESS_ID": str(launch.replica.rank),
        }

    def command(self, launch: Launch) -> list[str]:
        return list(launch.replica.command)


LAUNCHER = JaxLauncher()
