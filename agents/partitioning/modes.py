"""MIG mode changes that stay pending: on Ampere until the GPU is reset, and in a virtual machine
with a passed-through GPU until a reboot (MIG User Guide)."""

from agents.facts.gpus import GpuFacts
from agents.facts.partitions import PartitionProblem
from agents.host.programs import program_failure

RESET_SECONDS = 120.0
RESET_REQUIRED, REBOOT_REQUIRED = "reset_required", "reboot_required"


def reset_required(gpu: GpuFacts, reason: str = "") -> PartitionProblem:
    """`reason`: why the agent did not reset it itself."""
    sentence = (
        f"Reset required: the MIG mode of GPU {gpu.index} changes when it is reset."
        f" Stop the agent and all work on it, then: sudo nvidia-smi --gpu-reset -i {gpu.index}."
        f" {reason or 'may_reset_gpus = true in the policy lets the agent do it'}"
    )
    return PartitionProblem(gpu.uuid, RESET_REQUIRED, sentence.strip())


def reboot_required(gpu: GpuFacts, reason: str) -> PartitionProblem:
    sentence = (
        f"Reboot required: the MIG mode of GPU {gpu.index} changes when the node reboots, since"
        f" {reason}. Let its jobs end, then: sudo reboot"
    )
    return PartitionProblem(gpu.uuid, REBOOT_REQUIRED, sentence)


def reset_gpu(program: str, gpu: GpuFacts) -> PartitionProblem | None:
    """Reset this GPU alone; None if it worked. It is named by UUID, so no other can be meant.

    Call it while this process has no handle: the driver resets no GPU that is open. One that says
    that it is in use is left to a person."""
    why = program_failure(RESET_SECONDS, program, "--gpu-reset", "-i", gpu.uuid)
    if not why:
        return None
    return reset_required(gpu, why) if "in use" in why.lower() else reboot_required(gpu, why)
