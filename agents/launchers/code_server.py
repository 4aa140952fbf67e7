"""code-server: VS Code in the browser, by its openly licensed server.

Source of the options: `code-server --help`. It compares `Origin` with the host that the portal
hands on.
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.notebook_servers import LOOPBACK, NotebookServer


class CodeServerLauncher(NotebookServer):
    name = LauncherName.CODE_SERVER
    summary = "VS Code by code-server, which its owner opens from the page of the job"
    title = "code-server"
    default_command = ("code-server", ".")
    app = "code"
    port = 8080
    port_options = frozenset(("--port",))
    door_options = frozenset(
        (
            "--bind-addr",
            "--host",
            "--auth",
            "--password",
            "--hashed-password",
            "--socket",
            "--config",
        )
    )
    programs = frozenset(("code-server",))

    def listen_options(self, port: int) -> list[str]:
        address = f"--bind-addr={LOOPBACK}:{port}"
        return [address, "--auth=none", "--disable-telemetry", "--disable-update-check"]

    def port_option(self, port: int) -> list[str]:
        """It stands in the address already."""
        return []


LAUNCHER = CodeServerLauncher()
