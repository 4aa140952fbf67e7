"""The table, in the order in which refusals are told; and what of it applies to a gang.

Sources are NVIDIA's MIG User Guide and MPS guide, NCCL's sources, and the manuals of the programs.

NCCL has experimental support for MIG instances (nccl #1716), but from which release on, and what a
node would have to check in an image for it, is not known. So NCCL on slices has no exception here.
"""

from collections.abc import Iterator

from agents.combinations.combination import Combination, CombinationCode, CombinationVerdict
from agents.combinations.commands import CommandTraits
from agents.combinations.sentences import (
    by_gloo,
    launcher_change,
    mixed_kinds,
    profiler_on_share,
    split_over_parts,
    split_over_replicas,
    too_few_gpus,
    whole_gpus_change,
    without_nccl,
)
from agents.combinations.shape import GangShape
from agents.contract.collectives import can_join_by_nccl
from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.contract.shares import too_few_threads
from agents.launchers.nested import nested_sentence
from agents.launchers.registry import LAUNCHERS, processes_refusal

REFUSE, WARN, ALLOW = CombinationVerdict.REFUSE, CombinationVerdict.WARN, CombinationVerdict.ALLOW
GPU, MIG, MPS = SliceKind.GPU, SliceKind.MIG, SliceKind.MPS
NCCL, GLOO = CollectiveBackend.NCCL, CollectiveBackend.GLOO
TORCHRUN = LauncherName.TORCHRUN


def _joins_parts(shape: GangShape, backend: CollectiveBackend) -> bool:
    """Whether it is to connect processes on slices or shares by this backend."""
    return shape.backend is backend and not can_join_by_nccl(shape.kinds, shape.ranks)


