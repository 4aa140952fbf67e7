"""Makes the folders in which a replica works, for both runtimes."""

from collections.abc import Mapping
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders
from agents.workspace.workspaces import Workspaces

# The name of the folder of all workspaces.
WORK = "work"


def make_workspace(
    workspaces: Workspaces,
    replica: DesiredReplica,
    user: int | None = None,
    home: Path = IN_CONTAINER.scratch,
) -> ReplicaFolders:
    """As `Workspaces.make`. Raises RuntimeFailure if the node's disk does not take them."""
    try:
        return workspaces.make(replica, user, home)
    except OSError as error:
        sentence = f"its node cannot make its folders: {error.strerror or error}"
        raise RuntimeFailure("workspace", sentence) from error


def write_launcher_files(
    workspaces: Workspaces, replica: DesiredReplica, texts: Mapping[str, str]
) -> None:
    """Those of its launcher; again with the same texts has no effect. Raises RuntimeFailure if the
    node's disk does not take them."""
    try:
        if texts:
            workspaces.write_launcher_files(replica.id, texts)
    except OSError as error:
        sentence = f"its node cannot write the files of its launcher: {error.strerror or error}"
        raise RuntimeFailure("workspace", sentence) from error
