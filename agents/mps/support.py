"""Whether this node can give MPS shares, decided once when the agent starts."""

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
    """How this node gives shares, or why it gives none."""

    # The command line of the control program.
    program: tuple[str, ...] = ()
    in_containers: bool = False
    # The user that jobs run as.
    uid: int = 0
    # The driver's CUDA version.
    cuda: str = ""
    # Why the node gives no shares; empty if it does.
    unavailable_reason: str = "this agent was started without MPS shares"

    @property
    def share_clients(self) -> int:
        """For the inventory: processes that the server of a whole GPU takes; 0 without shares."""
        return 0 if self.unavailable_reason else max_clients(self.cuda)


NO_SUPPORT = MpsSupport()


def control_program(named: str, simulated_driver: Path | None) -> tuple[str, ...]:
    """The command line of the `named` program, else of NVIDIA's, or of a simulated node's own."""
    if named or simulated_driver is None:
        # With its path: the daemon's user may have another PATH.
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
    """`user`: the uid of containers; plain processes run as the agent's own user. `root`: the
    folder of the daemons."""
    contained = runtime is RuntimeKind.DOCKER
    unable = ""
    # A key of 12 characters and the pipe's own name come below it.
    if len(os.fsencode(root.absolute())) + len("/123456789012/p") > MAX_PIPE_LENGTH:
        unable = f"{root} is too long for MPS sockets: name a shorter folder with --var"
    if contained and os.geteuid() != 0:
        unable = "to start an MPS daemon as the jobs' user, the agent must be root"
    if shutil.which(program[0]) is None:
        unable = f"{program[0]} is not on this node: it comes with the driver's compute utilities"
    return MpsSupport(program, contained, user if contained else os.geteuid(), cuda, unable)
