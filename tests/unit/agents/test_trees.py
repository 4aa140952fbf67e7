"""Trees of folders that jobs write, and folders from trees: nothing outside is read or written."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import MAX_FILE_CHUNK_BYTES, TreeCommitRequest, TreeKind
from agents.files.fetching import TreeAbsent, fetch_tree
from agents.files.file_calls import PortalAway
from agents.files.folder_walk import MAX_DEPTH
from agents.files.sending import send_tree
from agents.files.tree_reading import FolderChanged, copy_tree, read_tree
from agents.files.tree_writing import FolderWriter
from tests.support.files_in_memory import FilesInMemory


def no_pause(seconds: float) -> None:
    """Time does not matter here."""


def filled(folder: Path, **files: bytes) -> Path:
    """`a__b=b"x"` writes a/b."""
    for name, data in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def write(writer: FolderWriter, path: str) -> None:
    with writer.new_file(path, executable=False) as file:
        file.write(b"x")


def test_a_tree_has_the_regular_files_with_their_contents(tmp_path):
    filled(tmp_path, model=b"weights", logs__a=b"", logs__b=b"x")
    (tmp_path / "model").chmod(0o755)
    (tmp_path / "empty").mkdir()
    found = read_tree(tmp_path)
    assert [(one.path, one.size, one.executable) for one in found.files] == [
        ("logs/a", 0, False),
        ("logs/b", 1, False),
        ("model", 7, True),
    ]
    assert found.files[2].sha256 == hashlib.sha256(b"weights").hexdigest()
    assert found.left_out == 0


def test_what_is_no_regular_file_is_left_out_and_counted(tmp_path):
    outside = filled(tmp_path / "outside", secret=b"secret")
    folder = filled(tmp_path / "folder", kept=b"kept")
    (folder / "link").symlink_to(outside / "secret")
    (folder / "folder-link").symlink_to(outside)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    (folder / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    with (folder / "hollow").open("wb") as hollow:
        hollow.truncate(1 << 40)
    found = read_tree(folder)
    assert [one.path for one in found.files] == ["kept"]
    assert found.left_out == 7


def test_folders_that_are_too_deep_are_left_out(tmp_path):
    deep = tmp_path
    for _ in range(MAX_DEPTH + 3):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"")
    assert read_tree(tmp_path).left_out == 1


def test_a_folder_that_is_a_link_itself_is_not_read(tmp_path):
    filled(tmp_path / "outside", secret=b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        read_tree(tmp_path / "link")


def test_a_file_that_changes_while_it_is_read_begins_again(tmp_path, monkeypatch):
    filled(tmp_path, log=b"a" * 100)
    read = os.read

    def read_while_it_grows(descriptor: int, size: int) -> bytes:
        with (tmp_path / "log").open("ab") as file:
            file.write(b"b")
        monkeypatch.setattr(os, "read", read)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", read_while_it_grows)
    with pytest.raises(FolderChanged):
        read_tree(tmp_path)
    assert read_tree(tmp_path).files[0].size == 101


def test_a_copy_has_the_same_tree(tmp_path):
    folder = filled(tmp_path / "folder", a=b"1", b__c=b"2")
    (folder / "link").symlink_to("/etc/passwd")
    (tmp_path / "copy").mkdir()
    found = copy_tree(folder, tmp_path / "copy")
    assert found.left_out == 1
    assert read_tree(tmp_path / "copy").files == found.files


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a//b", "a/./b", "", "a\0b"])
def test_a_path_that_leaves_the_folder_is_not_written(tmp_path, path):
    with FolderWriter(tmp_path) as writer, pytest.raises(ContractError):
        write(writer, path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").symlink_to(tmp_path / "outside")
    with FolderWriter(folder) as writer, pytest.raises(NotADirectoryError):
        write(writer, "a/b")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_tree_is_sent_in_chunks_and_only_what_the_portal_lacks(tmp_path):
    large = os.urandom(2 * MAX_FILE_CHUNK_BYTES + 5)
    filled(tmp_path, large=large, twice=large, empty=b"", small=b"x")
    portal = FilesInMemory()
    request = TreeCommitRequest("r", TreeKind.OUTPUT, read_tree(tmp_path).files)
    tree = send_tree(portal, tmp_path, request, no_pause)
    assert portal.read(tree) == {"large": large, "twice": large, "empty": b"", "small": b"x"}
    assert portal.puts == 3 + 1 + 1
    send_tree(portal, tmp_path, request, no_pause)
    assert portal.puts == 5


@pytest.mark.parametrize(
    "answer",
    [
        PortalAway("no room for two"),
        ContractError(ContractErrorCode.OFFSET_MISMATCH, "", "", {"expected_offset": 0}),
    ],
)
def test_a_chunk_that_was_sent_ahead_and_not_taken_comes_again(tmp_path, answer):
    class OneAtATime(FilesInMemory):
        answers = [answer]

        def put(self, replica, content, offset, data):
            if offset == MAX_FILE_CHUNK_BYTES and self.answers:
                raise self.answers.pop()
            return super().put(replica, content, offset, data)

    large = os.urandom(3 * MAX_FILE_CHUNK_BYTES)
    filled(tmp_path, large=large)
    request = TreeCommitRequest("r", TreeKind.OUTPUT, read_tree(tmp_path).files)
    portal = OneAtATime()
    assert portal.read(send_tree(portal, tmp_path, request, no_pause)) == {"large": large}


def test_a_transfer_that_was_cut_goes_on_where_it_was(tmp_path):
    large = os.urandom(3 * MAX_FILE_CHUNK_BYTES)
    filled(tmp_path, large=large)
    request = TreeCommitRequest("r", TreeKind.OUTPUT, read_tree(tmp_path).files)
    portal, chunk = FilesInMemory(), large[:MAX_FILE_CHUNK_BYTES]
    portal.contents[request.files[0].sha256] = chunk
    portal.away = 1
    with pytest.raises(PortalAway):
        send_tree(portal, tmp_path, request, no_pause)
    assert portal.read(send_tree(portal, tmp_path, request, no_pause)) == {"large": large}
    assert portal.puts == 2


def test_a_tree_is_fetched_page_by_page_while_the_portal_comes_and_goes(tmp_path):
    portal = FilesInMemory()
    files = {"a.py": b"1", "b/c.sh": b"2", "b/d": b"", "e": os.urandom(MAX_FILE_CHUNK_BYTES + 1)}
    tree = portal.has_stored(files)
    portal.away = 3
    assert fetch_tree(portal, "r", tree, tmp_path, pause=no_pause) == 4
    got = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert got == files
    assert os.access(tmp_path / "b/c.sh", os.X_OK)
    assert (tmp_path / "a.py").stat().st_mode & 0o777 == 0o644


def test_a_file_that_arrives_otherwise_than_it_was_stored_is_refused(tmp_path):
    portal = FilesInMemory()
    tree = portal.has_stored({"a": b"right"})
    (name,) = portal.contents
    portal.contents[name] = b"wrong"
    with pytest.raises(ContractError, match="did not arrive"):
        fetch_tree(portal, "r", tree, tmp_path, pause=no_pause)


def test_a_tree_that_is_gone_says_so(tmp_path):
    with pytest.raises(TreeAbsent):
        fetch_tree(FilesInMemory(), "r", "tree-9", tmp_path, pause=no_pause)
