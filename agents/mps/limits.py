"""How many clients an MPS server takes. Pure.

Source: NVIDIA's MPS guide: 16 clients per GPU before Volta; 48 up to CUDA 13.0, 60 from 13.1; on a
MIG instance in proportion to its compute slices.
"""

PRE_VOLTA, UP_TO_13_0, FROM_13_1 = 16, 48, 60
VOLTA = (7, 0)
CUDA_13_1 = (13, 1)


def max_clients(
    cuda: str, capability: str = "", compute_slices: int = 1, total_slices: int = 1
) -> int:
    """Clients of a server on `compute` of the GPU's `of` compute slices; never less than one.

    `cuda`: the driver's CUDA version, such as "13.0"; if it cannot be parsed it counts as an old
    one. `capability`: the GPU's compute capability; if empty it counts as a new one."""
    per_gpu = FROM_13_1 if _version(cuda) >= CUDA_13_1 else UP_TO_13_0
    if capability and _version(capability) < VOLTA:
        per_gpu = PRE_VOLTA
    return max(1, per_gpu * compute_slices // total_slices)


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts) if all(p.isdigit() for p in parts) else (0,)
