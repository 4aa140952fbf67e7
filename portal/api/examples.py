"""Requests that work, for the schema and its page."""

from drf_spectacular.utils import OpenApiExample

SUBMIT_EXAMPLES = [
    OpenApiExample(
        "one MIG slice",
        value={
            "project": "vision",
            "name": "train-small",
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py", "--epochs", "3"],
            "device": {"mig": "1g.18gb"},
            "cpu": 4,
            "memory": "16GiB",
            "time_limit": "2h",
        },
        request_only=True,
    ),
    OpenApiExample(
        "two nodes with four GPUs each",
        value={
            "project": "vision",
            "name": "train-ddp",
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["torchrun", "train.py"],
            "replicas": 2,
            "device": {"gpus": 4, "models": ["H200"]},
            "cpu": 32,
            "memory": "256GiB",
            "shm": "64GiB",
            "time_limit": "12h",
            "retries": {"infrastructure": 2, "user": 0},
        },
        request_only=True,
    ),
]
