"""Counts as JSON: read as they were written, or not at all."""

import json
from dataclasses import replace

import pytest

from scheduler.core.availability.cluster import ClusterAvailability, cluster_availability
from scheduler.core.availability.document import availability_as_json, availability_from_json
from tests.support.snapshots import a_cluster, a_gpu, a_node, a_share


@pytest.fixture
def counted() -> ClusterAvailability:
    """A GPU with a share of one project, an empty one, and a node without GPUs."""
    shared = a_gpu(a_share(25, 10_000))
    return cluster_availability(a_cluster(a_node(shared, a_gpu()), a_node(name="empty")))


def changed(counted: ClusterAvailability, *path, to) -> str:
    """The document with one value replaced."""
    document = part = json.loads(availability_as_json(counted))
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to
    return json.dumps(document)


def test_it_is_read_as_it_was_written(counted):
    read = availability_from_json(availability_as_json(counted), counted.board_table.get)
    assert read.share_room and "empty" in read.nodes
    assert read == replace(counted, may_lag=True)


def test_an_unknown_board_is_refused(counted):
    with pytest.raises(ValueError, match="no board 'H200-141GB' is known"):
        availability_from_json(availability_as_json(counted), lambda key: None)


BOARD = ("boards", "H200-141GB")
DEFECTS = {
    "another version": (("version",), 1),
    "no time": (("at",), None),
    "a time in words": (("at",), "now"),
    "no nodes": (("nodes",), []),
    "nodes without boards": (("nodes", "empty"), 3),
    "a board of no node": (("boards",), {}),
    "a part too few": (BOARD, [[1, 1, 0, 0, 0], {}]),
    "a number too few": ((*BOARD, 0), [1, 1, 0, 0]),
    "less than nothing": ((*BOARD, 0, 0), -1),
    "a part of a GPU": ((*BOARD, 0, 0), 0.5),
    "true": ((*BOARD, 0, 0), True),
    "an unknown category": ((*BOARD, 1), {"lent": 56_000}),
    "units in words": ((*BOARD, 1), {"free": "all"}),
    "an unknown kind": ((*BOARD, 2), {"tpu:": [1, 0, 0, 1]}),
    "devices in words": ((*BOARD, 2), {"gpu:": "many"}),
    "shares of an unknown node": (("share_room",), [["vision", "H200-141GB", "n9", 1]]),
    "shares of an unknown board": (("share_room",), [["vision", "T4-16GB", "empty", 1]]),
    "shares of nobody": (("share_room",), [[None, "H200-141GB", "empty", 1]]),
    "shares on a list": (("share_room",), [["vision", "H200-141GB", [], 1]]),
    "shares without a number": (("share_room",), [["vision", "H200-141GB", "empty"]]),
    "shares that are no list": (("share_room",), {"vision": 1}),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_document_with_a_defect_is_refused(counted, defect):
    path, value = DEFECTS[defect]
    with pytest.raises(ValueError, match=r"."):
        availability_from_json(changed(counted, *path, to=value), counted.board_table.get)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"version": 1}'])
def test_what_is_no_document_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        availability_from_json(text, {}.get)
