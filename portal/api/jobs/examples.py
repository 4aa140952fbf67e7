"""Examples of job requests and a dry run, for the schema and its page."""

from drf_spectacular.utils import OpenApiExample

SUBMIT_EXAMPLES = [
    OpenApiExample(
        "One MIG slice",
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
        "Two nodes with four GPUs each",
        value={
            "project": "vision",
            "name": "train-ddp",
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py"],
            "launcher": "torchrun",
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

DRY_RUN_EXAMPLE = OpenApiExample(
    "it would start now (dry_run=true)",
    value={
        "possible": True,
        "verdict": "now",
        "as_of": "2026-11-20T09:30:00Z",
        "reason": None,
        "approval": None,
        "placement": [
            {
                "rank": 0,
                "node": "gpu-a1",
                "gpu": 2,
                "kind": "mig",
                "profile": "1g.18gb",
                "threads": 0,
                "memory_mib": 16_384,
                "units": 8_000,
                "carved": True,
            }
        ],
        "units": 8_000,
        "gpu_hours": "0.2858",
        "estimate": None,
        "no_estimate": None,
        "limits": [
            {
                "of": "quota",
                "user": "",
                "model": "",
                "used": 692_000,
                "would_be": 700_000,
                "limit": 896_000,
                "is_over": False,
                "ends_at": None,
            }
        ],
        "alternatives": [],
        "warnings": [],
        "request": {
            "project": "vision",
            "name": "train-small",
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py", "--epochs", "3"],
            "device": {"mig": "1g.18gb"},
            "cpu": "4",
            "memory": "16GiB",
            "time_limit": "2h",
        },
        "launch": {
            "command": ["python", "train.py", "--epochs", "3"],
            "environment": {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "replica-0"},
            "files": {},
            "replicas": [
                {"rank": 0, "node": "gpu-a1", "command": [], "environment": {}, "files": {}}
            ],
            "joined_replicas": 1,
            "sharing": "",
        },
    },
    response_only=True,
    status_codes=["200"],
)
