"""Whatever a job puts into its folders, only its own regular files are read, and a tree comes back
as it was."""

import hashlib
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.errors import ContractError
from agents.contract.file_transfer import TreeCommitRequest, TreeKind, check_tree_paths
from agents.files.fetching import fetch_tree
from agents.files.sending import send_tree
from agents.files.tree_reading import FolderChanged, read_tree
from agents.files.tree_writing import FolderWriter
from tests.support.examples import examples
from tests.support.files_in_memory import FilesInMemory

SECRET = b"not of the job"
# Few names, so that they meet; some are no UTF-8, and some need care.
NAMES = st.sampled_from(
    [b"a", b"b", b"saved.json", b"-rf", b"\n", b" ", b"...", b"\xff", b"caf\xc3\xa9", b"n" * 255]
)
FILE = st.tuples(st.just("file"), st.binary(max_size=40))
ODD = st.tuples(st.sampled_from(["link in", "link out", "link up", "pipe", "socket"]), st.just(b""))
FOLDERS = st.recursive(
    st.one_of(FILE, FILE, ODD),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=9,
)
# Paths as a portal that is not to be trusted might send them.
PARTS = st.sampled_from(["a", "b", "..", ".", "", "x" * 256, "\0", "\udc80", "c"])
PATHS = st.lists(PARTS, max_size=4).map("/".join)


@contextmanager
def a_place() -> Iterator[tuple[Path, Path]]:
    """A folder of a job, and beside it one that is not."""
    with tempfile.TemporaryDirectory() as home:
        job, outside = Path(home, "job"), Path(home, "outside")
        job.mkdir()
        outside.mkdir()
        (outside / "a").write_bytes(SECRET)
        yield job, outside


def fill(folder: Path, entries: dict, outside: Path) -> None:
    for name, entry in entries.items():
        path = folder / os.fsdecode(name)
        if isinstance(entry, dict):
            path.mkdir()
            fill(path, entry, outside)
            continue
        kind, data = entry
        if kind == "file":
            path.write_bytes(data)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            # Its path may be longer than what `bind` takes.
            os.mknod(path, stat.S_IFSOCK | 0o600)
        else:
            path.symlink_to({"link in": "a", "link out": outside / "a", "link up": ".."}[kind])


def own_files(entries: dict, prefix: bytes = b"") -> tuple[dict[str, bytes], int]:
    """The regular files by path, and how many entries no tree has."""
    files: dict[str, bytes] = {}
    odd = 0
    for name, entry in entries.items():
        path = prefix + name
        if b"\xff" in name:
            odd += 1
        elif isinstance(entry, dict):
            inner, more = own_files(entry, path + b"/")
            files |= inner
            odd += more
        elif entry[0] == "file":
            files[path.decode()] = entry[1]
        else:
            odd += 1
    return files, odd


@examples(100)
@given(st.dictionaries(NAMES, FOLDERS, max_size=5))
def test_a_tree_has_the_jobs_own_files_and_comes_back_as_it_was(entries):
    with a_place() as (job, outside):
        fill(job, entries, outside)
        files, odd = own_files(entries)
        found = read_tree(job)
        digests = {one.path: one.sha256 for one in found.files}
        assert digests == {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        assert found.left_out == odd
        check_tree_paths(digests)

        portal = FilesInMemory()
        tree = send_tree(portal, job, TreeCommitRequest("r", TreeKind.OUTPUT, found.files))
        back = job.parent / "back"
        back.mkdir()
        fetch_tree(portal, "r", tree, back)
        assert read_tree(back).files == found.files


@examples(100)
@given(st.lists(PATHS, min_size=1, max_size=5))
def test_no_path_writes_outside_of_its_folder(paths):
    with a_place() as (job, outside):
        (job / "c").symlink_to(outside)
        with FolderWriter(job) as writer:
            for path in paths:
                try:
                    with writer.new_file(path, executable=True) as file:
                        file.write(b"x")
                except (ContractError, OSError):
                    continue
        assert sorted(path.name for path in job.parent.iterdir()) == ["job", "outside"]
        assert [path.name for path in outside.iterdir()] == ["a"]
        assert (outside / "a").read_bytes() == SECRET


@pytest.mark.parametrize("part", ["folder", "folder/a"])
def test_a_part_that_becomes_a_link_while_it_is_read_leads_nowhere(part):
    with a_place() as (job, outside):
        (job / "folder").mkdir()
        (job / "folder/a").write_bytes(b"inside")
        (job / "aside").mkdir()
        path, is_over = job / part, threading.Event()
        target = outside if path.is_dir() else outside / "a"

        def swap() -> None:
            while not is_over.is_set():
                path.rename(job / "aside/own")
                path.symlink_to(target)
                path.unlink()
                (job / "aside/own").rename(path)

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            seen = set[str]()
            for _ in range(300):
                try:
                    seen |= {one.sha256 for one in read_tree(job).files}
                except FolderChanged:
                    continue
        finally:
            is_over.set()
            swapping.join()
        assert hashlib.sha256(SECRET).hexdigest() not in seen
        assert seen <= {hashlib.sha256(b"inside").hexdigest()}
