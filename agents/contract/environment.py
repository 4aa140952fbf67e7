"""Environment names: which are valid, which only the agent may set, and which no image may set.

The portal refuses a request that sets a reserved name, the node refuses such a replica again, and
the agent writes its own values last: an image or a user that sets them could reach the devices of
other people.

Not all of `CUDA_*` is reserved. Names that tune the user's own process are allowed, such as
CUDA_LAUNCH_BLOCKING, CUDA_CACHE_PATH, CUDA_MODULE_LOADING, CUDA_DEVICE_MAX_CONNECTIONS and
CUDA_HOME. Reserved are those that choose devices (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), the
limits and folders of MPS (CUDA_MPS_*), and those by which the driver loads a library at its start
(CUDA_INJECTION*_PATH). Sources: CUDA programming guide, "CUDA environment variables"; MPS guide,
"Environment variables"; CUPTI's sample "cupti_trace_injection".
"""

import re

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED_PREFIXES = ("NVIDIA_", "CUDA_MPS_", "TESSERA_", "PET_")
# Of the members of an array, written into their requests at the submit: they choose nothing here.
OPEN_PREFIXES = ("TESSERA_ARRAY_", "TESSERA_PARAM_")
RESERVED_NAMES = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_INJECTION64_PATH",
        "CUDA_INJECTION32_PATH",
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
# Images may set LD_LIBRARY_PATH and other NVIDIA_* names (CUDA's own base images do). These
# choose devices, load code, or ask the container toolkit for devices and files of the host
# (nvidia-container-toolkit: internal/config/image, internal/modifier/gated.go).
IMAGE_PREFIXES = ("CUDA_MPS_",)
IMAGE_NAMES = frozenset(
    (
        "LD_PRELOAD",
        "LD_AUDIT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_INJECTION64_PATH",
        "CUDA_INJECTION32_PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_GDS",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "NVIDIA_GDRCOPY",
    )
)


def is_environment_name(name: str) -> bool:
    """Whether it is a plain name. Others could smuggle one in: "RANK=9" gives "RANK=9=value"."""
    return ENV_NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Whether only Tessera may set this environment name."""
    is_open = name.startswith(OPEN_PREFIXES)
    return name in RESERVED_NAMES or (name.startswith(RESERVED_PREFIXES) and not is_open)


def is_barred_from_images(name: str) -> bool:
    """Whether an image must not set this name, unless the agent overwrites it."""
    return name in IMAGE_NAMES or name.startswith(IMAGE_PREFIXES)
