"""The image's own program: its entrypoint, with the command as the arguments."""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, Launcher
from agents.launchers.none import LAUNCHER as NO_LAUNCHER


class EntrypointLauncher(Launcher):
    """For an image that is meant to be run as it is, such as a server: under every other launcher
    the command replaces its entrypoint. It starts where the image says."""

    name = LauncherName.ENTRYPOINT
    summary = "run the image's own program, with the command as its arguments"
    starts_several = False
    keeps_command = True
    keeps_entrypoint = True

    def environment(self, launch: Launch) -> dict[str, str]:
        return NO_LAUNCHER.environment(launch)

    def command(self, launch: Launch) -> list[str]:
        """The arguments: only the engine of the node knows the program."""
        return list(launch.replica.command)


LAUNCHER = EntrypointLauncher()
