"""Open MPI: mpirun in rank 0 starts all processes, over `openmpi_gang.py` instead of ssh.

Source: mpirun's manual (Open MPI 5.0 and 4.1) and PRRTE's `plm/ssh`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

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
from agents.launchers.hostfile import hostfile
from agents.launchers.python_program import leading_options

PROGRAM, HOSTFILE = "openmpi_gang.py", "hostfile"
TEXT = Path(__file__).with_name(PROGRAM).read_text("utf-8")
# Options of mpirun that Tessera writes, or that mean nothing in a gang of its own.
PLACES = frozenset(
    (
        *("H", "N", "allow-run-as-root", "bind-to", "c", "host", "hostfile", "machinefile", "n"),
        *("np", "npernode", "oversubscribe"),
    )
)
FLAGS = frozenset(("allow-run-as-root", "oversubscribe"))
# Between the programs of one call of mpirun.
SEPARATOR = ":"
# Replicas that share an address also share a host name, by which Open MPI would give two ranks one
# segment of shared memory.
SHARED_MACHINE = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_coll": "^acoll,han,sm,xhc"}


class OpenMpiLauncher(Launcher):
    name = LauncherName.OPENMPI
    summary = "Open MPI's mpirun, one process per GPU"
    joins_replicas = True
    shares_key = True
    programs = frozenset(("mpiexec", "mpirun", "orterun", "prterun"))
    variables = frozenset(
        (
            *("OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm_rsh_no_tree_spawn"),
            *("PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_ssh_no_tree_spawn"),
        )
    )
    sets = frozenset(
        (
            *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
            *("OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_RANK"),
        )
    )

    def environment(self, launch: Launch) -> dict[str, str]:
        """Rank 0 starts a daemon in every replica itself. The first names are Open MPI 4's."""
        agent = _shell_command(launch.folder / PROGRAM)
        peers, chosen = launch.rendezvous.peers, launch.replica.env
        shared = SHARED_MACHINE if len(set(peers)) < len(peers) else {}
        return {
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "PRTE_MCA_plm_ssh_agent": agent,
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        } | {name: value for name, value in shared.items() if name not in chosen}

    def files(self, launch: Launch) -> Mapping[str, str]:
        replica = launch.replica
        return {HOSTFILE: hostfile(replica.world, replica.processes), PROGRAM: TEXT}

    def command(self, launch: Launch) -> list[str]:
        program = launch.replica.command
        return self.gang_command(launch, program) if program else []

    def gang_command(self, launch: Launch, program: Sequence[str]) -> list[str]:
        """In every rank but 0, the processes come by rank 0's mpirun."""
        mpirun = [
            *("mpirun", "--allow-run-as-root", "-n", str(launch.ranks)),
            *("--hostfile", str(launch.folder / HOSTFILE), "--bind-to", "none"),
        ]
        return self.run_in_rank_0(launch, [*mpirun, *program])

    def run_in_rank_0(self, launch: Launch, program: Sequence[str]) -> list[str]:
        """`program` runs in rank 0 once all have met, and may call mpirun; all end with it."""
        gang = ["python3", str(launch.folder / PROGRAM)]
        return [*gang, "join"] if launch.replica.rank > 0 else [*gang, "run", *program]

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        """Of a command with words that mpirun, in front of it, would read as its own."""
        command = request.command
        if command and command[0].startswith("-"):
            why = Message(
                "the command begins with %(option)s, which mpirun would take for its own: begin "
                "it with the program, and set options of Open MPI as variables OMPI_MCA_…",
                option=command[0],
            )
            options, program = leading_options(command, FLAGS)
            is_mended = bool(program) and {each.name for each in options} <= PLACES
            return LaunchRefusal("command", why, {"command": [*program]} if is_mended else {})
        if SEPARATOR in command:
            why = Message(
                "mpirun would take what follows the word %(word)s for a second program: leave it "
                "out, or put the command into a script",
                word=SEPARATOR,
            )
            return LaunchRefusal("command", why)
        return None

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        """Not with other options of its own, which would be lost. How many processes it means in
        each replica is not known: that is left to the GPUs."""
        options, program = leading_options(call.arguments, FLAGS)
        if not program or {each.name for each in options} - PLACES:
            return None
        return LaunchedProgram(program)


def _shell_command(program: Path) -> str:
    """mpirun splits it at blanks and knows no quotes. A path with one is found by PATH, to which
    the program adds its folder."""
    return f"{PROGRAM} shell" if " " in str(program) else f"python3 {program} shell"


LAUNCHER = OpenMpiLauncher()
