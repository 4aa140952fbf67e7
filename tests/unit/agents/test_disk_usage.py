"""How much of its disk a replica uses, as the agent finds by walking through its folders."""

import os

import pytest

from agents.workspace.disk_usage import MIN_ENTRY_BYTES, used_bytes

NO_LIMIT = 1 << 60


def test_files_count_with_their_blocks_in_folders_of_any_depth(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "data").write_bytes(b"x" * (1 << 20))
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    used = used_bytes([tmp_path], NO_LIMIT)
    assert 1 << 20 <= used <= (1 << 20) + 8 * MIN_ENTRY_BYTES


def test_empty_files_count_and_names_of_one_file_count_once(tmp_path):
    for n in range(100):
        (tmp_path / str(n)).touch()
    assert used_bytes([tmp_path], NO_LIMIT) == 100 * MIN_ENTRY_BYTES
    other = tmp_path / "other"
    other.mkdir()
    (other / "data").write_bytes(b"x" * (1 << 20))
    (other / "again").hardlink_to(other / "data")
    assert used_bytes([other], NO_LIMIT) == pytest.approx(1 << 20, abs=MIN_ENTRY_BYTES)


def test_what_a_link_leads_to_does_not_count(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "data").write_bytes(b"x" * (1 << 20))
    (folder / "link").symlink_to(outside)
    (folder / "data").symlink_to(outside / "data")
    assert used_bytes([folder, folder / "link"], NO_LIMIT) <= 2 * MIN_ENTRY_BYTES


def test_a_walk_ends_once_it_is_beyond_the_limit_and_a_folder_that_is_gone_is_empty(tmp_path):
    for n in range(50):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "data").write_bytes(b"x" * 10_000)
    found = used_bytes([tmp_path], 300_000)
    assert 300_000 < found < 400_000
    assert used_bytes([tmp_path / "gone"], 0) == 0
