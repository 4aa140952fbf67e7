"""PyTorch's launcher: the agent of each replica starts its ranks, and all of them form one world.

Source of its options and of PET_*: `torch.distributed.run` and its manual, "torchrun (Elastic
Launch)".
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchedProgram, Launcher, LauncherCall
from agents.launchers.python_program import leading_options, start_program, written_program

MODULE = "torch.distributed.run"
# Options that place a process in its world, which Tessera does by PET_*.
PLACES = frozenset(
    (
        "local-addr",
        "master-addr",
        "master-port",
        "nnodes",
        "node-rank",
        "rdzv-backend",
        "rdzv-conf",
        "rdzv-endpoint",
        "rdzv-id",
        "standalone",
        "use-env",
    )
)
# Options that a request expresses otherwise.
OWN = frozenset(("m", "max-restarts", "module", "no-python", "nproc-per-node"))
FLAGS = frozenset(("m", "module", "no-python", "standalone", "use-env"))
# What its agent gives each process (torch.distributed.elastic.agent.server.local_elastic_agent).
WORKER_VARIABLES = frozenset(
    (
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
        *("GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
        *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
        *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
    )
)


class TorchrunLauncher(Launcher):
    """torchrun reads each of its flags from PET_<FLAG>. It sets RANK and WORLD_SIZE itself."""

    name = LauncherName.TORCHRUN
    summary = "PyTorch's launcher, one process per GPU"
    joins_replicas = True
    programs = frozenset(("torchrun", MODULE, "torch.distributed.launch"))
    sets = WORKER_VARIABLES

    def environment(self, launch: Launch) -> dict[str, str]:
        replica, meeting = launch.replica, launch.rendezvous
        return {
            "PET_NNODES": str(replica.world),
            "PET_NPROC_PER_NODE": str(replica.processes),
            "PET_NODE_RANK": str(replica.rank),
            "PET_MASTER_ADDR": meeting.address,
            "PET_MASTER_PORT": str(meeting.port),
            "PET_RDZV_ID": f"{replica.job}-{replica.attempt}",
            "PET_MAX_RESTARTS": "0",
        }

    def command(self, launch: Launch) -> list[str]:
        words = launch.replica.command
        return start_program(words, (), script=("torchrun",), module=MODULE) if words else []

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        options, program = leading_options(call.arguments, FLAGS)
        others = {each.name for each in options} - PLACES - OWN
        has_restarts = any(each.name == "max-restarts" and each.value != "0" for each in options)
        if others or has_restarts or not program:
            return None
        processes = [each.count for each in options if each.name == "nproc-per-node"]
        written = written_program(call.interpreter, options, program)
        return LaunchedProgram(written, processes[-1] if processes else 0)


LAUNCHER = TorchrunLauncher()
