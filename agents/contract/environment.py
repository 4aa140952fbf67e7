"""Environment names: what one is, and which ones only the agent sets.

The portal refuses a request that names a reserved one, the node refuses the replica again, and the
agent writes its own last: an image or a user that sets them could see other people's devices.
"""

import re

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED_PREFIXES = ("NVIDIA_", "CUDA_MPS_", "TESSERA_", "PET_")
RESERVED_NAMES = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "NNODES",
        "GROUP_RANK",
    )
)


def is_name(name: str) -> bool:
    """Anything else could smuggle a second one in: "RANK=9" becomes the entry "RANK=9=value"."""
    return ENV_NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Whether only Tessera sets this environment name."""
    return name in RESERVED_NAMES or name.startswith(RESERVED_PREFIXES)
