"""What is free, from REST's nodes and GPUs. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
READY = "ready"


@dataclass
class DeviceOffer:
    """Pieces of one kind that are there now."""

    model: str
    kind: str
    profile: str
    memory_mib: int
    free: int = 0
    all: int = 0
    nodes: set[str] = field(default_factory=set)

    def row(self) -> dict[str, Any]:
        return vars(self) | {"nodes": sorted(self.nodes)}


def takes_work(node: Row | None) -> bool:
    return bool(node and node["status"] == "online" and node["schedulable"])


def is_usable(gpu: Row) -> bool:
    return gpu["health"] == "ok" and not gpu["busy"]


def is_gpu_free(gpu: Row) -> bool:
    """Nobody holds any part of it: a whole GPU, or whatever is carved of it."""
    return is_usable(gpu) and not any(piece["held"] for piece in gpu["slices"])


def free_slices(gpu: Row) -> list[Row]:
    """Slices that are carved and that nobody holds."""
    if not is_usable(gpu):
        return []
    return [
        piece
        for piece in gpu["slices"]
        if piece["kind"] != "gpu"
        and piece["status"] == READY
        and not piece["held"]
        and not piece["busy"]
    ]


def node_rows(nodes: Iterable[Row], gpus: Iterable[Row]) -> list[dict[str, Any]]:
    """Each node with what is free on it."""
    by_node: dict[str, list[Row]] = {}
    for gpu in gpus:
        by_node.setdefault(str(gpu["node"]), []).append(gpu)
    return [_node_row(node, by_node.get(str(node["name"]), [])) for node in nodes]


def device_offers(
    nodes: Iterable[Row], gpus: Iterable[Row], min_memory_mib: int = 0
) -> list[dict[str, Any]]:
    """What could be had now, by model and kind, smallest first. Only what has so much memory."""
    open_nodes = {str(node["name"]) for node in nodes if takes_work(node)}
    found: dict[tuple[str, str, str, int], DeviceOffer] = {}
    for gpu in gpus:
        node = str(gpu["node"])
        is_there = node in open_nodes
        _count(found, gpu, ("gpu", "", gpu["memory_mib"]), is_there and is_gpu_free(gpu))
        free = {id(piece) for piece in free_slices(gpu)}
        for piece in gpu["slices"]:
            if piece["kind"] != "gpu" and piece["status"] == READY:
                what = (piece["kind"], _profile(piece), piece["memory_mib"])
                _count(found, gpu, what, is_there and id(piece) in free)
    rows = [offer for offer in found.values() if offer.memory_mib >= min_memory_mib]
    rows.sort(key=lambda offer: (offer.memory_mib, offer.model, offer.kind, offer.profile))
    return [offer.row() for offer in rows]


def gpu_maps(gpus: Iterable[Row]) -> str:
    """Each GPU as its memory slots: # held, - carved and free, . not carved, x out of work."""
    return " ".join(_cells(gpu) for gpu in gpus)


def _node_row(node: Row, gpus: list[Row]) -> dict[str, Any]:
    free = [piece for gpu in gpus if takes_work(node) for piece in free_slices(gpu)]
    words: dict[str, int] = {}
    for piece in free:
        words[_profile(piece)] = words.get(_profile(piece), 0) + 1
    return {
        **node,
        "models": sorted({str(gpu["board"]) for gpu in gpus}),
        "free_gpus": sum(1 for gpu in gpus if takes_work(node) and is_gpu_free(gpu)),
        "free_slices": dict(sorted(words.items())),
        "faulted_gpus": sum(1 for gpu in gpus if gpu["health"] != "ok"),
        "picture": gpu_maps(sorted(gpus, key=lambda gpu: int(gpu["index"]))),
    }


def _count(
    found: dict[tuple[str, str, str, int], DeviceOffer],
    gpu: Row,
    what: tuple[str, str, int],
    is_free: bool,
) -> None:
    key = (str(gpu["board"]), *what)
    offer = found.setdefault(key, DeviceOffer(*key))
    offer.all += 1
    if is_free:
        offer.free += 1
        offer.nodes.add(str(gpu["node"]))


def _profile(piece: Row) -> str:
    return str(piece["profile"] or (f"{piece['threads']}%" if piece["threads"] else piece["kind"]))


def _cells(gpu: Row) -> str:
    if gpu["health"] != "ok":
        return "[xxxxxxxx]"
    if any(piece["kind"] == "gpu" and piece["held"] for piece in gpu["slices"]):
        return "[########]"
    if shares := [piece for piece in gpu["slices"] if piece["kind"] == "mps"]:
        return f"[mps {sum(int(piece['threads']) for piece in shares if piece['held'])}%]"
    cells = ["."] * 8
    for piece in gpu["slices"]:
        if piece["kind"] == "mig":
            for slot in range(int(piece["start"]), min(8, int(piece["start"] + piece["size"]))):
                cells[slot] = "#" if piece["held"] else "-"
    return f"[{''.join(cells)}]"
