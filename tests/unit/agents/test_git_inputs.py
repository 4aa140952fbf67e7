"""When a replica fetches code of a git repository: once, and all but rank 0 after rank 0."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.contract.documents import DesiredReplica
from agents.contract.git_source import DesiredGitCode
from agents.files.inputs import InputsAway, ReplicaInputs
from agents.files.replica_files import ReplicaFiles
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import folders_below
from tests.support.files_in_memory import FilesInMemory

COMMIT = "1" * 40
SOURCE = "git+https://git.example/app.git@main"
RANK_0 = DesiredReplica("r0", "j1", world=2, code_git=DesiredGitCode(SOURCE))
RANK_1 = replace(RANK_0, id="r1", rank=1)


class Node:
    """Its fetches are made in place, and are all of one commit."""

    def __init__(self, home: Path) -> None:
        self.home, self.fetched, self.failure = home, [], None
        self.inputs = ReplicaInputs(FilesInMemory(), lambda: None, lambda work: work(), self.fetch)

    def fetch(self, replica, folders):
        self.fetched.append((replica.id, replica.code_git.commit))
        if self.failure:
            raise self.failure
        return COMMIT

    def folders(self, replica="r0"):
        made = folders_below(self.home / replica)
        for folder in (made.code, *made.writable):
            folder.mkdir(parents=True, exist_ok=True)
        return made

    def deliver(self, replica):
        self.inputs.deliver(replica, lambda: self.folders(replica.id))


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_it_is_fetched_once_and_the_next_agent_knows_the_commit(node, tmp_path):
    node.deliver(RANK_0)
    node.deliver(RANK_0)
    assert node.fetched == [("r0", "")]
    portal, wake = FilesInMemory(), lambda: None
    later = ReplicaFiles(portal, tmp_path / "work", node.folders, wake)
    assert later.commits([RANK_0, DesiredReplica("r9", "j9")]) == {"r0": COMMIT}


def test_another_rank_waits_until_the_portal_names_the_commit_of_rank_0(node):
    assert node.inputs.fetching([RANK_1]) == set(), "its image is pulled meanwhile"
    with pytest.raises(InputsAway):
        node.deliver(RANK_1)
    assert node.inputs.fetching([RANK_1]) == {"r1"}, "asking again is of no use"
    named = replace(RANK_1, code_git=DesiredGitCode(SOURCE, COMMIT))
    assert node.inputs.fetching([named]) == set()
    node.deliver(named)
    assert node.fetched == [("r1", COMMIT)]


def test_a_full_hash_needs_nobody_to_name_it(node):
    node.deliver(replace(RANK_1, code_git=DesiredGitCode(f"git+https://h.example/a@{COMMIT}")))
    assert node.fetched == [("r1", "")]


def test_a_replica_that_is_gone_is_forgotten(node):
    with pytest.raises(InputsAway):
        node.deliver(RANK_1)
    node.inputs.keep([])
    assert node.inputs.fetching([RANK_1]) == set()


def test_a_fetch_that_failed_fails_the_replica_once(node):
    node.failure = RuntimeFailure("git_unfetched", "not found")
    with pytest.raises(InputsAway):
        node.deliver(RANK_0)
    with pytest.raises(RuntimeFailure, match="not found"):
        node.deliver(RANK_0)


def test_a_node_without_hosts_fetches_nothing(tmp_path):
    inputs = ReplicaInputs(FilesInMemory(), lambda: None, lambda work: work())
    folders = Node(tmp_path).folders()
    with pytest.raises(InputsAway):
        inputs.deliver(RANK_0, lambda: folders)
    with pytest.raises(RuntimeFailure, match="no code"):
        inputs.deliver(RANK_0, lambda: folders)