COMBINATIONS = (
    Combination(
        CombinationCode.MIXED_DEVICES,
        REFUSE,
        "device",
        what="devices of two kinds in one job, such as whole GPUs and MIG slices",
        when=lambda shape: len(shape.kinds) > 1,
        sentence=mixed_kinds,
        example=GangShape(frozenset((GPU, MIG)), gpus=1),
        source="the slowest rank and the smallest memory decide",
    ),
    Combination(
        CombinationCode.NCCL_ON_MIG,
        REFUSE,
        "backend",
        what="NCCL, and two or more processes on MIG slices",
        when=lambda shape: _joins_parts(shape, NCCL) and MIG in shape.kinds,
        sentence=without_nccl,
        example=GangShape(frozenset((MIG,)), replicas=2, backend=NCCL),
        source="MIG User Guide, application considerations",
        changes=lambda shape: {"backend": str(GLOO)},
    ),
    Combination(
        CombinationCode.NCCL_ON_MPS,
        REFUSE,
        "backend",
        what="NCCL, and two or more processes on MPS shares",
        when=lambda shape: _joins_parts(shape, NCCL) and shape.parts == [MPS],
        sentence=without_nccl,
        example=GangShape(frozenset((MPS,)), threads=25, replicas=2, backend=NCCL),
        source='NCCL, init.cc, "Duplicate GPU detected"',
        changes=lambda shape: {"backend": str(GLOO)},
    ),
    Combination(
        CombinationCode.PROCESSES_OVER_GPUS,
        REFUSE,
        "processes",
        what="more processes in a replica than it has whole GPUs",
        when=lambda shape: 0 < shape.gpus < shape.processes,
        sentence=too_few_gpus,
        example=GangShape(frozenset((GPU,)), gpus=2, processes=3, launcher=TORCHRUN),
        source="torchrun, `--nproc-per-node`",
        changes=lambda shape: {"processes": shape.gpus},
    ),
    Combination(
        CombinationCode.PROCESSES_OVER_THREADS,
        REFUSE,
        "processes",
        what="an MPS share with less than 1 % of the SMs for each process",
        when=lambda shape: bool(shape.threads and too_few_threads(shape.threads, shape.processes)),
        sentence=lambda shape: too_few_threads(shape.threads, shape.processes),
        example=GangShape(frozenset((MPS,)), threads=3, processes=4, launcher=TORCHRUN),
        source="MPS guide, active thread percentage",
        changes=lambda shape: {"processes": shape.threads},
    ),
    Combination(
        CombinationCode.PROCESSES_OVER_LAUNCHER,
        REFUSE,
        "processes",
        what="several processes in a replica, and a launcher that starts one",
        when=lambda shape: bool(processes_refusal(shape.launcher, shape.processes)),
        sentence=lambda shape: processes_refusal(shape.launcher, shape.processes),
        example=GangShape(frozenset((GPU,)), gpus=2, processes=2),
        source="[launchers](launchers.md)",
        changes=launcher_change,
    ),
    Combination(
        CombinationCode.LAUNCHER_IN_COMMAND,
        REFUSE,
        "command",
        what="a launcher, and a command that begins with one",
        when=lambda shape: bool(
            shape.command.launcher and not LAUNCHERS[shape.launcher].keeps_command
        ),
        sentence=lambda shape: nested_sentence(shape.command.launcher, shape.launcher),
        example=GangShape(
            frozenset((GPU,)), gpus=1, launcher=TORCHRUN, command=CommandTraits(launcher="mpirun")
        ),
        source="[launchers](launchers.md#a-launcher-in-the-command)",
    ),
    Combination(
        CombinationCode.TENSOR_PARALLEL_ON_PARTS,
        REFUSE,
        "command",
        what="tensor parallelism over MIG slices or MPS shares",
        when=lambda shape: bool(shape.parts) and shape.command.tensor_parallel > 1,
        sentence=split_over_parts,
        example=GangShape(frozenset((MIG,)), command=CommandTraits(tensor_parallel=2)),
        source="vLLM #17047: one instance for each server",
        changes=whole_gpus_change,
    ),
    Combination(
        CombinationCode.TENSOR_PARALLEL_OVER_REPLICAS,
        WARN,
        "command",
        what="tensor parallelism over more GPUs than a replica has",
        when=lambda shape: (
            0 < shape.gpus < shape.command.tensor_parallel
            and shape.replicas > 1
            and not shape.single_node
        ),
        sentence=split_over_replicas,
        example=GangShape(
            frozenset((GPU,)), gpus=4, replicas=2, command=CommandTraits(tensor_parallel=8)
        ),
        source="vLLM, parallelism and scaling: tensors within a node",
    ),
    Combination(
        CombinationCode.NVLINK_ON_MIG,
        WARN,
        "topology",
        what="topology `nvlink`, and several replicas on MIG slices",
        when=lambda shape: shape.nvlink and shape.replicas > 1 and MIG in shape.kinds,
        sentence=lambda shape: Message(
            "MIG slices have no NVLink: topology nvlink only keeps the replicas on one node"
        ),
        example=GangShape(frozenset((MIG,)), replicas=2, single_node=True, nvlink=True),
        source="MIG User Guide, application considerations",
    ),
    Combination(
        CombinationCode.PROFILER_ON_MPS,
        WARN,
        "command",
        what="a profiler or a debugger on an MPS share",
        when=lambda shape: bool(shape.command.profiler) and MPS in shape.kinds,
        sentence=profiler_on_share,
        example=GangShape(
            frozenset((MPS,)), threads=25, command=CommandTraits(profiler="cuda-gdb")
        ),
        source="MPS guide, tools",
    ),
    Combination(
        CombinationCode.NEIGHBOURS_ON_MPS,
        WARN,
        "device",
        what="an MPS share of a GPU on which other users of the project have shares",
        when=lambda shape: shape.has_neighbours and MPS in shape.kinds,
        sentence=lambda shape: Message(
            "other users of the project have shares of the same GPU, and a fatal fault of one "
            "program reaches all of them: request a MIG slice for work that must not be disturbed"
        ),
        example=GangShape(frozenset((MPS,)), threads=25, has_neighbours=True),
        source="MPS guide, error containment",
    ),
    Combination(
        CombinationCode.GLOO_ON_PARTS,
        ALLOW,
        "backend",
        what="gloo, or the backend `auto`, and two or more processes on MIG slices or MPS shares",
        when=lambda shape: _joins_parts(shape, GLOO) or _joins_parts(shape, CollectiveBackend.AUTO),
        sentence=by_gloo,
        example=GangShape(frozenset((MIG,)), replicas=2),
        source="torch.distributed, backends",
    ),
)


REFUSAL_CODES = tuple(str(row.code) for row in COMBINATIONS if row.verdict is REFUSE)


def matching(shape: GangShape, verdict: CombinationVerdict) -> Iterator[Combination]:
    """The rows with this verdict that apply."""
    return (row for row in COMBINATIONS if row.verdict is verdict and row.when(shape))
