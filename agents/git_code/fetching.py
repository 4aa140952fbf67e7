"""Fetches the code of a replica from the git repository that its job names."""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.contract.git_source import (
    DesiredGitCode,
    GitSource,
    GitSourceError,
    address_problem,
    is_endpoint_allowed,
    read_git_source,
)
from agents.contract.message import Message
from agents.files.tree_writing import FolderWriter, empty_folder
from agents.git_code.endpoint import AddressProblem, Resolve, checked_addresses, resolve_host
from agents.git_code.program import (
    NO_GIT,
    GitEnded,
    GitProgram,
    GitTooLarge,
    GitTooLong,
    find_git,
)
from agents.git_code.repository import (
    content_reader,
    fetch_commit,
    read_listing,
    with_environment,
)
from agents.git_code.settings import (
    NO_SIGN_IN,
    SignIn,
    fetch_environment,
    local_environment,
    read_token,
)
from agents.host.private_files import make_private_folder
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import ReplicaFolders

# In the replica's own folder, where its program never looks.
REPOSITORY = "repository"

log = logging.getLogger("agents.git_code")

KeyFile = Callable[[str, str], Path]
"""Where a secret of a replica is, by its id and the secret's name."""


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Of one fetch: how long it may take, what the server may send, and what the files may have
    together."""

    seconds: float = 900.0
    pack_bytes: int = 2 << 30
    file_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class GitCode:
    """`hosts`: those that the owner of this node allows. `ca_file`: the authorities that https
    trusts; empty for those of the machine."""

    hosts: tuple[str, ...]
    key_file: KeyFile
    ca_file: str = ""
    limits: GitLimits = GitLimits()
    resolve: Resolve = resolve_host
    address_problem: AddressProblem = address_problem

    def fetch(self, replica: DesiredReplica, folders: ReplicaFolders) -> str:
        """Write its code folder anew. The commit that is there now. Raises RuntimeFailure, and
        OSError where the folder cannot be written."""
        code = replica.code_git
        if code is None:
            return ""
        source = self._allowed(code)
        home = folders.code.parent / REPOSITORY
        shutil.rmtree(home, ignore_errors=True)
        make_private_folder(home)
        try:
            return self._fetch(source, code, replica.id, folders.code, home)
        except GitEnded as ended:
            raise _unfetched(source, str(ended)) from ended
        except GitTooLong as long:
            raise _unfetched(source, f"not done in {self.limits.seconds:.0f} s") from long
        except GitTooLarge as large:
            raise self._too_large(source) from large
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _fetch(
        self, source: GitSource, code: DesiredGitCode, replica: str, folder: Path, home: Path
    ) -> str:
        program = find_git()
        if not program:
            raise _unfetched(source, NO_GIT)
        sign_in = self._sign_in(source, code, replica)
        addresses = checked_addresses(source, self.resolve, self.address_problem)
        online = fetch_environment(source, addresses, sign_in, self.ca_file)
        deadline = time.monotonic() + self.limits.seconds
        git = GitProgram(program, home, online, deadline, self.limits.pack_bytes)
        commit = fetch_commit(git, source, code.commit)
        self._write(with_environment(git, local_environment()), commit, folder)
        log.info("git_fetched", extra={"replica": replica, "url": source.url, "commit": commit})
        return commit

    def _write(self, git: GitProgram, commit: str, folder: Path) -> None:
        listing = read_listing(git, commit)
        if listing.total_bytes > self.limits.file_bytes:
            raise GitTooLarge
        empty_folder(folder)
        with content_reader(git) as reader, FolderWriter(folder) as writer:
            for file in listing.files:
                with writer.new_file(file.path, executable=file.executable) as target:
                    for piece in reader.pieces(file):
                        target.write(piece)
        if listing.left_out:
            log.info("git_left_out", extra={"commit": commit, "entries": listing.left_out})

    def _allowed(self, code: DesiredGitCode) -> GitSource:
        try:
            source = read_git_source(code.source)
        except GitSourceError as error:
            raise RuntimeFailure("git_forbidden", str(error), error.message) from error
        if not is_endpoint_allowed(source, self.hosts):
            message = Message(
                "this node's policy does not allow code from %(host)s", host=source.endpoint
            )
            raise RuntimeFailure("git_forbidden", message.text, message)
        return source

    def _sign_in(self, source: GitSource, code: DesiredGitCode, replica: str) -> SignIn:
        if not code.key:
            return NO_SIGN_IN
        path = self.key_file(replica, code.key)
        if source.scheme == "ssh":
            return SignIn(key_file=path)
        return SignIn(token=read_token(path.read_text("utf-8"), code.key))

    def _too_large(self, source: GitSource) -> RuntimeFailure:
        message = Message(
            "its code cannot be fetched: %(url)s has more than %(gib)s GiB, or more files than the "
            "code of a job may have",
            url=source.url,
            gib=self.limits.pack_bytes >> 30,
        )
        return RuntimeFailure("git_too_large", message.text, message)


def _unfetched(source: GitSource, why: str) -> RuntimeFailure:
    message = Message("its code cannot be fetched from %(url)s: %(why)s", url=source.url, why=why)
    return RuntimeFailure("git_unfetched", message.text, message)
