"""DeepSpeed's launcher, once in each replica, without ssh: every replica is told its own rank.

It gives each process a device by number, CUDA_VISIBLE_DEVICES=0, 1, …, which are the replica's own
devices only in a container. Source: `deepspeed.launcher.runner` and `launch` of version 0.19.
"""

from collections.abc import Mapping

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
from agents.launchers.deepspeed_config import batch_refusal, inline_config
from agents.launchers.hostfile import hostfile
from agents.launchers.python_program import (
    leading_options,
    start_program,
    words_of,
    written_program,
)

MODULE, HOSTFILE = "deepspeed.launcher.runner", "hostfile"
FLAGS = frozenset(
    (
        *("bind-cores-to-rank", "elastic-training", "force-multi", "module", "no-local-rank"),
        *("no-python", "no-ssh", "no-ssh-check", "save-pid"),
    )
)
# What Tessera writes, or what needs ssh between replicas.
PLACES = frozenset(
    (
        *("H", "e", "elastic-training", "exclude", "force-multi", "hostfile", "i", "include"),
        *("launcher", "launcher-args", "master-addr", "master-port", "max-elastic-nodes"),
        *("min-elastic-nodes", "no-ssh", "no-ssh-check", "node-rank", "num-accelerators"),
        *("num-gpus", "num-nodes", "ssh-port"),
    )
)
OF_PROGRAM = frozenset(("module", "no-python"))


class DeepSpeedLauncher(Launcher):
    name = LauncherName.DEEPSPEED
    summary = "DeepSpeed, one process per GPU"
    joins_replicas = True
    chooses_devices = True
    programs = frozenset(("deepspeed", MODULE))
    sets = frozenset(
        (
            *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"),
            "CUDA_VISIBLE_DEVICES",
        )
    )

    def environment(self, launch: Launch) -> dict[str, str]:
        """None: flags say it."""
        return {}

    def files(self, launch: Launch) -> Mapping[str, str]:
        """With a hostfile it counts no devices itself."""
        return {HOSTFILE: hostfile(launch.replica.world, launch.replica.processes)}

    def command(self, launch: Launch) -> list[str]:
        if not launch.replica.command:
            return []
        options, program = leading_options(launch.replica.command, FLAGS)
        own = [
            *("--hostfile", str(launch.folder / HOSTFILE), "--no_ssh"),
            *("--node_rank", str(launch.replica.rank)),
            *("--master_addr", launch.rendezvous.address),
            *("--master_port", str(launch.rendezvous.port)),
            *words_of(options),
        ]
        if not program or {each.name for each in options} & OF_PROGRAM:
            return ["deepspeed", *own, *program]
        return start_program(
            program,
            own,
            script=("deepspeed",),
            module=MODULE,
            no_python="--no_python",
            module_option="--module",
        )

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        if not request.gpus and request.processes > 1:
            why = Message("deepspeed gives each process a GPU of its own: choose whole GPUs")
            return LaunchRefusal("processes", why, {"processes": 1})
        options, program = leading_options(request.command, FLAGS)
        if mine := sorted({each.name for each in options} & PLACES):
            kept = words_of(each for each in options if each.name not in PLACES)
            why = Message("Tessera sets --%(option)s of deepspeed: leave it out", option=mine[0])
            return LaunchRefusal("command", why, {"command": [*kept, *program]})
        if request.command and not program:
            sentence = "write the program after the options of %(launcher)s"
            return LaunchRefusal("command", Message(sentence, launcher="deepspeed"))
        config = inline_config(program)
        mismatch = batch_refusal(config, request.ranks) if config else None
        return LaunchRefusal("command", mismatch) if mismatch else None

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        options, program = leading_options(call.arguments, FLAGS)
        if not program:
            return None
        counts = {each.name: each.count for each in options}
        processes = counts.get("num-gpus") or counts.get("num-accelerators") or 0
        kept = [each for each in options if each.name not in PLACES | OF_PROGRAM]
        written = written_program(call.interpreter, options, program)
        return LaunchedProgram((*words_of(kept), *written), processes)


LAUNCHER = DeepSpeedLauncher()
