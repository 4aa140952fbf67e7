"""The request of every job of the benchmarks, as REST takes it: one GPU, one replica."""

from typing import Any


def job_request(command: list[str]) -> dict[str, Any]:
    return {
        "project": "vision",
        "name": "bench",
        "image": "tessera-example:latest",
        "command": command,
        "device": {"gpus": 1},
        "cpu": "100m",
        "memory": "128MiB",
        "time_limit": "10m",
        "retries": {"infrastructure": 0},
    }
