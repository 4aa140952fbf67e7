"""The launchers by name, as requests and nodes write them."""

from enum import StrEnum


class LauncherName(StrEnum):
    """How the processes of a replica are started. Each has its file in `agents/launchers/`."""

    NONE = "none"
    TORCHRUN = "torchrun"
    ENTRYPOINT = "entrypoint"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron"
    OPENMPI = "openmpi"
    NCCL_TESTS = "nccl-tests"
    JAX = "jax"
    TENSORFLOW = "tensorflow"
    MINDSPORE = "mindspore"
    RAY = "ray"
    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    OLLAMA = "ollama"
    JUPYTER = "jupyter"
    CODE_SERVER = "code-server"


# The launchers of agents that report none.
FIRST_LAUNCHERS = (str(LauncherName.NONE), str(LauncherName.TORCHRUN))
