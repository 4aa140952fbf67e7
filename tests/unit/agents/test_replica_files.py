"""Inputs, checkpoints and outputs of replicas, against a portal in memory."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.contract.documents import DesiredReplica
from agents.contract.file_transfer import TreeKind
from agents.files import folder_walk
from agents.files import outputs as outputs_module
from agents.files.inputs import InputsAway, ReplicaInputs
from agents.files.outbox import Outbox
from agents.files.outputs import ReplicaOutputs
from agents.files.tree_reading import FolderTree, read_tree
from agents.runtime.base import ContainerPhase, ContainerStatus, RuntimeFailure
from agents.workspace.folders import ReplicaFolders, folders_below
from tests.support.files_in_memory import FilesInMemory

RUNNING = ContainerStatus("r1", "j1", 1, 0, 1, ContainerPhase.RUNNING, "c", "", 1)
EXITED = replace(RUNNING, phase=ContainerPhase.EXITED, exit_code=0, finished_at=1.0)


class Node:
    """A node's folders, and what sends them; nothing of it runs by itself but its two threads."""

    def __init__(self, var: Path, portal: FilesInMemory) -> None:
        self.var, self.portal = var, portal
        self.woken = threading.Event()
        self.outputs = ReplicaOutputs(Outbox(var / "outbox"), portal, self.folders, self.woken.set)

    def begin_next(self, name: str, data: bytes) -> None:
        """The job has begun to write its next checkpoint, after it saved the last one."""
        home = self.folders().checkpoint
        saved = (home / "saved.json").lstat().st_mtime_ns
        (home / name).write_bytes(data)
        while (home / name).lstat().st_mtime_ns <= saved:
            (home / name).write_bytes(data)

    def folders(self, replica: str = "r1") -> ReplicaFolders:
        folders = folders_below(self.var / "work" / replica)
        for folder in (folders.code, *folders.writable):
            folder.mkdir(parents=True, exist_ok=True)
        return folders

    def save(self, step: int, **files: bytes) -> None:
        """As a job does: `saved.json` last, by a rename."""
        home = self.folders().checkpoint
        for name, data in files.items():
            (home / name).write_bytes(data)
        (home / ".new").write_text(json.dumps({"step": step}))
        (home / ".new").rename(home / "saved.json")

    def left(self) -> list[Path]:
        return [path for path in (self.var / "outbox").iterdir() if path.name != ".removed"]

    def until(self, condition: Callable[[], object]) -> None:
        for _ in range(400):
            if condition():
                return
            threading.Event().wait(0.05)
        raise AssertionError("it never came")

    def saved(self) -> list[tuple[int, dict[str, bytes]]]:
        """Checkpoints that the portal has, with their steps."""
        return [
            (tree.step, self.portal.read(name))
            for name, tree in list(self.portal.trees.items())
            if tree.kind is TreeKind.CHECKPOINT
        ]


@pytest.fixture
def portal():
    return FilesInMemory()


@pytest.fixture
def node(tmp_path, portal):
    made = Node(tmp_path, portal)
    made.outputs.start()
    yield made
    made.outputs.close()


def test_a_checkpoint_is_sent_while_its_job_runs_and_again_when_it_saves_again(node):
    node.outputs.settle({"r1": RUNNING})
    (node.folders().checkpoint / "weights").write_bytes(b"not yet")
    node.save(10, weights=b"ten")
    node.until(lambda: len(node.saved()) == 1)
    node.save(20, weights=b"twenty")
    node.until(lambda: len(node.saved()) == 2)
    assert [(step, files["weights"]) for step, files in node.saved()] == [
        (10, b"ten"),
        (20, b"twenty"),
    ]


def test_a_checkpoint_whose_files_are_being_overwritten_waits_for_the_next_one(tmp_path, portal):
    """What is sent has the files of one step, however long the job takes to write the next one."""
    node = Node(tmp_path, portal)
    node.save(10, weights=b"ten")
    node.begin_next("weights", b"half of twen")
    other = node.folders("r2").checkpoint
    (other / "saved.json").write_text("{}")
    node.outputs.settle({"r1": RUNNING, "r2": replace(RUNNING, replica="r2")})
    node.outputs.start()
    try:
        node.until(node.saved)
        assert [tree.replica for tree in portal.trees.values()] == ["r2"]
        node.save(20, weights=b"twenty")
        node.until(lambda: len(node.saved()) == 2)
    finally:
        node.outputs.close()
    assert node.saved()[-1][1]["weights"] == b"twenty"


