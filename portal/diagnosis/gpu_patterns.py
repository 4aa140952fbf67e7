"""What GPU programs write when they fail: PyTorch, JAX, TensorFlow, NCCL, DeepSpeed, vLLM. Pure.

The first row that a line matches counts. The phrases are documented messages of their libraries.
"""

import re

from portal.diagnosis.log_pattern import LogPattern
from portal.jobs.failure_causes import Confidence, FailureCause

_LIKELY = Confidence.LIKELY

GPU_PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("CUDA out of memory. Tried to allocate",),
        "CUDA ran out of memory: it tried to allocate %(size)s",
        re.compile(r"Tried to allocate (?P<size>[0-9.]{1,12} [KMGT]iB)"),
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("No available memory for the cache blocks", "than the available KV cache memory"),
        "vLLM has no GPU memory left for its cache",
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("is less than desired GPU memory utilization",),
        "vLLM finds less free GPU memory than it is set to use",
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        (
            "CUDA out of memory",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "cudaErrorMemoryAllocation",
            "CUDA error: out of memory",
            "cudaMalloc failed: out of memory",
            "OutOfMemoryError: Out of memory allocating",
        ),
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("RESOURCE_EXHAUSTED: Out of memory", "RESOURCE_EXHAUSTED: Failed to allocate"),
        "XLA ran out of GPU memory",
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("OOM when allocating tensor with shape",),
        "TensorFlow ran out of GPU memory for a tensor of shape %(shape)s",
        re.compile(r"with shape ?(?P<shape>\[[0-9, ]{0,80}\]).{0,120}device:GPU"),
    ),
    LogPattern(
        FailureCause.GPU_MEMORY,
        ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "Cuda failure 'out of memory'"),
        confidence=_LIKELY,
    ),
    LogPattern(
        FailureCause.GPU_UNSUPPORTED,
        ("no kernel image is available for execution", "cudaErrorNoKernelImageForDevice"),
        "The program has no code for this model of GPU",
    ),
    LogPattern(
        FailureCause.GPU_UNSUPPORTED,
        ("only supports Ampere GPUs or newer", "Bfloat16 is only supported on GPUs with compute"),
        "The program needs a newer model of GPU",
    ),
    LogPattern(
        FailureCause.DRIVER_TOO_OLD,
        ("The NVIDIA driver on your system is too old",),
        "The node's GPU driver is too old for the program (CUDA %(version)s)",
        re.compile(r"found version (?P<version>[0-9]{1,8})"),
    ),
    LogPattern(
        FailureCause.DRIVER_TOO_OLD,
        (
            "CUDA driver version is insufficient for CUDA runtime version",
            "unsupported display driver / cuda driver combination",
            "provided PTX was compiled with an unsupported toolchain",
        ),
        "The node's GPU driver is too old for the program",
    ),
    LogPattern(
        FailureCause.NO_GPU,
        (
            "No CUDA GPUs are available",
            "Found no NVIDIA driver on your system",
            "no CUDA-capable device is detected",
            "CUDA_ERROR_NO_DEVICE",
            "CUDA driver library cannot be found",
            "Torch not compiled with CUDA enabled",
            "torch.cuda.is_available() is False",
            "Failed to infer device type",
        ),
        "The program sees no GPU",
    ),
    LogPattern(
        FailureCause.TOO_FEW_GPUS,
        (
            "CUDA error: invalid device ordinal",
            "Duplicate GPU detected",
            "is larger than the number of available GPUs",
            "world_size is greater than the number of GPUs",
        ),
        "The program wants more GPUs than it has",
    ),
    LogPattern(
        FailureCause.GPU_PROGRAM,
        (
            "CUDA error: an illegal memory access was encountered",
            "CUDA error: device-side assert triggered",
            "CUDA error: misaligned address",
            "CUDA error: unspecified launch failure",
        ),
        "The program caused a GPU error: %(error)s",
        re.compile(r"CUDA error: (?P<error>[a-z -]{1,60})"),
    ),
    LogPattern(
        FailureCause.GPU_FAULT,
        ("uncorrectable ECC error encountered", "CUDA error: the launch timed out", "GPU is lost"),
        "The GPU had a hardware error",
        confidence=_LIKELY,
    ),
    LogPattern(
        FailureCause.COLLECTIVE_TIMEOUT,
        ("Watchdog caught collective operation timeout",),
        "NCCL timed out: rank %(rank)s waited %(seconds)s s for the others in %(operation)s",
        re.compile(
            r"\[Rank (?P<rank>[0-9]{1,5})\].{0,80}OpType=(?P<operation>\w{1,40}).{0,200}"
            r"ran for (?P<seconds>[0-9]{1,9})[0-9]{3} milliseconds"
        ),
        is_consequence=True,
    ),
    LogPattern(
        FailureCause.COLLECTIVE_TIMEOUT,
        (
            "Watchdog caught collective operation timeout",
            "Timed out waiting for all ranks",
            "Timed out waiting 1800000ms for recv",
        ),
        is_consequence=True,
    ),
    LogPattern(
        FailureCause.COLLECTIVE,
        (
            "NCCL error in",
            "ncclSystemError",
            "ncclRemoteError",
            "ncclUnhandledCudaError",
            "ncclInternalError",
            "DistBackendError",
            "DistNetworkError",
            "DistStoreError",
            "Connection closed by peer",
            "Gloo connectFullMesh failed",
        ),
        "The ranks could not reach each other",
        is_consequence=True,
    ),
)
