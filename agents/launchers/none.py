"""No launcher: the command runs once in each replica, as it is."""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, Launcher


class NoLauncher(Launcher):
    """One process per replica: its rank in the gang is its rank in the world.

    The command may itself be a launcher, which then starts a world of its own in each replica."""

    name = LauncherName.NONE
    summary = "run the command as it is"
    starts_several = False
    keeps_command = True

    def environment(self, launch: Launch) -> dict[str, str]:
        return {
            "RANK": str(launch.replica.rank),
            "WORLD_SIZE": str(launch.replica.world),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }

    def command(self, launch: Launch) -> list[str]:
        return list(launch.replica.command)


LAUNCHER = NoLauncher()
