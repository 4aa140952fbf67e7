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

TEMPLATE_EXAMPLE = OpenApiExample(
    "of a project",
    value={
        "name": "Small training",
        "description": "One slice for two hours",
        "project": "vision",
        "request": {
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py"],
            "device": {"mig": "1g.18gb"},
            "time_limit": "2h",
        },
    },
    request_only=True,
)
TEMPLATE_CHANGE_EXAMPLE = OpenApiExample(
    "its name alone", value={"name": "Small training, two hours"}, request_only=True
)
IMAGES_EXAMPLE = OpenApiExample(
    "two families of images",
    value={"rule": "listed", "patterns": ["pytorch/pytorch:2.*", "registry.example/vision/*"]},
    request_only=True,
)