def test_a_job_that_ended_while_it_overwrote_its_checkpoint_sends_no_half(node):
    node.save(10, weights=b"ten")
    node.begin_next("weights", b"half of twen")
    killed = replace(EXITED, exit_code=137)
    node.outputs.settle({"r1": killed})
    node.until(node.woken.is_set)
    assert node.outputs.settle({"r1": killed}) == {"r1": killed}
    assert (node.saved(), node.left()) == ([], [])


def test_what_a_job_wrote_after_its_last_checkpoint_goes_with_it_if_it_succeeded(node):
    node.save(10, weights=b"ten")
    node.begin_next("summary", b"good")
    node.outputs.settle({"r1": EXITED})
    node.until(node.saved)
    assert node.saved()[0][1].keys() == {"saved.json", "summary", "weights"}


@pytest.mark.parametrize("name", ["train.log", "runs/events.out.tfevents.1.host"])
def test_a_job_may_write_its_log_beside_its_checkpoint_at_any_time(node, name):
    (node.folders().checkpoint / "runs").mkdir()
    node.save(10, weights=b"ten")
    node.begin_next(name, b"loss 0.3")
    node.outputs.settle({"r1": RUNNING})
    node.until(node.saved)
    assert name in node.saved()[0][1]


def test_a_job_that_saved_nothing_ends_at_once(node):
    (node.folders().checkpoint / "weights").write_bytes(b"x")
    assert node.outputs.settle({"r1": EXITED}) == {"r1": EXITED}


def test_a_replica_counts_as_running_until_its_last_checkpoint_is_sent(tmp_path, portal):
    node = Node(tmp_path, portal)
    node.save(30, weights=b"last")
    assert node.outputs.settle({"r1": EXITED})["r1"].phase is ContainerPhase.RUNNING
    portal.away = 1
    node.outputs.start()
    try:
        node.until(node.woken.is_set)
    finally:
        node.outputs.close()
    assert [step for step, _ in node.saved()] == [30]
    assert node.outputs.settle({"r1": EXITED}) == {"r1": EXITED}


def test_a_checkpoint_that_the_portal_refuses_holds_nobody_up(node, portal):
    portal.refusal = "the project stores as much as it may"
    node.save(1, weights=b"x")
    node.outputs.settle({"r1": EXITED})
    node.until(node.woken.is_set)
    assert node.outputs.settle({"r1": EXITED}) == {"r1": EXITED}
    assert node.left() == []


def test_a_replica_that_waits_for_its_last_checkpoint_holds_its_devices_for_an_hour(
    tmp_path, portal, monkeypatch
):
    node = Node(tmp_path, portal)
    node.save(30, weights=b"last")
    now = [1_000.0]
    monkeypatch.setattr(outputs_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert node.outputs.settle({"r1": EXITED})["r1"].phase is ContainerPhase.RUNNING
    assert node.outputs.settling == {"r1"}
    now[0] += outputs_module.LAST_LOOK_SECONDS
    assert node.outputs.settle({"r1": EXITED}) == {"r1": EXITED}
    assert node.outputs.settling == frozenset()


def test_a_checkpoint_for_whose_copy_there_is_no_room_is_sent_as_it_is(node, monkeypatch):
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs_module, "copy_tree", no_room)
    node.save(40, weights=b"large")
    node.outputs.settle({"r1": EXITED})
    node.until(node.woken.is_set)
    assert [(step, files["weights"]) for step, files in node.saved()] == [(40, b"large")]
    assert (node.folders().checkpoint / "weights").read_bytes() == b"large"
    assert node.left() == []


def test_without_room_for_a_copy_no_half_of_a_checkpoint_is_sent_either(node, monkeypatch):
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    read = outputs_module.read_tree

    def read_while_the_job_writes(folder: Path) -> FolderTree:
        found = read(folder)
        node.begin_next("weights", b"half of the next one")
        return found

    monkeypatch.setattr(outputs_module, "copy_tree", no_room)
    monkeypatch.setattr(outputs_module, "read_tree", read_while_the_job_writes)
    node.save(40, weights=b"large")
    node.outputs.settle({"r1": replace(EXITED, exit_code=137)})
    node.until(node.woken.is_set)
    assert (node.saved(), node.left()) == ([], [])


def test_a_checkpoint_that_was_fetched_is_not_sent_back(node, portal):
    portal.has_stored({"saved.json": b'{"step": 5}', "w": b"1"}, TreeKind.CHECKPOINT)
    replica = DesiredReplica("r1", "j1", has_checkpoint=True)
    with suppress(InputsAway):
        inputs(portal).deliver(replica, node.folders)
    before = len(portal.trees)
    assert node.outputs.settle({"r1": EXITED}) == {"r1": EXITED}
    node.save(6, w=b"2")
    node.outputs.settle({"r1": RUNNING})
    node.until(lambda: len(portal.trees) == before + 1)
    assert node.saved()[-1][0] == 6


