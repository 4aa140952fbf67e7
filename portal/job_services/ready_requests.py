"""Model servers to begin a service with: their request, port and health path.

Each downloads its model at the start; a volume or a shared cache keeps it for the next copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadyService:
    label: str
    port: int
    health_path: str
    request: str
    """YAML, as people write it; without the project."""
    call_path: str
    call_body: str
    """JSON of an example call; empty for a GET."""


CHAT = '{"model": "%s", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'

READY_SERVICES: Mapping[str, ReadyService] = {
    "vllm": ReadyService(
        "vLLM",
        8000,
        "/health",
        """image: vllm/vllm-openai:v0.11.0
command: [vllm, serve, Qwen/Qwen3-8B, --port, "8000"]
device: {gpus: 1}
time_limit: 24h
""",
        "/v1/chat/completions",
        CHAT % "Qwen/Qwen3-8B",
    ),
    "tgi": ReadyService(
        "Text Generation Inference",
        8080,
        "/health",
        """image: ghcr.io/huggingface/text-generation-inference:3.3.5
command: [text-generation-launcher, --model-id, Qwen/Qwen3-8B, --port, "8080"]
device: {gpus: 1}
time_limit: 24h
""",
        "/v1/chat/completions",
        CHAT % "tgi",
    ),
    "ollama": ReadyService(
        "Ollama",
        11434,
        "/api/tags",
        """image: ollama/ollama:0.12.3
command: [ollama, serve]
env: {OLLAMA_HOST: "0.0.0.0:11434"}
device: {memory: 16GiB}
time_limit: 24h
""",
        "/api/chat",
        '{"model": "llama3.2:1b", "messages": [{"role": "user", "content": "Hello"}], '
        '"stream": false}',
    ),
}
"""By the word in the address of the page."""


def ready_service_of(image: str) -> ReadyService | None:
    """The one whose image this is, whatever its tag: how to call such a server."""
    repository = image.rpartition(":")[0] or image
    for ready in READY_SERVICES.values():
        line = ready.request.partition("\n")[0].removeprefix("image: ")
        if line.rpartition(":")[0] == repository:
            return ready
    return None
