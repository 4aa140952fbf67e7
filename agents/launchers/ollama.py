"""Ollama: a server that listens for the whole network of its job.

Its default address is that of its own machine, 127.0.0.1 (envconfig/config.go). The programs of its
image find it by the same variable. It loads a model on one GPU if it fits there, else on all.
"""

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launch, Launcher, LaunchRefusal, LaunchRequest

ADDRESS = "0.0.0.0:11434"


class OllamaLauncher(Launcher):
    name = LauncherName.OLLAMA
    summary = "an Ollama server"
    starts_several = False
    keeps_command = True
    programs = frozenset(("ollama serve",))
    variables = frozenset(("OLLAMA_HOST",))

    def environment(self, launch: Launch) -> dict[str, str]:
        return {"OLLAMA_HOST": ADDRESS}

    def command(self, launch: Launch) -> list[str]:
        return list(launch.replica.command)

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        if request.replicas == 1:
            return None
        why = Message(
            "%(program)s serves a model in one replica: request one replica with all GPUs",
            program="Ollama",
        )
        return LaunchRefusal("replicas", why, {"replicas": 1})


LAUNCHER = OllamaLauncher()
