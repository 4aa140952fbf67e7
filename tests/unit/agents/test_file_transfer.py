"""Which paths a tree may have, and the messages that carry trees."""

import hashlib
import json

import pytest

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.file_transfer import (
    EMPTY_SHA256,
    MAX_TREE_BODY_BYTES,
    MAX_TREE_ENTRIES,
    HaveRequest,
    TreeCommitRequest,
    TreeFile,
    TreeKind,
    check_tree_path,
    check_tree_paths,
)

HASH = "a" * 64


@pytest.mark.parametrize(
    "path",
    [
        *("a", "a/b.txt", "模型/权重.bin", ".hidden", "...", "a b", "a\nb", "C:\\x", "x" * 255),
        "/".join(["d" * 255] * 4),
    ],
)
def test_a_path_that_a_node_can_write_is_taken(path):
    check_tree_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "a/", "a//b", ".", "..", "../x", "a/../b", "a/./b", "a/.."),
        *("a\0b", "bad\udcff", "x" * 256, "x" * 10_000, "é" * 128, "d/" * 512 + "x"),
    ],
)
def test_any_other_path_is_refused_in_few_words(path):
    with pytest.raises(ContractError) as caught:
        check_tree_path(path)
    assert caught.value.code is ContractErrorCode.INVALID_FIELD
    assert len(caught.value.sentence.encode()) < 500


def test_a_path_stands_once_in_a_tree_and_is_no_folder_of_another():
    check_tree_paths(["a/b", "a/c", "ab", "a.b"])
    for paths in (["a", "a"], ["a/b", "x", "a"], ["a", "a/b/c"]):
        with pytest.raises(ContractError, match=r"twice|a file and a folder"):
            check_tree_paths(paths)


def test_a_commit_comes_back_as_it_went():
    files = (TreeFile("a/b", HASH, 3, executable=True), TreeFile("c", EMPTY_SHA256, 0))
    request = TreeCommitRequest("r-1", TreeKind.CHECKPOINT, files, step=120, left_out=2)
    assert decode(TreeCommitRequest, json.loads(json.dumps(encode(request)))) == request


def test_a_tree_of_common_paths_fits_into_a_body():
    one = encode(TreeFile("x" * 200, HASH, 2**40, executable=True))
    assert len(json.dumps(one)) * MAX_TREE_ENTRIES < MAX_TREE_BODY_BYTES


@pytest.mark.parametrize("sha256", ["", "A" * 64, "a" * 63, "../" + "a" * 61, "a" * 64 + "\n"])
def test_a_hash_is_64_small_hexadecimal_digits(sha256):
    with pytest.raises(ContractError):
        decode(HaveRequest, {"replica": "r", "files": [{"sha256": sha256, "size": 1}]})


def test_the_hash_of_an_empty_file_is_known():
    assert hashlib.sha256(b"").hexdigest() == EMPTY_SHA256
