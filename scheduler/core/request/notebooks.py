"""Notebooks: what a request leaves out because it says that it is one, and what it cannot be then.

A launcher that starts a server of notebooks says which command that is and where it listens
(`agents/launchers/notebook_servers.py`). The request that is stored says all of it.
"""

from collections.abc import Mapping
from typing import Any

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.notebook_servers import NotebookServer
from agents.launchers.registry import LAUNCHERS
from scheduler.core.request.apps import MAX_APPS, read_apps
from scheduler.core.request.values import JobKind, ProblemCode, Refuse

SERVERS: Mapping[str, NotebookServer] = {
    str(name): launcher
    for name, launcher in LAUNCHERS.items()
    if isinstance(launcher, NotebookServer)
}
# Of a notebook that names neither a launcher nor a command.
DEFAULT_LAUNCHER = LauncherName.JUPYTER


def completed_notebook(data: Mapping[str, Any]) -> dict[str, Any]:
    """The request with what a notebook leaves out: its launcher, its kind, the command and the app.
    `data`: as it was sent, with anything in it; what is no notebook is returned as it is."""
    whole = dict(data)
    names = whole.get("kind"), whole.get("launcher")
    if names[0] == JobKind.NOTEBOOK and names[1] is None and not whole.get("command"):
        whole["launcher"] = str(DEFAULT_LAUNCHER)
    launcher = whole.get("launcher")
    server = SERVERS.get(launcher.strip()) if isinstance(launcher, str) else None
    if server is None:
        return whole
    whole.setdefault("kind", str(JobKind.NOTEBOOK))
    if not whole.get("command"):
        whole["command"] = list(server.default_command)
    whole["apps"] = _with_app(whole.get("apps", []), server, whole["command"])
    return whole


def _with_app(apps: Any, server: NotebookServer, command: Any) -> Any:
    """The apps with that of the server; as they are if they cannot be read, or name its port."""
    problems: list[str] = []
    read = read_apps(apps, lambda field, *_, **__: problems.append(field))
    is_command = isinstance(command, list) and all(isinstance(word, str) for word in command)
    if problems or not is_command:
        return apps
    port = server.port_of(tuple(command))
    taken = {name: number for name, _, number in (app.partition(":") for app in read)}
    if str(port) in taken.values() or server.app in taken or len(read) >= MAX_APPS:
        return apps
    return [f"{server.app}:{port}", *read]


def refuse_notebook(values: Mapping[str, Any], refuse: Refuse) -> None:
    """`values`: by attribute of JobRequest."""
    is_notebook = values["kind"] is JobKind.NOTEBOOK
    if is_notebook and max(values["replicas"], values["max_replicas"]) > 1:
        why = Message("a notebook runs in one replica: request one with all GPUs")
        refuse("replicas", ProblemCode.COMBINATION, why, {"replicas": 1})
    for field in ("array", "sweep"):
        if is_notebook and values[field]:
            why = Message("a notebook is one job: leave %(field)s out", field=field)
            refuse(field, ProblemCode.COMBINATION, why)
    server = SERVERS.get(str(values["launcher"]))
    if server is not None and not is_notebook:
        why = Message(
            "launcher %(launcher)s asks for no password, so it starts notebooks only: write kind "
            "notebook",
            launcher=str(values["launcher"]),
        )
        refuse("kind", ProblemCode.COMBINATION, why, {"kind": str(JobKind.NOTEBOOK)})