def test_a_part_of_a_checkpoint_is_never_sent_and_a_part_of_an_output_is(node, portal, monkeypatch):
    monkeypatch.setattr(folder_walk, "MAX_TREE_ENTRIES", 2)
    node.save(7, a=b"1", b=b"2")
    node.outputs.settle({"r1": EXITED})
    node.until(node.woken.is_set)
    assert node.saved() == []
    for name in "abc":
        (node.folders().output / name).write_bytes(b"x")
    node.outputs.before_removal("r1")
    node.until(lambda: portal.trees)
    assert (len(portal.read("tree-1")), portal.trees["tree-1"].left_out) == (2, 1)


def test_a_folder_of_millions_is_read_in_part(node, portal, monkeypatch):
    monkeypatch.setattr(folder_walk, "MAX_ENTRIES", 5)
    for number in range(9):
        (node.folders().output / f"{number}").write_bytes(b"x")
    found = read_tree(node.folders().output)
    assert (len(found.files), found.is_cut) == (5, True)


def test_an_output_outlives_the_folders_of_its_replica(node, portal):
    (node.folders().output / "model.bin").write_bytes(b"weights")
    node.outputs.before_removal("r1")
    node.until(lambda: portal.trees)
    assert portal.read("tree-1") == {"model.bin": b"weights"}
    node.until(lambda: node.left() == [])
    node.outputs.before_removal("r1")
    assert len(portal.trees) == 1


def test_the_next_agent_sends_what_the_last_one_did_not(tmp_path, portal):
    first = Node(tmp_path, portal)
    (first.folders().output / "log").write_bytes(b"x")
    first.outputs.before_removal("r1")
    (tmp_path / "outbox/r2/checkpoint.unfinished").mkdir(parents=True)
    second = Node(tmp_path, portal)
    second.outputs.start()
    try:
        second.until(lambda: portal.trees)
    finally:
        second.outputs.close()
    assert portal.trees["tree-1"].replica == "r1"
    assert not (tmp_path / "outbox/r2/checkpoint.unfinished").exists()


def inputs(portal: FilesInMemory) -> ReplicaInputs:
    """Fetches at once, in the caller's thread."""
    return ReplicaInputs(portal, lambda: None, lambda work: work())


def test_a_replica_gets_its_code_and_the_newest_checkpoint(tmp_path, portal):
    code = portal.has_stored({"train.py": b"print()"})
    portal.has_stored({"saved.json": b"{}", "w": b"1"}, TreeKind.CHECKPOINT)
    portal.has_stored({"saved.json": b"{}", "w": b"2"}, TreeKind.CHECKPOINT)
    folders = Node(tmp_path, portal).folders()
    replica = DesiredReplica("r1", "j1", code_tree=code, has_checkpoint=True)
    inputs(portal).deliver(replica, lambda: folders)
    assert (folders.code / "train.py").read_bytes() == b"print()"
    assert (folders.checkpoint / "w").read_bytes() == b"2"
    portal.away = 100
    inputs(portal).deliver(replica, lambda: folders)


def test_a_try_that_was_cut_begins_again(tmp_path, portal):
    code = portal.has_stored({"train.py": b"print()"})
    folders = Node(tmp_path, portal).folders()
    (folders.code / "half").write_bytes(b"")
    (folders.code / "folder").mkdir()
    inputs(portal).deliver(DesiredReplica("r1", "j1", code_tree=code), lambda: folders)
    assert [path.name for path in folders.code.iterdir()] == ["train.py"]


def test_a_job_whose_checkpoint_is_gone_starts_without_it(tmp_path, portal):
    folders = Node(tmp_path, portal).folders()
    inputs(portal).deliver(DesiredReplica("r1", "j1", has_checkpoint=True), lambda: folders)


def test_code_that_is_gone_fails_the_replica_once_and_says_why(tmp_path, portal):
    folders = Node(tmp_path, portal).folders()
    replica, delivery = DesiredReplica("r1", "j1", code_tree="tree-9"), inputs(portal)
    with pytest.raises(InputsAway):
        delivery.deliver(replica, lambda: folders)
    with pytest.raises(RuntimeFailure, match="cannot be fetched"):
        delivery.deliver(replica, lambda: folders)
