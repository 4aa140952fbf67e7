"""Megatron-LM: torchrun, and a check that its arguments divide the world, the model and the batch.

Source: `megatron/training/arguments.py`, `validate_args`; Narayanan et al. (SC21), section 3.
"""

from collections.abc import Sequence

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, LaunchRefusal, LaunchRequest
from agents.launchers.command_options import option_count, option_name
from agents.launchers.torchrun import TorchrunLauncher

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
# With these, communication must be able to overtake computation.
MANY_CONNECTIONS = frozenset(("--use-megatron-fsdp", "--use-custom-fsdp", "--use-torch-fsdp2"))
TP, PP, CP = (
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--context-parallel-size",
)
# Stages need not have as many layers each.
UNEVEN = frozenset(
    (
        "--account-for-embedding-in-pipeline-split",
        "--account-for-loss-in-pipeline-split",
        "--decoder-first-pipeline-num-layers",
        "--decoder-last-pipeline-num-layers",
        "--pipeline-model-parallel-layout",
    )
)
INTERLEAVED = frozenset(
    ("--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank")
)


class MegatronLauncher(TorchrunLauncher):
    name = LauncherName.MEGATRON
    summary = "Megatron-LM by torchrun, its parallel sizes checked"
    variables = frozenset((CONNECTIONS,))

    def environment(self, launch: Launch) -> dict[str, str]:
        """One connection keeps kernels in the order in which they overlap communication."""
        own = super().environment(launch)
        names = {option_name(word) for word in launch.replica.command}
        return own if names & MANY_CONNECTIONS else own | {CONNECTIONS: "1"}

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
    return None


def _model_refusal(request: LaunchRequest) -> Message | None:
    words = request.command
    tp, pp, _ = _parallel(words)
    names = {option_name(word) for word in words}
    layers = 0 if names & UNEVEN else _number(words, "--num-layers")
    for option, amount, size, divisor in (
        ("--num-attention-heads", _number(words, "--num-attention-heads"), TP, tp),
        ("--num-layers", layers, PP, pp),
    ):
        if amount % divisor:
            return Message(
                "%(option)s %(amount)s cannot be divided by %(size)s %(divisor)s",
                option=option,
                amount=amount,
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
    if names & INTERLEAVED and batches % pp:
        return Message(
            "%(batches)s micro-batches cannot be divided by the %(pp)s stages of an interleaved "
            "pipeline",
            batches=batches,
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
