"""code-server: VS Code in the browser, by its openly licensed server.

Sources of the options: `code-server --help`, and its `src/node/cli.ts`, which reads `--host` and
`--port` last: its variables `CODE_SERVER_HOST` and `PORT`, which an image or a request may set, win
against `--bind-addr` and lose against these. It compares `Origin` with the host that the portal
hands on.
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.notebook_servers import LOOPBACK, NotebookServer


class CodeServerLauncher(NotebookServer):
    name = LauncherName.CODE_SERVER
    summary = "VS Code by code-server, which its owner opens from the page of the job"
    title = "code-server"
    default_command = ("code-server", ".")
    listen_options = (
        f"--host={LOOPBACK}",
        "--auth=none",
        "--disable-telemetry",
        "--disable-update-check",
    )
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
            "--socket-fd",
            "--cert",
            "--cert-key",
            "--config",
        )
    )
    programs = frozenset(("code-server",))


LAUNCHER = CodeServerLauncher()
