"""Megatron-LM: torchrun, and a check that its arguments divide the world, the model and the batch.

Source: `validate_args` in `megatron/training/arguments.py`; of Megatron Core,
`initialize_model_parallel` and the interleaved schedule in `pipeline_parallel/schedules.py`;
Narayanan et al. (SC21), section 3.
"""

from collections.abc import Sequence

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, LaunchRefusal, LaunchRequest
from agents.launchers.command_options import option_count, option_name, option_value
from agents.launchers.torchrun import TorchrunLauncher

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
# With these, communication must be able to overtake computation.
MANY_CONNECTIONS = frozenset(("--use-megatron-fsdp", "--use-custom-fsdp", "--use-torch-fsdp2"))
# So must UCC between the stages of a pipeline.
STAGE_BACKEND = "--pipeline-model-parallel-comm-backend"
# And the all-to-all of experts; Megatron names the number.
OVERLAPPED_EXPERTS, EXPERT_CONNECTIONS = "--overlap-moe-expert-parallel-comm", "32"
TP, PP, CP = (
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--context-parallel-size",
)
EP, ETP = "--expert-model-parallel-size", "--expert-tensor-parallel-size"
# Stages need not have as many layers each.
UNEVEN = frozenset(
    (
        "--decoder-first-pipeline-num-layers",
        "--decoder-last-pipeline-num-layers",
        "--hybrid-layer-pattern",
        "--pipeline-model-parallel-layout",
    )
)
# Each counts as one more layer.
COUNTED = frozenset(
    ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
)
VIRTUAL_LAYERS = "--num-layers-per-virtual-pipeline-stage"
VIRTUAL_STAGES = "--num-virtual-stages-per-pipeline-rank"
GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"


class MegatronLauncher(TorchrunLauncher):
    name = LauncherName.MEGATRON
    summary = "Megatron-LM by torchrun, its parallel sizes checked"
    variables = frozenset((CONNECTIONS,))

    def environment(self, launch: Launch) -> dict[str, str]:
        """One connection keeps kernels in the order in which they overlap communication."""
        own, words = super().environment(launch), launch.replica.command
        names = {option_name(word) for word in words}
        if names & MANY_CONNECTIONS or option_value(words, (STAGE_BACKEND,)) == "ucc":
            return own
        number = EXPERT_CONNECTIONS if OVERLAPPED_EXPERTS in names else "1"
        return own | {CONNECTIONS: number}

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        why = _world_refusal(request) or _model_refusal(request) or _batch_refusal(request)
        return LaunchRefusal("command", why) if why else None


def _world_refusal(request: LaunchRequest) -> Message | None:
    tp, pp, cp = _parallel(request.command)
    if request.ranks % (tp * pp * cp):
        return Message(
            "%(ranks)s processes cannot be divided by tensor × pipeline × context parallel size, "
            "%(tp)s × %(pp)s × %(cp)s",
            ranks=request.ranks,
            tp=tp,
            pp=pp,
            cp=cp,
        )
    if request.processes % tp:
        return Message(
            "tensor parallel size %(tp)s does not divide the %(processes)s processes of a replica: "
            "its ranks have to be on one node",
            tp=tp,
            processes=request.processes,
        )
    ep = _number(request.command, EP) or 1
    etp = _number(request.command, ETP) or tp
    if request.ranks % (etp * ep * pp):
        return Message(
            "%(ranks)s processes cannot be divided by expert tensor × expert × pipeline parallel "
            "size, %(etp)s × %(ep)s × %(pp)s",
            ranks=request.ranks,
            etp=etp,
            ep=ep,
            pp=pp,
        )
    return None


def _model_refusal(request: LaunchRequest) -> Message | None:
    words = request.command
    tp, pp, _ = _parallel(words)
    ep = _number(words, EP) or 1
    names = {option_name(word) for word in words}
    layers = 0 if names & UNEVEN else _number(words, "--num-layers")
    more = len(names & COUNTED) if layers else 0
    for option, amount, added, size, divisor in (
        ("--num-attention-heads", _number(words, "--num-attention-heads"), 0, TP, tp),
        ("--num-layers", layers, more, PP, pp),
        ("--num-experts", _number(words, "--num-experts"), 0, EP, ep),
    ):
        if (amount + added) % divisor:
            return Message(
                "%(option)s %(amount)s cannot be divided by %(size)s %(divisor)s",
                option=option,
                amount=f"{amount} + {added}" if added else amount,
                size=size,
                divisor=divisor,
            )
    return None


def _batch_refusal(request: LaunchRequest) -> Message | None:
    words = request.command
    tp, pp, cp = _parallel(words)
    names = {option_name(word) for word in words}
    micro, whole = _number(words, "--micro-batch-size"), _number(words, "--global-batch-size")
    if not micro or not whole or "--rampup-batch-size" in names:
        return None
    copies = request.ranks // (tp * pp * cp)
    if whole % (micro * copies):
        return Message(
            "--global-batch-size %(whole)s cannot be divided by --micro-batch-size %(micro)s × "
            "%(copies)s data parallel copies",
            whole=whole,
            micro=micro,
            copies=copies,
        )
    batches = whole // (micro * copies)
    return _group_refusal(batches, pp, _number(words, GROUP)) if _is_interleaved(words) else None


def _is_interleaved(words: Sequence[str]) -> bool:
    """Whether each rank has several stages."""
    if stages := _number(words, VIRTUAL_STAGES):
        return stages > 1
    each, layers = _number(words, VIRTUAL_LAYERS), _number(words, "--num-layers")
    more = len(COUNTED & {option_name(word) for word in words})
    _, pp, _ = _parallel(words)
    return each > 0 and (not layers or (layers + more) // pp != each)


def _group_refusal(batches: int, pp: int, group: int) -> Message | None:
    """Micro-batches go through an interleaved pipeline in groups: of as many as it has stages, or
    as many as `group` says (0 if it is not there)."""
    if not group and batches % pp:
        return Message(
            "%(batches)s micro-batches cannot be divided by the %(pp)s stages of an interleaved "
            "pipeline",
            batches=batches,
            pp=pp,
        )
    if group and (not pp <= group <= batches or 0 < batches % group < pp):
        return Message(
            "%(batches)s micro-batches cannot go in groups of %(group)s through the %(pp)s stages "
            "of an interleaved pipeline: a group has no more than there are, and neither it nor "
            "what is left over has fewer than there are stages",
            batches=batches,
            group=group,
            pp=pp,
        )
    return None


def _parallel(words: Sequence[str]) -> tuple[int, int, int]:
    """Tensor, pipeline and context parallel sizes."""
    tp, pp, cp = (_number(words, option) or 1 for option in (TP, PP, CP))
    return tp, pp, cp


def _number(words: Sequence[str], option: str) -> int:
    """0 if it is not there."""
    return option_count(words, (option,)) or 0


LAUNCHER = MegatronLauncher()
