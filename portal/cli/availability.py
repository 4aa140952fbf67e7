"""What is free in the cluster, as REST counts it: rows for tables. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def node_rows(nodes: Iterable[Row], gpus: Iterable[Row], availability: Row) -> list[dict[str, Any]]:
    """Each node with its free devices. `availability`: with nodes."""
    gpus_of, counts_of = _by_node(gpus), _by_node(availability["nodes"])
    return [
        _node_row(node, gpus_of.get(node["name"], []), counts_of.get(node["name"], []))
        for node in nodes
    ]


def device_offers(availability: Row, min_memory_mib: int = 0) -> list[dict[str, Any]]:
    """Devices with at least `min_memory_mib`, by model and kind, smallest first. `availability`:
    with nodes."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for counts in availability["nodes"]:
        for device in counts["devices"]:
            if device["available"]:
                key = (counts["board"], device["kind"], device["profile"])
                nodes.setdefault(key, []).append(counts["node"])
    rows = [
        {
            "model": board["board"],
            "kind": device["kind"],
            "profile": device["profile"],
            "memory_mib": device["memory_mib"],
            "free": device["available"],
            "ready": device["ready"],
            "carvable": device["carvable"],
            "recarvable": device["recarvable"],
            "all": device["total"],
            "nodes": nodes.get((board["board"], device["kind"], device["profile"]), []),
        }
        for board in availability["boards"]
        for device in board["devices"]
        if device["memory_mib"] >= min_memory_mib
    ]
    rows.sort(key=lambda row: (row["memory_mib"], row["model"], row["kind"], row["profile"]))
    return rows


def gpu_maps(gpus: Iterable[Row]) -> str:
    """Each GPU as its memory slots: # in use, - carved and free, . not carved, x out of service."""
    return " ".join(_cells(gpu) for gpu in gpus)


def _node_row(node: Row, gpus: list[Row], counts: list[Row]) -> dict[str, Any]:
    profiles: dict[str, int] = {}
    for device in (device for each in counts for device in each["devices"]):
        if device["kind"] == "mig" and device["ready"]:
            profiles[device["profile"]] = profiles.get(device["profile"], 0) + device["ready"]
    return {
        **node,
        "models": sorted({str(gpu["board"]) for gpu in gpus}),
        "free_gpus": sum(each["free_gpus"] for each in counts),
        "free_slices": dict(sorted(profiles.items())),
        "faulted_gpus": sum(each["out_of_service"] for each in counts),
        "picture": gpu_maps(sorted(gpus, key=lambda gpu: int(gpu["index"]))),
    }


def _by_node(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["node"], []).append(row)
    return found


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
