"""PyTorch's launcher: the agent of each replica starts its ranks, and all of them form one world.

Source of its options and of PET_*: `torch.distributed.run` and its manual, "torchrun (Elastic
Launch)".
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchedProgram, Launcher, LauncherCall

MODULE = "torch.distributed.run"
# Options that place a process in its world, which Tessera does by PET_*. Those of FLAGS have no
# value.
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
    )
)
FLAGS = frozenset(("standalone", "use-env"))
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
        """torchrun starts Python itself, so the interpreter is dropped."""
        words = list(launch.replica.command)
        if not words:
            return []
        if not words[0].rsplit("/", 1)[-1].startswith("python"):
            return ["torchrun", "--no-python", *words]
        # torchrun would read the interpreter's options, such as -u, as its own: then it starts
        # the full command.
        has_options = len(words) > 1 and words[1].startswith("-") and words[1] != "-m"
        program = ["--no-python", *words] if has_options else words[1:]
        return [words[0], "-m", MODULE, *program]

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        words, processes, prefix = list(call.arguments), 0, [*call.interpreter]
        while words and words[0].startswith("-"):
            option, has_value, value = words.pop(0).partition("=")
            name = option.lstrip("-").replace("_", "-")
            if name in ("m", "module", "no-python"):
                prefix = [] if name == "no-python" else [*prefix, "-m"]
                continue
            if name in FLAGS:
                continue
            if not has_value:
                value = words.pop(0) if words else ""
            if name == "nproc-per-node":
                processes = int(value) if value.isdecimal() and len(value) < 4 else 0
            elif name not in PLACES and (name, value) != ("max-restarts", "0"):
                return None
        return LaunchedProgram((*prefix, *words), processes) if words else None


LAUNCHER = TorchrunLauncher()
