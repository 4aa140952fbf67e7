"""Which files of a folder `tessera submit --sync` sends."""

import hashlib
import os
from pathlib import Path

import pytest

from agents.contract import file_transfer
from portal.cli import code_folder, code_upload
from portal.cli.code_folder import read_code_folder
from portal.cli.exit_codes import CommandFailed


def write(folder: Path, **files: str) -> Path:
    """`a__b_py="x"` writes a/b.py, a leading `dot_` is a dot."""
    for name, text in files.items():
        path = folder / name.replace("dot_", ".").replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def sent(folder: Path) -> list[str]:
    return [each.path for each in read_code_folder(folder).files]


def refusal(folder: Path) -> CommandFailed:
    with pytest.raises(CommandFailed) as refused:
        read_code_folder(folder)
    return refused.value


def test_a_file_is_named_by_its_path_and_content(tmp_path: Path) -> None:
    write(tmp_path, train_py="print(1)\n", model__net_py="")
    (tmp_path / "train.py").chmod(0o755)
    net, train = read_code_folder(tmp_path).files
    assert (net.path, net.size, net.executable) == ("model/net.py", 0, False)
    assert (train.path, train.size, train.executable) == ("train.py", 9, True)
    assert train.sha256 == hashlib.sha256(b"print(1)\n").hexdigest()


def test_what_git_and_tools_keep_is_not_sent(tmp_path: Path) -> None:
    write(
        tmp_path, a_py="", dot_git__config="", __pycache____a="", dot_venv__b_py="", c__dot_git=""
    )
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("")
    assert "a.py" in sent(tmp_path)
    assert not [path for path in sent(tmp_path) if path.startswith((".git/", ".venv/", "__pyc"))]


def test_a_deeper_ignore_file_counts_more_and_ours_more_than_gits(tmp_path: Path) -> None:
    write(
        tmp_path,
        dot_gitignore="*.log\n/data/\n*.bin\n",
        dot_tesseraignore="!small.bin\n",
        a_py="",
        b="",
        runs__dot_gitignore="!kept.log\n",
        data__x="",
        runs__data__y="",
    )
    for name in ("a.log", "small.bin", "large.bin", "runs/kept.log", "runs/other.log"):
        (tmp_path / name).write_text("")
    assert sent(tmp_path) == [
        ".gitignore",
        ".tesseraignore",
        "a.py",
        "b",
        "runs/.gitignore",
        "runs/data/y",
        "runs/kept.log",
        "small.bin",
    ]


def test_links_and_pipes_are_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path, a_py="")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc", target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    found = read_code_folder(tmp_path)
    assert [each.path for each in found.files] == ["a.py"]
    assert found.left_out == ("folder", "link", "pipe")


def test_a_folder_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent").code == "folder_absent"
    assert refusal(tmp_path).code == "folder_empty"
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("")
    assert "UTF-8" in refusal(tmp_path).sentence


def test_a_folder_that_is_too_large_says_what_takes_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_folder, "MAX_FOLDER_BYTES", 100)
    write(tmp_path, a_py="x", data__one="x" * 60, data__two="x" * 60)
    refused = refusal(tmp_path)
    assert refused.code == "folder_too_large"
    assert "Largest: data" in refused.sentence and ".tesseraignore" in refused.sentence
    write(tmp_path, dot_tesseraignore="data\n")
    assert sent(tmp_path) == [".tesseraignore", "a.py"]


def test_the_limits_are_those_of_the_portal() -> None:
    """The command stands alone, so it has them once more."""
    assert code_folder.MAX_FILES == file_transfer.MAX_TREE_ENTRIES
    assert code_folder.MAX_PATH_BYTES == file_transfer.MAX_TREE_PATH_BYTES
    assert code_upload.MAX_FILE_CHUNK_BYTES == file_transfer.MAX_FILE_CHUNK_BYTES
    assert code_upload.MAX_HAVE_FILES == file_transfer.MAX_HAVE_FILES
