"""Hugging Face's launcher: accelerate starts torchrun's agent in each replica, by flags alone.

Options of accelerate stand before the program in the command, such as --mixed_precision bf16; those
that place a process in its world are Tessera's. Source: `accelerate launch --help` and
`accelerate.commands.launch` of version 1.15.
"""

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import (
    Launch,
    LaunchedProgram,
    Launcher,
    LauncherCall,
    LaunchRefusal,
    LaunchRequest,
)
from agents.launchers.python_program import (
    Option,
    leading_options,
    start_program,
    words_of,
    written_program,
)
from agents.launchers.torchrun import WORKER_VARIABLES

SCRIPT, MODULE = ("accelerate", "launch"), "accelerate.commands.launch"
FLAGS = frozenset(
    (
        *("cpu", "debug", "downcast-bf16", "dynamo-use-dynamic", "dynamo-use-fullgraph"),
        *("dynamo-use-regional-compilation", "enable-cpu-affinity", "fp8-use-autocast-during-eval"),
        *("h", "help", "m", "module", "multi-gpu", "no-python", "no-tpu-cluster", "q", "quiet"),
        *("same-network", "tpu", "tpu-cluster", "tpu-use-sudo", "use-deepspeed", "use-fsdp"),
        *("use-megatron-lm", "use-parallelism-config"),
    )
)
# What Tessera writes: a user's own would start another world, or other devices.
PLACES = frozenset(
    (
        *("deepspeed-exclusion-filter", "deepspeed-hostfile", "deepspeed-inclusion-filter"),
        *("deepspeed-multinode-launcher", "gpu-ids", "machine-rank", "main-process-ip"),
        *("main-process-port", "mpirun-hostfile", "multi-gpu", "num-machines", "num-processes"),
        *("rdzv-backend", "rdzv-conf", "same-network"),
    )
)
# With these accelerate starts no agent of torchrun, so that the replicas would not meet.
ALONE = frozenset(("cpu", "tpu", "tpu-cluster", "tpu-use-sudo"))
# Each is another kind of training than --multi_gpu.
KINDS = frozenset(("use-deepspeed", "use-fsdp", "use-megatron-lm"))
# Of the options of the program, not of accelerate.
OF_PROGRAM = frozenset(("m", "module", "no-python"))


class AccelerateLauncher(Launcher):
    """Static: every replica is told its own rank and where the world meets."""

    name = LauncherName.ACCELERATE
    summary = "Hugging Face Accelerate, one process per GPU"
    joins_replicas = True
    programs = frozenset(("accelerate launch", "accelerate-launch", MODULE))
    sets = WORKER_VARIABLES

    def environment(self, launch: Launch) -> dict[str, str]:
        """None: what accelerate reads in the environment, a flag says as well."""
        return {}

    def command(self, launch: Launch) -> list[str]:
        if not launch.replica.command:
            return []
        options, program = leading_options(launch.replica.command, FLAGS)
        own = [*_place(launch, {each.name for each in options}), *_defaults(options)]
        own += words_of(options)
        if not program or {each.name for each in options} & OF_PROGRAM:
            return [*SCRIPT, *own, *program]
        return start_program(program, own, script=SCRIPT, module=MODULE, no_python="--no_python")

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        options, program = leading_options(request.command, FLAGS)
        names = {each.name for each in options}
        foreign = PLACES | (ALONE if request.ranks > 1 else frozenset())
        if mine := sorted(names & foreign):
            kept = words_of(each for each in options if each.name not in foreign)
            why = Message("Tessera sets --%(option)s of accelerate: leave it out", option=mine[0])
            return LaunchRefusal("command", why, {"command": [*kept, *program]})
        if request.command and not program:
            why = Message(
                "write the program after the options of %(launcher)s", launcher="accelerate"
            )
            return LaunchRefusal("command", why)
        if len(names & KINDS) > 1:
            both = " --".join(sorted(names & KINDS))
            why = Message("choose one of --%(options)s: accelerate takes no two", options=both)
            return LaunchRefusal("command", why)
        return None

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        options, program = leading_options(call.arguments, FLAGS)
        if not program:
            return None
        counts = {each.name: each.count for each in options}
        machines = counts.get("num-machines") or 1
        total = counts.get("num-processes", 0)
        kept = [each for each in options if each.name not in PLACES | ALONE | OF_PROGRAM]
        written = written_program(call.interpreter, options, program)
        processes = 0 if total % machines else total // machines
        return LaunchedProgram((*words_of(kept), *written), processes)


def _place(launch: Launch, chosen: set[str]) -> list[str]:
    """`chosen`: names of the user's options. The number of processes is that of the whole world."""
    replica, meeting = launch.replica, launch.rendezvous
    words = [
        *("--num_processes", str(launch.ranks)),
        *("--num_machines", str(replica.world)),
        *("--machine_rank", str(replica.rank)),
        *("--main_process_ip", meeting.address),
        *("--main_process_port", str(meeting.port)),
        "--same_network",
    ]
    if "use-deepspeed" in chosen:
        return [*words, "--deepspeed_multinode_launcher", "standard"]
    # A file of the user's own says which kind of training it is.
    is_chosen = chosen & KINDS or "config-file" in chosen
    return words if launch.ranks == 1 or is_chosen else [*words, "--multi_gpu"]


def _defaults(options: list[Option]) -> list[str]:
    """Of what accelerate would warn about, unless the user's own file says it."""
    names = {each.name for each in options}
    if "config-file" in names:
        return []
    usual = {"mixed-precision": "--mixed_precision", "dynamo-backend": "--dynamo_backend"}
    return [word for name, flag in usual.items() if name not in names for word in (flag, "no")]


LAUNCHER = AccelerateLauncher()
