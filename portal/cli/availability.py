"""What is free in the cluster, from the nodes and GPUs of REST. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
READY = "ready"


@dataclass
class DeviceOffer:
    """The devices of one model, kind and profile."""

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
    """Whether no part of the GPU is in use."""
    return is_usable(gpu) and not any(slice_["held"] for slice_ in gpu["slices"])


def free_slices(gpu: Row) -> list[Row]:
    """MIG slices and MPS shares that exist and are not in use."""
    if not is_usable(gpu):
        return []
    return [
        slice_
        for slice_ in gpu["slices"]
        if slice_["kind"] != "gpu"
        and slice_["status"] == READY
        and not slice_["held"]
        and not slice_["busy"]
    ]


def node_rows(nodes: Iterable[Row], gpus: Iterable[Row]) -> list[dict[str, Any]]:
    """Each node with its free devices."""
    by_node: dict[str, list[Row]] = {}
    for gpu in gpus:
        by_node.setdefault(str(gpu["node"]), []).append(gpu)
    return [_node_row(node, by_node.get(str(node["name"]), [])) for node in nodes]


def device_offers(
    nodes: Iterable[Row], gpus: Iterable[Row], min_memory_mib: int = 0
) -> list[dict[str, Any]]:
    """Free devices with at least `min_memory_mib`, by model and kind, smallest first."""
    open_nodes = {str(node["name"]) for node in nodes if takes_work(node)}
    offers: dict[tuple[str, str, str, int], DeviceOffer] = {}
    for gpu in gpus:
        node = str(gpu["node"])
        node_takes_work = node in open_nodes
        _count(offers, gpu, ("gpu", "", gpu["memory_mib"]), node_takes_work and is_gpu_free(gpu))
        free = {id(slice_) for slice_ in free_slices(gpu)}
        for slice_ in gpu["slices"]:
            if slice_["kind"] != "gpu" and slice_["status"] == READY:
                device = (slice_["kind"], _profile(slice_), slice_["memory_mib"])
                _count(offers, gpu, device, node_takes_work and id(slice_) in free)
    rows = [offer for offer in offers.values() if offer.memory_mib >= min_memory_mib]
    rows.sort(key=lambda offer: (offer.memory_mib, offer.model, offer.kind, offer.profile))
    return [offer.row() for offer in rows]


def gpu_maps(gpus: Iterable[Row]) -> str:
    """Each GPU as its memory slots: # in use, - carved and free, . not carved, x out of service."""
    return " ".join(_cells(gpu) for gpu in gpus)


def _node_row(node: Row, gpus: list[Row]) -> dict[str, Any]:
    free = [slice_ for gpu in gpus if takes_work(node) for slice_ in free_slices(gpu)]
    profiles: dict[str, int] = {}
    for slice_ in free:
        profiles[_profile(slice_)] = profiles.get(_profile(slice_), 0) + 1
    return {
        **node,
        "models": sorted({str(gpu["board"]) for gpu in gpus}),
        "free_gpus": sum(1 for gpu in gpus if takes_work(node) and is_gpu_free(gpu)),
        "free_slices": dict(sorted(profiles.items())),
        "faulted_gpus": sum(1 for gpu in gpus if gpu["health"] != "ok"),
        "picture": gpu_maps(sorted(gpus, key=lambda gpu: int(gpu["index"]))),
    }


def _count(
    offers: dict[tuple[str, str, str, int], DeviceOffer],
    gpu: Row,
    device: tuple[str, str, int],
    is_free: bool,
) -> None:
    key = (str(gpu["board"]), *device)
    offer = offers.setdefault(key, DeviceOffer(*key))
    offer.all += 1
    if is_free:
        offer.free += 1
        offer.nodes.add(str(gpu["node"]))


def _profile(slice_: Row) -> str:
    return str(
        slice_["profile"] or (f"{slice_['threads']}%" if slice_["threads"] else slice_["kind"])
    )


def _cells(gpu: Row) -> str:
    if gpu["health"] != "ok":
        return "[xxxxxxxx]"
    if any(slice_["kind"] == "gpu" and slice_["held"] for slice_ in gpu["slices"]):
        return "[########]"
    if shares := [slice_ for slice_ in gpu["slices"] if slice_["kind"] == "mps"]:
        return f"[mps {sum(int(slice_['threads']) for slice_ in shares if slice_['held'])}%]"
    cells = ["."] * 8
    for slice_ in gpu["slices"]:
        if slice_["kind"] == "mig":
            for slot in range(int(slice_["start"]), min(8, int(slice_["start"] + slice_["size"]))):
                cells[slot] = "#" if slice_["held"] else "-"
    return f"[{''.join(cells)}]"
