"""The workspaces of a node's replicas: made before their programs start, removed after they end."""

import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.host.private_files import PRIVATE_FOLDER, make_private_folder
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders, folders_below
from agents.workspace.job_user import group_entries, login_name, passwd_entries
from agents.workspace.removal import empty_bin, remove_folder

BIN = ".removed"
PASSWD, GROUP = "passwd", "group"
READABLE, PROGRAM, READABLE_FOLDER = 0o644, 0o555, 0o755
# In a container programs expect of /tmp that everyone may write there.
OPEN, OPEN_TEMPORARY = 0o777, 0o1777

log = logging.getLogger("agents.workspace")


class Workspaces:
    """Folders below `root`, one for each replica; only root and the agent may pass through it.

    Each call may be repeated, after a crash at any point of an earlier one."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._bin = self.root / BIN
        make_private_folder(self.root)
        make_private_folder(self._bin)
        try:
            empty_bin(self._bin)
        except OSError as error:
            log.warning("not_removed", extra={"why": str(error)})

    def home(self, replica: str) -> Path:
        """All of one replica."""
        return self.root / replica

    def folders(self, replica: str) -> ReplicaFolders:
        return folders_below(self.home(replica))

    def account_files(self, replica: str) -> tuple[Path, Path]:
        """For /etc/passwd and /etc/group of a container."""
        return self.home(replica) / PASSWD, self.home(replica) / GROUP

    def make(
        self,
        replica: DesiredReplica,
        user: int | None = None,
        home: Path = IN_CONTAINER.scratch,
    ) -> ReplicaFolders:
        """`user`: the uid and gid of its program; None for those of the agent. `home`: that user's
        in the container. Raises OSError."""
        folders = self.folders(replica.id)
        make_private_folder(self.home(replica.id))
        folders.code.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folders.code.chmod(READABLE_FOLDER)
        for folder in folders.writable:
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            if user is not None:
                _give(folder, user)
        if user is not None:
            folders.temporary.chmod(OPEN_TEMPORARY)
            name, (passwd, group) = login_name(replica.user), self.account_files(replica.id)
            _write(passwd, passwd_entries(user, name, home))
            _write(group, group_entries(user, name))
        return folders

    def write_launcher_files(self, replica: str, texts: Mapping[str, str]) -> None:
        """The texts by their names, which are constants of launchers. The program can read and
        execute them; only the agent replaces them. Raises OSError."""
        folder = self.folders(replica).launcher
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder.chmod(READABLE_FOLDER)
        for name, text in texts.items():
            part = folder / f"{name}.part"
            part.unlink(missing_ok=True)
            _write(part, text, PROGRAM)
            part.replace(folder / name)

    def remove(self, replica: str) -> None:
        """What cannot be removed now is tried again with the next start of the agent."""
        try:
            remove_folder(self.home(replica), self._bin)
        except OSError as error:
            log.warning("not_removed", extra={"replica": replica, "why": str(error)})

    def keep(self, replicas: Collection[str]) -> None:
        """Remove the folders of all other replicas: leftovers of an agent that was killed."""
        for path in self.root.iterdir():
            if path.name != BIN and path.name not in replicas:
                self.remove(path.name)


def _give(folder: Path, user: int) -> None:
    """To a program with this uid. An agent that is not root can only leave it open, below a folder
    that is not."""
    if os.geteuid() == 0:
        os.chown(folder, user, user)
    else:
        folder.chmod(OPEN)


def _write(path: Path, text: str, mode: int = READABLE) -> None:
    path.write_text(text, "utf-8")
    path.chmod(mode)
