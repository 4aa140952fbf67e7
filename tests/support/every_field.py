"""A value for every field of a request but project, name, image, command and `after`: those are the
test's own."""

from typing import Any

EVERY_FIELD: dict[str, Any] = {
    "kind": "service",
    "launcher": "torchrun",
    "code": "8c5b0a3e-2f41-4a7d-9a63-0d9f3c1e7b52",
    "replicas": 2,
    "processes": 1,
    "device": {"gpus": 2, "models": ["H200"]},
    "cpu": "1500m",
    "memory": "3GiB",
    "shm": "2GiB",
    "disk": "20GiB",
    "time_limit": "2h",
    "priority": "low",
    "topology": "any",
    "backend": "gloo",
    "rdma": "off",
    "containers": "per-replica",
    "preflight": "all-reduce",
    "retries": {"infrastructure": 1, "user": 2},
    "grace": "2m",
    "env": {"A": "1", "B": "x=y"},
    "secrets": ["HF_TOKEN", "WANDB_API_KEY:env"],
    "volumes": [{"volume": "imagenet", "path": "/data", "read_only": True}],
    "apps": ["web:8080", "tensorboard:6006"],
    "preemptible": False,
    "idle_stop": False,
    "progress_limit": "30m:warn",
    "begin_at": "2090-01-31T18:00:00+00:00",
    "array": "%2",
    "sweep": ["lr=1e-3,1e-4"],
    "notify": ["email"],
    "needs": ["nvme"],
    "tolerates": ["beta"],
}
