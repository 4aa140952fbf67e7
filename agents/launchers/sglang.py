"""SGLang: tensor parallelism over the GPUs of a replica, pipeline parallelism over the replicas.

Source of the options: SGLang's manual, "Server Arguments" and "Multi-node deployment".
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.command_options import option_name, option_value
from agents.launchers.endpoints import meeting_endpoint
from agents.launchers.model_servers import ModelServer

DP_ATTENTION = "--enable-dp-attention"


class SglangLauncher(ModelServer):
    name = LauncherName.SGLANG
    summary = "SGLang, its model split over all GPUs of the job"
    title = "SGLang"
    example = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
    programs = frozenset(("sglang.launch_server", "sglang serve"))
    tensor = ("--tp-size", "--tensor-parallel-size", "--tp")
    pipeline = ("--pp-size", "--pipeline-parallel-size", "--pp")
    copies = ("--dp-size", "--data-parallel-size", "--dp")
    places = frozenset(("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"))

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}

    def place_options(self, launch: Launch) -> list[str]:
        place = ["--nnodes", str(launch.replica.world), "--node-rank", str(launch.replica.rank)]
        return [*place, "--dist-init-addr", meeting_endpoint(launch.rendezvous)]

    def model_copies(self, words: list[str]) -> int:
        """With data parallel attention the copies share the GPUs of tensor parallelism."""
        is_shared = DP_ATTENTION in map(option_name, words)
        return 1 if is_shared else super().model_copies(words)

    def listen_options(self, words: list[str]) -> list[str]:
        """It would listen on 127.0.0.1 alone."""
        return [] if option_value(words, ("--host",)) is not None else ["--host", "0.0.0.0"]  # noqa: S104


LAUNCHER = SglangLauncher()
