"""Sentences of the table with the numbers of a gang, and the changes that mend a request."""

from collections.abc import Mapping
from typing import Any

from agents.combinations.shape import GangShape
from agents.contract.documents import SliceKind
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.registry import SEVERAL


def _kind_words(kind: SliceKind) -> Message:
    match kind:
        case SliceKind.MIG:
            return Message("MIG slices")
        case SliceKind.MPS:
            return Message("MPS shares")
    return Message("whole GPUs")


def _part_words(shape: GangShape) -> Message:
    return _kind_words(shape.parts[0])


def mixed_kinds(shape: GangShape) -> Message:
    kinds = [_kind_words(kind) for kind in sorted(shape.kinds)]
    return Message("a job has devices of one kind: choose one of %(kinds)s", kinds=kinds)


def without_nccl(shape: GangShape) -> Message:
    return Message(
        "NCCL cannot connect %(n)s processes on %(what)s: choose the gloo backend, or whole GPUs",
        n=shape.ranks,
        what=_part_words(shape),
    )


def by_gloo(shape: GangShape) -> Message:
    return Message(
        "gloo connects the %(n)s processes on %(what)s through the memory of the host, which is "
        "slower than NCCL on whole GPUs",
        n=shape.ranks,
        what=_part_words(shape),
    )


def too_few_gpus(shape: GangShape) -> Message:
    return Message(
        "%(n)s processes need %(n)s GPUs, and a replica has %(gpus)s: request more GPUs or fewer "
        "processes",
        n=shape.processes,
        gpus=shape.gpus,
    )


def launcher_change(shape: GangShape) -> Mapping[str, Any]:
    if shape.launcher is LauncherName.NONE:
        return {"launcher": str(SEVERAL)}
    return {"processes": 1}


def split_over_parts(shape: GangShape) -> Message:
    return Message(
        "tensor parallelism of %(n)s needs GPUs that read each other's memory, which %(what)s do "
        "not: request %(n)s whole GPUs, or set it to 1",
        n=shape.command.tensor_parallel,
        what=_part_words(shape),
    )


def whole_gpus_change(shape: GangShape) -> Mapping[str, Any]:
    return {"device": {"gpus": shape.command.tensor_parallel}} if shape.ranks == 1 else {}


def split_over_replicas(shape: GangShape) -> Message:
    return Message(
        "tensor parallelism of %(n)s spans replicas of %(gpus)s GPUs each, so every layer may wait "
        "for the network: set it to %(gpus)s, or request replicas with %(n)s GPUs",
        n=shape.command.tensor_parallel,
        gpus=shape.gpus,
    )


def profiler_on_share(shape: GangShape) -> Message:
    return Message(
        "%(program)s may fail on an MPS share, since profilers and debuggers support MPS only in "
        "part: request a MIG slice or a whole GPU for it",
        program=shape.command.profiler,
    )
