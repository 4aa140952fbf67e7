"""A MIG mode that is set, and does not come true by itself: on Ampere a change waits for a reset of
the GPU, in a virtual machine that the GPU was passed to for a reboot (MIG User Guide)."""

from agents.facts.gpus import GpuFacts
from agents.facts.partitions import PartitionProblem
from agents.host.programs import program_failure

RESET_SECONDS = 120.0
RESET_REQUIRED, REBOOT_REQUIRED = "reset_required", "reboot_required"


def reset_required(gpu: GpuFacts, reason: str = "") -> PartitionProblem:
    """`why`: why the agent did not do it itself."""
    sentence = (
        f"Reset required: the MIG mode of GPU {gpu.index} changes when it is reset."
        f" With the agent stopped and nothing on it: sudo nvidia-smi --gpu-reset -i {gpu.index}."
        f" {reason or 'may_reset_gpus = true in the policy lets the agent do it'}"
    )
    return PartitionProblem(gpu.uuid, RESET_REQUIRED, sentence.strip())


def reboot_required(gpu: GpuFacts, reason: str) -> PartitionProblem:
    sentence = (
        f"Reboot required: the MIG mode of GPU {gpu.index} changes when the node starts anew, since"
        f" {reason}. Let its jobs end, then: sudo reboot"
    )
    return PartitionProblem(gpu.uuid, REBOOT_REQUIRED, sentence)


def reset_gpu(program: str, gpu: GpuFacts) -> PartitionProblem | None:
    """Reset this GPU alone; None where it worked. By UUID: no other GPU can be meant by it.

    Our own session keeps the GPU open too. That a driver lets it be reset nevertheless is not
    verified; one that does not says that it is in use, and the reset is left to a person."""
    why = program_failure(RESET_SECONDS, program, "--gpu-reset", "-i", gpu.uuid)
    if not why:
        return None
    return reset_required(gpu, why) if "in use" in why.lower() else reboot_required(gpu, why)
