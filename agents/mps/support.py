"""Whether this node can give shares at all, decided once at the agent's start."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import RuntimeKind
from agents.mps.control import MAX_PIPE_LENGTH, PROGRAM
from agents.mps.limits import max_clients

SIMULATED_CONTROL = Path(__file__).parents[1] / "simdriver" / "mps_control.py"


@dataclass(frozen=True, slots=True)
class MpsSupport:
    """`program`: the words that start the control program. `uid`: whom the jobs run as. `cuda`: the
    driver's CUDA version. `unable`: why no share is given here; empty where shares are given."""

    program: tuple[str, ...] = ()
    in_containers: bool = False
    uid: int = 0
    cuda: str = ""
    unavailable_reason: str = "this agent was started without MPS shares"

    @property
    def share_clients(self) -> int:
        """For the inventory: processes that the server of a whole GPU takes; 0 where none."""
        return 0 if self.unavailable_reason else max_clients(self.cuda)


NO_SUPPORT = MpsSupport()


def control_program(named: str, simulated_driver: Path | None) -> tuple[str, ...]:
    """The program that was named, else NVIDIA's; on a simulated node the simulated one."""
    if named or simulated_driver is None:
        # With its path: the daemon's user may have another one to look in.
        program = named or PROGRAM
        return (shutil.which(program) or program,)
    return (
        sys.executable,
        "-I",
        "-S",
        str(SIMULATED_CONTROL),
        "--driver",
        str(simulated_driver.absolute()),
    )


def mps_support(
    program: tuple[str, ...], runtime: RuntimeKind, user: int, cuda: str, root: Path
) -> MpsSupport:
    """`user`: uid of containers. Plain processes run as the agent itself does. `root`: where the
    daemons' folders will be."""
    contained = runtime is RuntimeKind.DOCKER
    unable = ""
    # A key of 12 characters and the pipe's own name come below it.
    if len(os.fsencode(root.absolute())) + len("/123456789012/p") > MAX_PIPE_LENGTH:
        unable = f"{root} is too long for MPS sockets: name a shorter folder with --var"
    if contained and os.geteuid() != 0:
        unable = "an MPS daemon runs as its jobs' user, with memory they share: that needs root"
    if shutil.which(program[0]) is None:
        unable = f"{program[0]} is not on this node: it comes with the driver's compute utilities"
    return MpsSupport(program, contained, user if contained else os.geteuid(), cuda, unable)
