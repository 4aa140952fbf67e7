"""Counts as JSON and back: written by the planning worker, read by every web process.

Short lists of numbers, as a thousand nodes have ten thousand counts. A reader trusts nothing in a
document: one that is not exactly as written here is refused as a whole.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from functools import lru_cache
from typing import Any

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from scheduler.core.availability.cluster import ClusterAvailability, NodeAvailability
from scheduler.core.availability.counts import (
    Availability,
    Category,
    DeviceCount,
    DeviceKind,
    availability_sum,
)
from scheduler.core.quota.promises import QuotaPromise

# Of the layout below. Another version is refused, as by a process that is older than the worker.
VERSION = 2
CATEGORIES = {str(each): each for each in Category}


def availability_as_json(cluster: ClusterAvailability) -> str:
    document = {
        "version": VERSION,
        "at": cluster.at,
        "boards": _boards_data(cluster.boards),
        "nodes": {name: _boards_data(node.boards) for name, node in cluster.nodes.items()},
        "share_room": [[*key, count] for key, count in sorted(cluster.share_room.items())],
        "promises": [[*each] for each in map(astuple, cluster.promises)],
    }
    return json.dumps(document, separators=(",", ":"))


def availability_from_json(
    text: str, find_board: Callable[[str], Board | None]
) -> ClusterAvailability:
    """`find_board`: the board with a key. Raises ValueError for a document that is not as above, or
    names an unknown board."""
    document = _object(json.loads(text))
    if document.get("version") != VERSION:
        raise ValueError(f"version {document.get('version')!r}, not {VERSION}")
    boards = _boards(document.get("boards"))
    found = ClusterAvailability(
        at=_numbers([document.get("at")], 1)[0],
        nodes={
            name: NodeAvailability(_boards(data))
            for name, data in _object(document.get("nodes")).items()
        },
        boards=boards,
        share_room=Counter(),
        board_table={key: _known(find_board(key), key) for key in boards},
        total=availability_sum(boards.values()),
        promises=tuple(map(_promise, _list(document.get("promises"), 5))),
        may_lag=True,
    )
    for row in _list(document.get("share_room"), 4):
        project, board, node = map(_text, row[:3])
        if node not in found.nodes or board not in found.nodes[node].boards:
            raise ValueError(f"shares of {board!r} on {node!r}, which are not counted")
        found.share_room[project, board, node] = _numbers(row[3:], 1)[0]
    if any(not boards.keys() >= node.boards.keys() for node in found.nodes.values()):
        raise ValueError("a node has a board that the cluster does not have")
    return found


def _boards_data(boards: dict[str, Availability]) -> dict[str, Any]:
    return {key: _counts_data(counts) for key, counts in boards.items()}


def _counts_data(counts: Availability) -> list[Any]:
    gpus = [counts.gpus, counts.in_service, counts.out_of_service, counts.on_unavailable_nodes]
    devices = {
        f"{kind.kind}:{kind.profile}": [count.ready, count.carvable, count.recarvable, count.total]
        for kind, count in counts.devices.items()
    }
    return [[*gpus, counts.idle_slices], counts.units, devices]


def _boards(data: object) -> dict[str, Availability]:
    return {key: _counts(row) for key, row in _object(data).items()}


def _counts(row: object) -> Availability:
    if not (isinstance(row, list) and len(row) == 3):
        raise ValueError("counts are three parts")
    total, in_service, out_of_service, on_unavailable_nodes, idle_slices = _numbers(row[0], 5)
    units = _object(row[1])
    amounts = _numbers([*units.values()], len(units))
    return Availability(
        gpus=total,
        in_service=in_service,
        out_of_service=out_of_service,
        on_unavailable_nodes=on_unavailable_nodes,
        idle_slices=idle_slices,
        units=Counter(dict(zip(map(_category, units), amounts, strict=True))),
        devices={
            _kind(name): DeviceCount(*_numbers(numbers, 4))
            for name, numbers in _object(row[2]).items()
        },
    )


@lru_cache(1_024)
def _kind(name: str) -> DeviceKind:
    """Cached: a thousand nodes name the same few dozen."""
    kind, _, profile = name.partition(":")
    return DeviceKind(SliceKind(kind), profile)


def _category(name: str) -> Category:
    return CATEGORIES.get(name) or Category(name)


def _known(board: Board | None, key: str) -> Board:
    if board is None:
        raise ValueError(f"no board {key!r} is known")
    return board


def _object(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError("not an object")
    return data


def _list(data: object, length: int) -> list[list[Any]]:
    """Rows of `length` values."""
    if not isinstance(data, list):
        raise ValueError("not a list")
    if any(not isinstance(row, list) or len(row) != length for row in data):
        raise ValueError(f"a row is {length} values")
    return data


def _promise(row: list[Any]) -> QuotaPromise:
    job, project, user, board = map(_text, row[:4])
    return QuotaPromise(job, project, user, board, _numbers(row[4:], 1)[0])


def _numbers(row: object, count: int) -> list[int]:
    if not (isinstance(row, list) and len(row) == count):
        raise ValueError(f"not {count} numbers")
    for number in row:
        if type(number) is not int or number < 0:
            raise ValueError("not a count")
    return row


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise ValueError("not a text")
    return data
