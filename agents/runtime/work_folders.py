"""Makes the folders in which a replica works, for both runtimes."""

from agents.contract.documents import DesiredReplica
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import ReplicaFolders
from agents.workspace.workspaces import Workspaces

# The name of the folder of all workspaces.
WORK = "work"


def make_workspace(
    workspaces: Workspaces, replica: DesiredReplica, user: int | None = None
) -> ReplicaFolders:
    """As `Workspaces.make`. Raises RuntimeFailure if the node's disk does not take them."""
    try:
        return workspaces.make(replica, user)
    except OSError as error:
        sentence = f"its node cannot make its folders: {error.strerror or error}"
        raise RuntimeFailure("workspace", sentence) from error
