"""No launcher: the command runs once in each replica, as it is."""

from agents.contract.documents import DesiredReplica, LauncherName, Rendezvous
from agents.launchers.base import Launcher


class NoLauncher(Launcher):
    """One process per replica: its rank in the gang is its rank in the world.

    The command may itself be a launcher, which then starts a world of its own in each replica."""

    name = LauncherName.NONE
    summary = "run the command as it is"
    starts_several = False

    def environment(self, replica: DesiredReplica, rendezvous: Rendezvous) -> dict[str, str]:
        return {
            "RANK": str(replica.rank),
            "WORLD_SIZE": str(replica.world),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }

    def command(self, replica: DesiredReplica) -> list[str]:
        return list(replica.command)


LAUNCHER = NoLauncher()
