"""NVIDIA's nccl-tests: one process for all GPUs of a replica, or by MPI one for each over several.

Over several replicas the programs must be built with MPI=1. Source: the README of nccl-tests.
Where GPUs are simulated and have no NCCL, the program `ring_all_reduce` stands in for them: a file
of this launcher. The program `all_reduce_pairs` is the other one: all_reduce_perf over pairs of
replicas, several at a time.
"""

from collections.abc import Mapping
from pathlib import Path

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, LaunchRefusal, LaunchRequest
from agents.launchers.command_options import option_name, separated_options, without_options
from agents.launchers.openmpi import OpenMpiLauncher

# The program, and its file.
RING = "ring_all_reduce"
RING_FILE = f"{RING}.py"
RING_TEXT = Path(__file__).with_name(RING_FILE).read_text("utf-8")
# A command of it: the name, the rounds (`pair_rounds.py`), options of all_reduce_perf.
PAIRS = "all_reduce_pairs"
PAIRS_FILE = "pair_rounds.py"
PAIRS_TEXT = Path(__file__).with_name(PAIRS_FILE).read_text("utf-8")
# GPUs of each thread, and threads of each process.
COUNTS = frozenset(("-g", "--ngpus", "-t", "--nthreads"))


class NcclTestsLauncher(OpenMpiLauncher):
    name = LauncherName.NCCL_TESTS
    summary = "nccl-tests over all GPUs, by MPI over several replicas"
    programs = frozenset()

    def environment(self, launch: Launch) -> dict[str, str]:
        return super().environment(launch) if _is_by_mpi(launch) else {}

    def files(self, launch: Launch) -> Mapping[str, str]:
        if _is_ring(launch):
            return {RING_FILE: RING_TEXT}
        own = {PAIRS_FILE: PAIRS_TEXT} if _is_pairs(launch) else {}
        return {**super().files(launch), **own} if _is_by_mpi(launch) else {}

    def command(self, launch: Launch) -> list[str]:
        program, several = launch.replica.command, _is_by_mpi(launch)
        if not program:
            return []
        if _is_ring(launch):
            return ["python3", str(launch.folder / RING_FILE), *program[1:]]
        if _is_pairs(launch):
            rounds, options = program[1], program[2:]
            script = ("python3", str(launch.folder / PAIRS_FILE), str(launch.replica.processes))
            each = ("all_reduce_perf", "-g", "1", *options)
            return self.run_in_rank_0(launch, [*script, rounds, *each])
        counted = [
            program[0],
            "-g",
            "1" if several else str(launch.replica.processes),
            *program[1:],
        ]
        return self.gang_command(launch, counted) if several else counted

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        if not request.gpus and request.ranks > 1:
            why = Message("nccl-tests need a whole GPU for each process: choose whole GPUs")
            return LaunchRefusal("device", why)
        words = separated_options(request.command, COUNTS)
        if mine := sorted({option_name(word) for word in words} & COUNTS):
            why = Message("Tessera sets %(option)s of nccl-tests: leave it out", option=mine[0])
            kept = without_options(words, COUNTS)
            return LaunchRefusal("command", why, {"command": kept})
        return super().request_refusal(request) if request.replicas > 1 else None


def _is_ring(launch: Launch) -> bool:
    return launch.replica.command[:1] == (RING,)


def _is_pairs(launch: Launch) -> bool:
    return launch.replica.command[:1] == (PAIRS,) and len(launch.replica.command) > 1


def _is_by_mpi(launch: Launch) -> bool:
    return launch.replica.world > 1 and not _is_ring(launch)


LAUNCHER = NcclTestsLauncher()
