"""Text Generation Inference: one server, its model in one shard for each GPU of the replica.

Source of the options: Hugging Face's manual, "Text-generation-launcher arguments". It reads
HOSTNAME and PORT, too, which containers and images set for other ends: both are written out.
"""

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch
from agents.launchers.command_options import option_value
from agents.launchers.model_servers import ModelServer

# By their spellings, of which the first is added: clap takes an option only once.
LISTEN = {("--hostname",): "0.0.0.0", ("--port", "-p"): "8080"}  # noqa: S104


class TgiLauncher(ModelServer):
    name = LauncherName.TGI
    summary = "Text Generation Inference, one shard per GPU"
    title = "Text Generation Inference"
    example = "text-generation-launcher --model-id Qwen/Qwen3-8B"
    # The entrypoint of its image, which chooses the Python of the shards.
    programs = frozenset(("text-generation-launcher", "tgi-entrypoint.sh"))
    tensor = ("--num-shard",)
    # What it gives each of its shards (launcher/src/main.rs).
    sets = frozenset(("RANK", "WORLD_SIZE"))

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}

    def place_options(self, launch: Launch) -> list[str]:
        return []

    def listen_options(self, words: list[str]) -> list[str]:
        left = (names for names in LISTEN if option_value(words, names) is None)
        return [word for names in left for word in (names[0], LISTEN[names])]


LAUNCHER = TgiLauncher()
