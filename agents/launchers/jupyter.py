"""JupyterLab, or another server of Jupyter, at the loopback address of its replica.

Sources of the options: `jupyter lab --help-all`; jupyter_server's manual, "Security". Its check of
`Origin` and its XSRF cookie go by the host that the portal hands on, and stay in force; its list of
hosts would refuse that host. `port_retries`: at another port the portal would not find it.
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.notebook_servers import LOOPBACK, NotebookServer

_DOORS = ("ip", "token", "password", "base-url", "certfile", "keyfile", "sock", "port-retries")

# jupyter-rsession-proxy starts RStudio Server without a password: before version 2.4 at all
# addresses, unless it is told (since 2.3) to use a socket, which only this user can open.
_RSTUDIO_BY_SOCKET = {"JUPYTER_RSESSION_PROXY_USE_SOCKET": "true"}


class JupyterLauncher(NotebookServer):
    name = LauncherName.JUPYTER
    summary = "JupyterLab, which its owner opens from the page of the job"
    title = "Jupyter"
    default_command = ("jupyter", "lab")
    listen_options = (
        "--no-browser",
        "--allow-root",
        f"--ServerApp.ip={LOOPBACK}",
        "--ServerApp.port_retries=0",
        "--ServerApp.allow_remote_access=True",
        "--ServerApp.token=",
        "--ServerApp.password=",
    )
    app = "lab"
    port = 8888
    port_options = frozenset(("--port", "--ServerApp.port"))
    door_options = frozenset(
        (
            *(
                "--ip",
                "--sock",
                "--certfile",
                "--keyfile",
                "--port-retries",
                "--IdentityProvider.token",
            ),
            *(f"--ServerApp.{name}" for name in _DOORS),
        )
    )
    programs = frozenset(
        (
            *("jupyter lab", "jupyter notebook", "jupyter server"),
            *("jupyter-lab", "jupyter-notebook", "jupyter-server"),
            *("jupyterlab", "notebook", "jupyter_server"),
        )
    )

    variables = frozenset(_RSTUDIO_BY_SOCKET)

    def environment(self, launch: Launch) -> dict[str, str]:
        return super().environment(launch) | _RSTUDIO_BY_SOCKET


LAUNCHER = JupyterLauncher()
