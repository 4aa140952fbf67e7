"""What a command says about its gang, without its arguments: names of programs, and one number.

Only a command of words is read; nothing inside a shell script is recognised.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.launchers.base import launcher_call
from agents.launchers.command_options import option_count
from agents.launchers.model_servers import ModelServer
from agents.launchers.nested import leading_launcher
from agents.launchers.registry import LAUNCHERS

# Megatron-LM and vLLM; no other program is known to mean something else by them.
ANY_PROGRAM = frozenset(("--tensor-parallel-size", "--tensor-model-parallel-size"))
PROFILERS = frozenset(("compute-sanitizer", "cuda-gdb", "ncu", "nsys"))
# By the program of a server of models.
SPELLINGS = {
    program: ANY_PROGRAM.union(launcher.tensor)
    for launcher in LAUNCHERS.values()
    if isinstance(launcher, ModelServer)
    for program in launcher.programs
}


@dataclass(frozen=True, slots=True)
class CommandTraits:
    """What is recognised in a command."""

    launcher: str = ""
    """The launcher with which it begins."""
    profiler: str = ""
    """The profiler or debugger with which it begins."""
    tensor_parallel: int = 1
    """GPUs over which it splits each layer of a model; 1 where it does not say so in digits."""


NO_TRAITS = CommandTraits()


def command_traits(command: Sequence[str]) -> CommandTraits:
    call = launcher_call(command)
    program = call.program if call else ""
    launcher = leading_launcher(command)
    traits = CommandTraits(
        launcher=launcher,
        profiler=program if program in PROFILERS else "",
        tensor_parallel=option_count(command, SPELLINGS.get(launcher, ANY_PROGRAM)) or 1,
    )
    return NO_TRAITS if traits == NO_TRAITS else traits
