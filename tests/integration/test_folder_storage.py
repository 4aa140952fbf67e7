"""Objects in a folder: bytes as they are, and memory that goes past the page cache."""

import errno
import fcntl
import mmap
import os
import stat

import pytest

from portal.storage.errors import StoreUnavailable
from portal.storage.folder import BLOCK_BYTES, FolderStorage
from portal.storage.objects import ObjectStore

NAME = "files/1/object"
WHOLE = bytes(range(256)) * 64


@pytest.fixture
def store(tmp_path):
    return ObjectStore("folder:x", str(tmp_path), FolderStorage(tmp_path), (OSError,))


def memory(data: bytes, start: int = 0) -> memoryview:
    """`start`: how far behind the beginning of a page."""
    pages = memoryview(mmap.mmap(-1, 1 << 20))
    pages[start : start + len(data)] = data
    return pages[start : start + len(data)]


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 5])
@pytest.mark.parametrize("make", [bytes, memory, lambda data: memory(data, start=7)])
def test_an_object_is_what_was_put_whatever_its_size_and_place(store, tmp_path, size, make):
    store.put(NAME, make(WHOLE[:size]))
    assert store.get(NAME, 0, 1 << 20) == WHOLE[:size]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o640


def test_a_file_system_that_writes_nothing_directly_gets_it_as_usual(store, monkeypatch):
    real = fcntl.fcntl

    def no_direct(descriptor, command, flags=0):
        if command == fcntl.F_SETFL and flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", no_direct)
    store.put(NAME, memory(WHOLE))
    assert store.get(NAME, 0, 1 << 20) == WHOLE


def test_a_disk_that_takes_a_part_of_a_direct_write_is_asked_for_the_rest(store, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:BLOCK_BYTES]))
    store.put(NAME, memory(WHOLE[:-5]))
    monkeypatch.undo()
    assert store.get(NAME, 0, 1 << 20) == WHOLE[:-5]


def test_a_full_disk_leaves_no_object_behind(store, tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreUnavailable):
        store.put(NAME, memory(WHOLE))
    assert not (tmp_path / NAME).exists()
