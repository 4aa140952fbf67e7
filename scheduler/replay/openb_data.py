"""Alibaba's openb trace: its nodes, its pod lists, and the sequences that are made of them.

Source: cluster-trace-gpu-v2023 in the form of kubernetes-scheduler-simulator (Apache-2.0).
"""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.tables import ClusterExtent
from scheduler.replay.errors import ReplayError

GPU_MILLI = 1_000  # thousandths of a GPU
INFLATE_TO = 1.3  # of the cluster's GPUs: how much work arrives
Ints = npt.NDArray[np.int64]


class TraceError(ReplayError):
    """Names the file, the line and what is wrong."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: int


@dataclass(frozen=True, slots=True)
class TraceCluster:
    """Nodes by name. `models`: names, by number."""

    nodes: tuple[TraceNode, ...]
    models: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def extent(self) -> ClusterExtent:
        by_model = [0] * len(self.models)
        for node in self.nodes:
            by_model[node.model] += node.gpus
        return ClusterExtent(
            cpu_milli=max(node.cpu_milli for node in self.nodes),
            memory_mib=max(node.memory_mib for node in self.nodes),
            max_gpus_per_node=max(node.gpus for node in self.nodes),
            gpus_by_model=tuple(by_model),
        )

    def nodes_in_order(self, order: Ints) -> tuple[NodeRoom, ...]:
        """Empty nodes, by the numbers in `order`."""
        nodes = (self.nodes[int(n)] for n in order)
        return tuple(
            NodeRoom(node.model, node.cpu_milli, node.memory_mib, (GPU_MILLI,) * node.gpus)
            for node in nodes
        )


@dataclass(frozen=True, slots=True)
class TracePods:
    """Pods by name: `kind` [pods] is the number of each one's kind."""

    kinds: tuple[RequestKind, ...]
    kind: Ints

    @property
    def milli(self) -> Ints:
        """Thousandths of a GPU that each pod asks for in all."""
        return np.array([round(k.amount * GPU_MILLI) for k in self.kinds], np.int64)[self.kind]

    def mix(self) -> dict[RequestKind, float]:
        counts = np.bincount(self.kind, minlength=len(self.kinds))
        return {kind: float(count) for kind, count in zip(self.kinds, counts, strict=True)}


def read_cluster(path: Path) -> TraceCluster:
    """Columns sn, cpu_milli, memory_mib, gpu, model. Raises TraceError."""
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    models = tuple(sorted({row["model"] for _, row in rows}))
    nodes = [
        TraceNode(
            row["sn"],
            _number(path, line, row, "cpu_milli"),
            _number(path, line, row, "memory_mib"),
            _number(path, line, row, "gpu", least=1),
            models.index(row["model"]),
        )
        for line, row in rows
    ]
    return TraceCluster(tuple(sorted(nodes, key=lambda node: node.name)), models)


def read_pods(path: Path, models: tuple[str, ...]) -> TracePods:
    """Columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, in some lists, gpu_spec: models
    that may serve, joined by "|". Raises TraceError."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    rows = sorted(_rows(path, columns), key=lambda item: item[1]["name"])
    numbers: dict[RequestKind, int] = {}
    which = [numbers.setdefault(_kind(path, *row, models), len(numbers)) for row in rows]
    return TracePods(tuple(numbers), np.array(which, np.int64))


def inflation_arrivals(pods: TracePods, cluster: TraceCluster, seed: int) -> tuple[Ints, Ints]:
    """(numbers of pods as they arrive, order of nodes) of one seed of the inflation benchmark.

    All pods shuffled, then copies of pods drawn uniformly until the next would exceed INFLATE_TO of
    the cluster (that check uses a pod's thousandths per GPU); where the list is larger, pods drawn
    at random leave until it is not. Nodes in a random order.
    """
    random = np.random.default_rng(seed)
    milli = pods.milli
    each = np.array([round(k.gpus_each * GPU_MILLI) for k in pods.kinds], np.int64)[pods.kind]
    arrivals = [int(pod) for pod in random.permutation(len(milli))]
    target, total = INFLATE_TO * cluster.gpus * GPU_MILLI, int(milli.sum())
    while total > target:
        total -= int(milli[arrivals.pop(int(random.integers(len(arrivals))))])
    while True:
        pod = int(random.integers(len(milli)))
        if total + each[pod] > target:
            break
        arrivals.append(pod)
        total += int(milli[pod])
    return np.array(arrivals, np.int64), random.permutation(len(cluster.nodes))


def _kind(path: Path, line: int, row: dict[str, str], models: tuple[str, ...]) -> RequestKind:
    gpus, each = _number(path, line, row, "num_gpu"), _number(path, line, row, "gpu_milli")
    if (gpus and not 0 < each <= GPU_MILLI) or (gpus > 1 and each != GPU_MILLI):
        raise TraceError(
            f"{path}, line {line}: {gpus} GPUs of {each} thousandths each are no request"
        )
    names = {name for name in (row.get("gpu_spec") or "").split("|") if name}
    allowed = frozenset(i for i, model in enumerate(models) if model in names)
    return RequestKind(
        cpu_milli=_number(path, line, row, "cpu_milli"),
        memory_mib=_number(path, line, row, "memory_mib"),
        gpus=gpus,
        amount=gpus * each / GPU_MILLI,
        shape=each if gpus else 0,
        models=allowed if names else None,
    )


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """(line, row) of each line of a table, which may be packed by gzip."""
    try:
        packed = path.suffix == ".gz"
        text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text()
    except (OSError, EOFError, ValueError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from None
    lines = csv.DictReader(text.splitlines())
    missing = [name for name in columns if name not in (lines.fieldnames or ())]
    if missing:
        raise TraceError(
            f"{path} has no column {missing[0]}; its columns must be {', '.join(columns)}"
        )
    rows = []
    for line, row in enumerate(lines, start=2):
        if any(row[name] is None for name in columns):
            raise TraceError(f"{path}, line {line}: has fewer columns than its heading")
        rows.append((line, row))
    if not rows:
        raise TraceError(f"{path} has a heading and no lines")
    return rows


def _number(path: Path, line: int, row: dict[str, str], name: str, least: int = 0) -> int:
    text = row[name]
    if text.isascii() and text.isdigit() and least <= int(text) < 2**40:
        return int(text)
    raise TraceError(f"{path}, line {line}: {name} is {text!r}, not a whole number from {least}")
